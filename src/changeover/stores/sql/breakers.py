"""The table `breakers`: its statements, the writer's jobs, and the Board of a batch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from changeover.errors import CircuitsOpen
from changeover.guards.breaker import Circuit, closed, forced
from changeover.relay.ports import Circuits
from changeover.relay.projection.admission import weighed
from changeover.stores.sql.compiler import Compiler
from changeover.stores.sql.database import Round, Row, Session, Write
from changeover.stores.sql.jobs import LARGEST, Append, Job
from changeover.stores.sql.schema import breaker_openings, breakers
from changeover.stores.sql.side_jobs import Beside

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


NOTHING: dict[str, Circuit] = {}


class Board:
    """Reads the rows that entries are about, and gathers what becomes of them. A batch that is about none costs
    nothing; one that changes none locks none, for then all who hand over to the same receiver would wait in line."""

    def __init__(self, sql: BreakerStatements) -> None:
        self._sql = sql
        self._known: dict[str, Circuit] = {}
        self._changed: dict[str, Circuit] = {}
        self._weighed = NOTHING
        self._opened: list[Row] = []

    def look(self, asked: Round, jobs: Sequence[Job[Any]]) -> None:
        """See how the circuits stand that these jobs are about; who would change one has it until the end."""
        about = [(job.circuits, job.entry.at) for job in jobs if isinstance(job, Append) and job.circuits]
        if receivers := {name for circuits, _ in about for name in _receivers(circuits)}:
            read = self._sql.read(receivers=self._sql.listed(sorted(receivers)))
            asked.later(read, lambda rows: self._see(asked.session, about, rows))

    def _see(self, session: Session, about: Sequence[tuple[Circuits, float]], rows: Sequence[Row]) -> None:
        self._known = _by_receiver(rows)
        if self._sql.locks and (moving := self._moving(about)):
            self.lock(session, moving)

    def lock(self, session: Session, receivers: Collection[str]) -> None:
        """See how these stand; nobody else can change them until the transaction ends."""
        # In one order for everybody: of two who are about the same, one waits for the other, and never each for the
        # other.
        names = sorted(receivers)
        begun = [self._sql.begin(**named(Circuit(name))) for name in names] if self._sql.locks else []
        *_, rows = session.run([*begun, self._sql.lock(receivers=self._sql.listed(names))])
        self._known.update(_by_receiver(rows))

    def get(self, receiver: str) -> Circuit:
        return self._known.get(receiver) or Circuit(receiver)

    def refusal(self, circuits: Circuits, at: float) -> CircuitsOpen | None:
        """Why an entry cannot be; nothing if it can."""
        self._weighed, refusal = weighed(self._known, circuits, at)
        return refusal

    def take(self, at: float) -> None:
        """The entry that was weighed last is going to be recorded."""
        for circuit in self._weighed.values():
            self.put(circuit, at)
        self._weighed = NOTHING

    def put(self, circuit: Circuit, at: float) -> None:
        """A circuit will be so."""
        if circuit.openings > self.get(circuit.receiver).openings:
            _, row = self._sql.opened(receiver=circuit.receiver, number=circuit.openings, at=at)
            self._opened.append(row)
        self._known[circuit.receiver] = self._changed[circuit.receiver] = circuit

    def writes(self) -> list[Write]:
        if not self._changed:
            return []
        rows = [self._sql.put(**named(circuit))[1] for _, circuit in sorted(self._changed.items())]
        return [(self._sql.put.sql, rows), *([(self._sql.opened.sql, self._opened)] if self._opened else [])]

    def _moving(self, asked: Sequence[tuple[Circuits, float]]) -> set[str]:
        """Those that would change if everything were recorded that is asked for."""
        known, moving = dict(self._known), set[str]()
        for circuits, at in asked:
            changed, _ = weighed(known, circuits, at)
            known |= changed
            moving |= changed.keys()
        return moving


def _receivers(circuits: Circuits) -> list[str]:
    return [*(receiver for _, receiver in circuits.offers), *(ended.receiver for ended in circuits.ended)]


def _by_receiver(rows: Sequence[Row]) -> dict[str, Circuit]:
    return {circuit.receiver: circuit for circuit in map(circuit_of, rows)}


class BreakerJob(Beside[bool]):
    """Open a circuit, or reset it; whether that changed anything."""

    __slots__ = ("at", "opens", "receiver")

    def __init__(self, receiver: str, at: float, opens: bool) -> None:
        super().__init__(False, share=1 / LARGEST)
        self.receiver, self.at, self.opens = receiver, at, opens


def turn(session: Session, sql: BreakerStatements, jobs: Sequence[Job[Any]]) -> None:
    """Give each job its result, or raise what the driver raises."""
    wanted = [job for job in jobs if isinstance(job, BreakerJob)]
    board = Board(sql)
    session.begin()
    board.lock(session, {job.receiver for job in wanted})
    for job in wanted:
        before = board.get(job.receiver)
        job.result = job.opens or not before.clean
        if job.result:
            board.put((forced if job.opens else closed)(before, job.at), job.at)
    session.commit(board.writes())
