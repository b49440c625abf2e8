"""What came of the conversations that took part in experiments: in databases, and for a log in memory."""
