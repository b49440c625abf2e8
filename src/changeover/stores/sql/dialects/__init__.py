"""What SQLite and PostgreSQL do differently."""
