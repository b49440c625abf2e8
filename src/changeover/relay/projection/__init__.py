"""Pure parts of the read models and of admission checks, shared by all stores."""
