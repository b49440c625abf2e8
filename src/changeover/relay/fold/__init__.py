"""How each event changes the state of its conversation."""
