"""What each event means for the state of its conversation; `relay/state.py` has the tables."""
