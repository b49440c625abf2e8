"""Handoffs as data: the package, the transition table, the strategies, and the texts that a receiver reads."""
