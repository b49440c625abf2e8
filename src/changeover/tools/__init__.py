"""Declarations of tools, and what a tool may know of the run it serves."""
