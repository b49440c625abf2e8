"""What a handoff is: its states, its strategies, what travels with it."""
