"""What was left out of receivers' views, kept where they can fetch it: in memory and in databases."""
