"""Decisions: what a conversation does next. Pure: the same state and roster give the same commands."""
