"""The effects: what commands do to the world outside the log."""
