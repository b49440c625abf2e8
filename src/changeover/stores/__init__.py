"""Stores: where the log and its read models live, in memory or in a SQL database."""
