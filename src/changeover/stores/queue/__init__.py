"""The tickets of a store: whose turn it is, in memory and in databases."""
