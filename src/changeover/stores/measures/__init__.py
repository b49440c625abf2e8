"""What a store counts for metrics: in databases, and for a log in memory."""
