"""Agents as users declare them, and the compiled roster of a team."""
