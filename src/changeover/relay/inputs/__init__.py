"""Inputs: what callers, workers and clocks put into a conversation, as pure values that every engine records alike."""
