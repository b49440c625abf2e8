"""Models: providers by way of pydantic-ai, and a model that works offline."""
