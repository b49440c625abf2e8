"""The databases that a SQL store can live in."""
