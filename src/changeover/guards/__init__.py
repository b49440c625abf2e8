"""What judges whether work may go on."""
