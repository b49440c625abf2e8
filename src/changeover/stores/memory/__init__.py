"""The log, the queue and the tables in the memory of one process."""
