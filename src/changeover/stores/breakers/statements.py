"""What the store says to a database about circuits."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from changeover.guards.breaker import Circuit
from changeover.stores.sql.compiler import Compiler
from changeover.stores.sql.database import Row
from changeover.stores.sql.schema import breaker_openings, breakers

FIELDS = Circuit.__struct_fields__


class BreakerStatements:
    """Looking, keeping and listing."""

    def __init__(self, say: Compiler) -> None:
        b = breakers.c
        every = sa.select(*(b[name] for name in FIELDS)).order_by(b.receiver)
        these = every.where(say.among(b.receiver, "receivers"))
        self.all, self.read, self.lock = say(every), say(these), say(these.with_for_update())
        row = say.insert(breakers)
        # A row that is not there cannot be locked; whoever else is about to make it is waited for.
        self.begin = say(row.on_conflict_do_nothing())
        anew = {name: row.excluded[name] for name in FIELDS if name != "receiver"}
        self.put = say(row.on_conflict_do_update(index_elements=[b.receiver], set_=anew))
        self.opened = say(say.insert(breaker_openings).on_conflict_do_nothing())
        self.listed = say.listed
        self.locks = say.postgresql
        """Whether rows have to be locked: SQLite lets one writer in at a time."""


def named(circuit: Circuit) -> dict[str, Any]:
    """A circuit as it is bound."""
    return {name: getattr(circuit, name) for name in FIELDS}


def circuit_of(row: Row) -> Circuit:
    """A circuit, of a row as it is read."""
    circuit = Circuit(*row)
    return replace(circuit, forced=bool(circuit.forced))
