"""SqlTable: the rows of a side table in a database."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic

import sqlalchemy as sa
from msgspec.structs import asdict, replace

from changeover.relay.sanitize import text_of
from changeover.stores.sql.compiler import ONE, ZERO, Compiler, Statement, bind, now
from changeover.stores.sql.database import Row, Session
from changeover.stores.sql.jobs import OpenStore, SideJob
from changeover.stores.sql.schema import METADATA
from changeover.stores.tables import R, TableSpec

MOST = 4_000_000
"""Characters that are written in one transaction, if several rows share it: appends wait for it."""
SWEPT = 100
"""Rows that are removed in one transaction: appends wait for it."""


class TableStatements(Generic[R]):
    """The SQL of a declaration, for one dialect; compiled on first use."""

    def __init__(self, spec: TableSpec[R], say: Compiler) -> None:
        self.spec, self._say = spec, say
        self._table = METADATA.tables[spec.name]
        self._columns = [self._table.c[name] for name in spec.row.__struct_fields__]
        self._key = self._columns[: spec.keys]
        self.texts = [column.name for column in self._columns[spec.keys :] if isinstance(column.type, sa.Text)]
        """The columns beside the key that hold texts."""
        self._flags = [number for number, each in enumerate(self._columns) if isinstance(each.type, sa.Boolean)]
        self.upsert = cache(self._upsert)

    @cached_property
    def all(self) -> Statement:
        return self._say(sa.select(*self._columns))

    @cached_property
    def get(self) -> Statement:
        return self._say(sa.select(*self._columns).where(*(column == bind(column.name) for column in self._key)))

    @cached_property
    def version(self) -> Statement:
        return self._say(sa.select(sa.func.coalesce(sa.func.sum(self._table.c[self.spec.counter]), ZERO)))

    @cached_property
    def forget(self) -> Statement:
        """Removes the rows whose key begins with this value."""
        return self._say(sa.delete(self._table).where(self._key[0] == bind(self._key[0].name)))

    @cached_property
    def sweep(self) -> Statement:
        """Removes up to `limit` rows whose time has come."""
        expired = sa.select(*self._key).where(self._table.c[self.spec.extends] <= bind("now", sa.Double))
        some = expired.limit(bind("limit", sa.Integer)).offset(ZERO)
        # A row that another process extends or removes at this moment is left to it.
        found = sa.tuple_(*self._key).in_(some.with_for_update(skip_locked=True))
        return self._say(sa.delete(self._table).where(found).returning(ONE))

    @property
    def put(self) -> Statement:
        return self.upsert()

    def record(self, row: Row) -> R:
        """The record of a row as it is read."""
        record = self.spec.row(*row)
        # SQLite has no booleans.
        return replace(record, **{self._columns[number].name: bool(row[number]) for number in self._flags})

    def bound(self, record: R) -> Row:
        """A record as `put` binds it."""
        return self.put(**asdict(record))[1]

    def _upsert(self, *columns: str) -> Statement:
        """Inserts a row; if its key exists, replaces these columns, or those that the declaration names."""
        spec, table = self.spec, self._table
        made: dict[str, Any] = {spec.clock: now()} if spec.clock else {}
        if spec.counter:
            made[spec.counter] = ONE
        put = self._say.insert(table, **made)
        changes: dict[str, Any] = {name: put.excluded[name] for name in spec.replaced(columns)}
        if spec.clock:
            changes[spec.clock] = put.excluded[spec.clock]
        if spec.counter:
            changes[spec.counter] = table.c[spec.counter] + ONE
        later = None
        if spec.extends:
            before, after = table.c[spec.extends], put.excluded[spec.extends]
            later = sa.and_(before.is_not(None), sa.or_(after.is_(None), before < after))
        return self._say(put.on_conflict_do_update(index_elements=self._key, set_=changes, where=later))

    def put_rows(self, session: Session, jobs: Sequence[SideJob[tuple[R, Sequence[str]], None]]) -> None:
        """Put a row, and replace these columns, for each job."""
        # By key: of two processes that put the same rows, one waits for the other, and never each for the other.
        puts = sorted((job.data for job in jobs), key=lambda put: self.spec.key_of(put[0]))
        calls = [self.upsert(*columns)(**asdict(row)) for row, columns in puts]
        session.begin()
        session.commit([(sql, [row for _, row in each]) for sql, each in groupby(calls, key=itemgetter(0))])

    def sweep_rows(self, session: Session, jobs: Sequence[SideJob[float, int]]) -> None:
        """Remove some of the rows whose time has come, for each job."""
        session.begin()
        for job in jobs:
            job.result = len(session.run([self.sweep(now=job.data, limit=SWEPT)])[0])
        session.commit()


class SqlTable(Generic[R]):
    """Rows in a database."""

    def __init__(self, sql: TableStatements[R], store: OpenStore) -> None:
        self._sql, self._spec, self._store = sql, sql.spec, store
        self._read = store.large if sql.spec.large else store.rows
        self._texts = sql.texts

    async def put(self, row: R, columns: Sequence[str] = ()) -> None:
        texts = {name: text for name in self._texts if (text := getattr(row, name)) is not None}
        row = replace(row, **{name: text_of(text) for name, text in texts.items()})
        await self._store.write(self._sql.put_rows, (row, columns), None, sum(map(len, texts.values())) / MOST)

    async def get(self, *key: str) -> R | None:
        rows = await self._read(self._sql.get(**dict(zip(self._spec.key, key, strict=True))))
        return self._sql.record(rows[0]) if rows else None

    async def all(self) -> list[R]:
        # Sorted here: the order of texts in a database depends on its collation.
        rows = sorted(await self._read(self._sql.all()), key=lambda row: row[: self._spec.keys])
        return [self._sql.record(row) for row in rows]

    async def version(self) -> int:
        [[version]] = await self._store.rows(self._sql.version())
        return int(version)

    async def sweep(self, now: float) -> int:
        swept = 0
        while removed := await self._store.write(self._sql.sweep_rows, now, 0, share=1.0):
            swept += removed
        return swept
