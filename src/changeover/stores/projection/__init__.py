"""The read models: which rows of the tables an entry of the log makes or changes."""
