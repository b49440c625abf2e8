"""SqlPast: what a projection needs of earlier entries, from the database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from changeover.ids import handoff_id, reply_of
from changeover.relay.events import Event, HandoffAccepted, HandoffOffered, ToolFinished, Unreadable
from changeover.stores.codec import decode
from changeover.stores.projection.rows import Leg, Legs, Offered
from changeover.stores.sql.compiler import Statement
from changeover.stores.sql.database import Round, Row, Session
from changeover.stores.sql.jobs import Append, Job
from changeover.stores.sql.statements import Statements


class SqlPast:
    """Looks it up, in the transaction of the appends."""

    __slots__ = ("_legs", "_offers", "_session", "_sql")

    def __init__(self, session: Session, sql: Statements) -> None:
        self._session, self._sql = session, sql
        self._legs: dict[str, Row | None] = {}
        self._offers: dict[str, Row | None] = {}

    def foresee(self, asked: Round, jobs: Sequence[Job[Any]], legs: Legs) -> None:
        """Look up at once what these will ask for first."""
        for job in jobs:
            if isinstance(job, Append):
                if job.entry.position and not legs.knows(job):
                    self._legs[job.conversation] = None
                if HandoffAccepted in map(type, job.events):
                    self._offers.update(dict.fromkeys(_accepted(job)))
        if self._legs:
            asked.later(self._sql.views.legs(ids=self._sql.listed(list(self._legs))), partial(_sort_in, self._legs))
        if self._offers:
            found = partial(_sort_in, self._offers)
            asked.later(self._sql.views.offers(ids=self._sql.listed(list(self._offers))), found)

    def leg(self, conversation: str) -> Leg | None:
        row = self._look_up(conversation, self._legs, self._sql.views.legs)
        return replace(Leg(*row), widened=None) if row else None

    def widened(self, conversation: str, turn: str) -> dict[str, dict[str, Any]]:
        [rows] = self._session.run([self._sql.log.read(conversation=conversation, after=int(turn))])
        events = (event for row in rows for event in decode(row[5]))
        return {
            event.call: event.directive.context
            for event in events
            if isinstance(event, ToolFinished) and event.directive and reply_of(event.call) == turn
        }

    def event(self, conversation: str, position: int) -> Event | Unreadable | None:
        [rows] = self._session.run([self._sql.log.entry_at(conversation=conversation, position=position)])
        if not rows:
            return None
        events, first = decode(rows[0][5]), rows[0][2]
        return events[position - first] if position - first < len(events) else None

    def offer(self, id: str) -> Offered | None:
        row = self._look_up(id, self._offers, self._sql.views.offers)
        return Offered(*row) if row else None

    def _look_up(self, id: str, found: dict[str, Row | None], statement: Statement) -> Row | None:
        if id not in found:
            _sort_in(found, self._session.run([statement(ids=self._sql.listed([id]))])[0])
        return found.get(id)


def _sort_in(found: dict[str, Row | None], rows: list[Row]) -> None:
    found.update((id, tuple(row)) for id, *row in rows)


def _accepted(append: Append) -> Iterator[str]:
    """The handoffs that an entry accepts, and that an earlier one offered."""
    offered = set()
    for event in append.events:
        if isinstance(event, HandoffOffered):
            offered.add(event.call)
        elif isinstance(event, HandoffAccepted) and event.call not in offered:
            yield handoff_id(append.conversation, event.call)
