"""Effects: the only code of the core that touches the outside world. A command in, an event out, for any engine."""
