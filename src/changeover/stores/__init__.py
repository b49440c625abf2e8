"""Where logs live."""
