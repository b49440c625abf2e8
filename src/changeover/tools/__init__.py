"""Declarations of tools, commands, and the run context that a tool receives."""
