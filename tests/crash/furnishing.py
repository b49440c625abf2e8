"""What every process makes when it first needs it, made before others are forked: they begin with it at hand."""

from changeover.handoffs.tokens import load
from changeover.stores.sql import log
from changeover.stores.sql.dialects import postgres, sqlite
from changeover.stores.sql.statements import statements

ROOMS = (postgres, log, sqlite)
"""Which a store enters when it is opened."""


def furnish() -> None:
    load()
    for dialect in ("sqlite", "postgresql"):
        statements(dialect)
