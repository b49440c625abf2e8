"""What of a conversation is kept word for word when the rest is left out."""
