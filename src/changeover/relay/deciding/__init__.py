"""What is due in a turn: for its tools, its delegates, its transfers."""
