"""The log, the queue and the tables in an SQL database."""
