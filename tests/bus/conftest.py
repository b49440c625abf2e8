from tests.any_store import any_store, postgres, shared_store, sqlite_file

__all__ = ["any_store", "postgres", "shared_store", "sqlite_file"]
