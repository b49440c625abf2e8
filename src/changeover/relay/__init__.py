"""The core: a log of events, the state they fold to, the commands it calls for, and their performance."""
