"""SqlBreakers: circuits in a database; LockedBoard, the circuits of one transaction; and their statements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from msgspec.structs import asdict

from changeover.faults import Circuit
from changeover.relay.ports.log import Circuits
from changeover.stores.breakers import Board
from changeover.stores.sql.compiler import Compiler
from changeover.stores.sql.database import Round, Row, Session, Write
from changeover.stores.sql.jobs import Append, Job, OpenStore, SideJob
from changeover.stores.sql.schema import breaker_openings, breakers
from changeover.stores.sql.table import SqlTable, TableStatements
from changeover.stores.tables import BREAKERS


class BreakerStatements:
    """The SQL of the tables `breakers` and `breaker_openings`."""

    def __init__(self, say: Compiler) -> None:
        self.table = TableStatements(BREAKERS, say)
        receiver = breakers.c.receiver
        these = sa.select(breakers).where(say.among(receiver, "receivers")).order_by(receiver)
        self.read, self.lock = say(these), say(these.with_for_update())
        # A row that does not exist cannot be locked; this waits for another process that is inserting it.
        self.begin = say(say.insert(breakers).on_conflict_do_nothing())
        self.opened = say(say.insert(breaker_openings).on_conflict_do_nothing())
        self.listed = say.listed
        self.locks = say.postgresql
        """True if rows have to be locked: SQLite has one writer at a time."""


class LockedBoard(Board):
    """The circuits that the jobs of a transaction concern. Only circuits that change are locked: otherwise all
    handoffs to one receiver would wait for each other."""

    def __init__(self, sql: BreakerStatements) -> None:
        super().__init__()
        self._sql = sql

    def look(self, asked: Round, jobs: Sequence[Job[Any]]) -> None:
        """Read the circuits of these appends, and lock those that they change."""
        reports = [(job.circuits, job.entry.at) for job in jobs if isinstance(job, Append) and job.circuits]
        if receivers := {name for circuits, _ in reports for name in _receivers(circuits)}:
            read = self._sql.read(receivers=self._sql.listed(sorted(receivers)))
            asked.later(read, lambda rows: self._see(asked.session, reports, rows))

    def lock(self, session: Session, receivers: Collection[str]) -> None:
        """Lock and read these circuits."""
        # By name: of two processes that lock the same rows, one waits for the other, and never each for the other.
        names = sorted(receivers)
        begun = [self._sql.begin(**asdict(Circuit(name))) for name in names] if self._sql.locks else []
        *_, rows = session.run([*begun, self._sql.lock(receivers=self._sql.listed(names))])
        self._learn(rows)

    def writes(self) -> list[Write]:
        """The rows of the circuits that changed."""
        if not self.changed:
            return []
        table = self._sql.table
        rows = [table.bound(circuit) for _, circuit in sorted(self.changed.items())]
        return [(table.put.sql, rows), *([(self._sql.opened.sql, self.opened)] if self.opened else [])]

    def _see(self, session: Session, reports: Sequence[tuple[Circuits, float]], rows: Sequence[Row]) -> None:
        self._learn(rows)
        if self._sql.locks and (changing := self._changing(reports)):
            self.lock(session, changing)

    def _learn(self, rows: Sequence[Row]) -> None:
        self.known.update((circuit.receiver, circuit) for circuit in map(self._sql.table.record, rows))

    def _changing(self, reports: Sequence[tuple[Circuits, float]]) -> Collection[str]:
        """The receivers whose circuits change if all of these entries are recorded."""
        trial = Board(self.known)
        for circuits, at in reports:
            trial.refusal(circuits, at)
            trial.take(at)
        return trial.changed


def _receivers(circuits: Circuits) -> list[str]:
    return [*(receiver for _, receiver in circuits.offers), *(ended.receiver for ended in circuits.ended)]


class Change(NamedTuple):
    """A circuit that a person opens or resets."""

    receiver: str
    at: float
    opens: bool


class SqlBreakers:
    """Circuits in a database."""

    calm = False
    """False: other processes write too, and to read what they wrote costs as much as to report every ending."""

    def __init__(self, sql: BreakerStatements, store: OpenStore) -> None:
        self._sql, self._store = sql, store
        self._table = SqlTable(sql.table, store)

    async def listed(self) -> list[Circuit]:
        # Not the rows that were only inserted to be locked.
        return [circuit for circuit in await self._table.all() if circuit != Circuit(circuit.receiver)]

    async def force(self, receiver: str, at: float) -> None:
        await self._store.write(self._change, Change(receiver, at, opens=True), True)

    async def reset(self, receiver: str, at: float) -> bool:
        return await self._store.write(self._change, Change(receiver, at, opens=False), False)

    def _change(self, session: Session, jobs: Sequence[SideJob[Change, bool]]) -> None:
        board = LockedBoard(self._sql)
        session.begin()
        board.lock(session, {job.data.receiver for job in jobs})
        for job in jobs:
            receiver, at, opens = job.data
            if opens:
                board.force(receiver, at)
            else:
                job.result = board.reset(receiver, at)
        session.commit(board.writes())
