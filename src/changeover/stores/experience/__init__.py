"""What became of tasks whose receivers were looked for: in memory and in databases."""
