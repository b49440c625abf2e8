"""Projection: from events to the rows of the read models, without I/O."""
