"""Finding who or what fits a request, by its words."""
