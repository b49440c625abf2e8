"""The log in a SQL database that several processes may share."""
