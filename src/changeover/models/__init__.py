"""Whatever can think: providers by way of pydantic-ai, and a model that needs no network."""
