"""Migrations, one file per schema version."""
