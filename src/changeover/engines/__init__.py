"""Engines: where and when the commands of a conversation are performed."""
