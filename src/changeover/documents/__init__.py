"""A team as data: YAML or JSON text read into declarations."""
