"""What a conversation does next: pure functions of its state and the team."""
