"""SqlDeclarations: the rows of declarations in a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from changeover.relay.ports.declarations import Declaration, Kind, encoded
from changeover.stores.sql.compiler import ZERO, Compiler, bind, now
from changeover.stores.sql.database import Call, Row, Session
from changeover.stores.sql.jobs import OpenStore, SideJob
from changeover.stores.sql.schema import declarations, tools

d = declarations.c

ROW = (d.kind, d.name, d.version, d.edition, d.state, d.document, d.written_at, d.written_by, d.rank)


class DeclarationStatements:
    """The SQL of the tables `declarations` and `tools`."""

    def __init__(self, say: Compiler) -> None:
        last = sa.func.coalesce(sa.func.max(d.edition), ZERO)
        self.edition = say(sa.select(last))
        other = declarations.alias()
        same = other.c.kind == d.kind, other.c.name == d.name
        newest = sa.select(sa.func.max(other.c.version)).where(*same, other.c.edition <= bind("edition", sa.Integer))
        self.at_edition = say(sa.select(*ROW).where(d.version == newest.scalar_subquery()))
        self.history = say(sa.select(*ROW).where(d.kind == bind("kind"), d.name == bind("name")))
        # Two writers that read one edition must not both write the next: the second one waits for the first.
        self.alone: list[Call] = [("LOCK TABLE declarations IN SHARE ROW EXCLUSIVE MODE", ())] if say.postgresql else []
        self.begin = say(sa.select(last, now()))
        self.mine = say(sa.select(*ROW).where(d.edition == bind("edition", sa.Integer)))
        self.insert = say(say.insert(declarations))
        put = say.insert(tools)
        anew = {column.name: put.excluded[column.name] for column in tools.columns if not column.primary_key}
        self.put_tool = say(put.on_conflict_do_update(index_elements=[tools.c.name], set_=anew))


class SqlDeclarations:
    """Rows in a database."""

    def __init__(self, sql: DeclarationStatements, store: OpenStore) -> None:
        self._sql, self._store = sql, store

    async def edition(self) -> int:
        [[edition]] = await self._store.rows(self._sql.edition())
        return int(edition)

    async def at_edition(self, edition: int) -> list[Declaration]:
        return [_declaration(row) for row in await self._store.large(self._sql.at_edition(edition=edition))]

    async def history(self, kind: Kind, name: str) -> list[Declaration]:
        return [_declaration(row) for row in await self._store.large(self._sql.history(kind=kind, name=name))]

    async def append(self, rows: Sequence[Declaration]) -> float | None:
        # A transaction to itself: jobs that share one would all be based on the edition before the first of them.
        return await self._store.write(self._append, rows, None, share=1.0)

    def _append(self, session: Session, jobs: Sequence[SideJob[Sequence[Declaration], float | None]]) -> None:
        [job] = jobs
        session.begin()
        *_, [(last, at)] = session.run([*self._sql.alone, self._sql.begin()])
        edition = job.data[0].edition
        if edition <= last:
            written = session.run([self._sql.mine(edition=edition)])[0] if job.tried else []
            session.commit()
            job.result = _time_if_mine(job.data, [_declaration(row) for row in written])
            return
        rows = [self._bound(each, at) for each in job.data]
        current = [self._tool(each, at) for each in job.data if each.kind == "tool"]
        session.commit([(self._sql.insert.sql, rows), *([(self._sql.put_tool.sql, current)] if current else [])])
        job.result = at

    def _bound(self, each: Declaration, at: float) -> Row:
        return self._sql.insert(**_columns(each, at), kind=each.kind, edition=each.edition, rank=each.rank)[1]

    def _tool(self, each: Declaration, at: float) -> Row:
        return self._sql.put_tool(**_columns(each, at), type=each.document["type"])[1]


def _columns(each: Declaration, at: float) -> dict[str, Any]:
    """The columns that both tables have."""
    found = {"name": each.name, "version": each.version, "state": each.state, "document": encoded(each)}
    return {**found, "written_at": at, "written_by": each.by}


def _time_if_mine(wanted: Sequence[Declaration], written: Sequence[Declaration]) -> float | None:
    """When an earlier try wrote these rows, whose commit was not confirmed; None if another writer wrote others."""
    content = {(each.key, each.version, each.state, each.by, encoded(each)) for each in wanted}
    found = {(each.key, each.version, each.state, each.by, encoded(each)) for each in written}
    return written[0].at if content == found else None


def _declaration(row: Row) -> Declaration:
    kind, name, version, edition, state, document, at, by, rank = row
    return Declaration(kind, name, version, edition, state, msgspec.json.decode(document), at, by, rank)
