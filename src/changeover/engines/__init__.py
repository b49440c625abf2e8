"""Where and when commands are performed."""
