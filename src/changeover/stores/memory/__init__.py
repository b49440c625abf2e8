"""The log in memory, with its queue and side tables: gone when the process ends."""
