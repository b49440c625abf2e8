"""The fold: how each event changes the state of its conversation; `relay/state.py` has the tables."""
