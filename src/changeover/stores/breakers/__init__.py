"""How the receivers of handoffs do, kept where all who share a store see it: in memory and in databases."""
