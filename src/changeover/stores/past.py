"""What earlier entries of a conversation said, where a projection builds upon it: a few rows, however long it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from changeover.relay.events import Event, HandoffAccepted, HandoffOffered, ToolFinished, Unreadable
from changeover.stores.codec import decode
from changeover.stores.compiling import Statement
from changeover.stores.database import Row, Session
from changeover.stores.jobs import Append
from changeover.stores.legs import Leg, Legs, Offered
from changeover.stores.rounds import Round
from changeover.stores.statements import Statements


class Foreseen:
    """What the appends of a batch will ask for first, looked up at once."""

    __slots__ = ("legs", "offers")

    def __init__(self, asked: Round, sql: Statements, appends: Sequence[Append], legs: Legs) -> None:
        moved = [each.conversation for each in appends if each.entry.position and not legs.knows(each)]
        accepted = [id for append in appends for id in _accepted(append)]
        self.legs: dict[str, Row | None] = dict.fromkeys(moved)
        self.offers: dict[str, Row | None] = dict.fromkeys(accepted)
        if moved:
            asked.later(sql.views.legs(ids=sql.listed(moved)), partial(_sort_in, self.legs))
        if accepted:
            asked.later(sql.views.offers(ids=sql.listed(accepted)), partial(_sort_in, self.offers))


def _sort_in(found: dict[str, Row | None], rows: list[Row]) -> None:
    found.update((id, tuple(row)) for id, *row in rows)


def _accepted(append: Append) -> Iterator[str]:
    """The handoffs that an entry accepts, and that an earlier one offered."""
    offered = {event.call for event in append.events if isinstance(event, HandoffOffered)}
    for event in append.events:
        if isinstance(event, HandoffAccepted) and event.call not in offered:
            yield f"{append.conversation}:{event.call}"


class SqlPast:
    """Looks it up, in the transaction of the append."""

    __slots__ = ("_conversation", "_foreseen", "_session", "_sql")

    def __init__(self, session: Session, sql: Statements, conversation: str, foreseen: Foreseen) -> None:
        self._session, self._sql, self._conversation, self._foreseen = session, sql, conversation, foreseen

    def leg(self) -> Leg | None:
        row = self._look_up(self._conversation, self._foreseen.legs, self._sql.views.legs)
        return replace(Leg(*row), widened=None) if row else None

    def widened(self, turn: str) -> dict[str, dict[str, Any]]:
        [rows] = self._session.run([self._sql.log.read(conversation=self._conversation, after=int(turn))])
        events = (event for row in rows for event in decode(row[5]))
        return {
            event.call: event.directive.context
            for event in events
            if isinstance(event, ToolFinished) and event.directive and event.call.startswith(f"{turn}.")
        }

    def event(self, position: int) -> Event | Unreadable | None:
        [rows] = self._session.run([self._sql.log.entry_at(conversation=self._conversation, position=position)])
        if not rows:
            return None
        events, first = decode(rows[0][5]), rows[0][2]
        return events[position - first] if position - first < len(events) else None

    def offer(self, id: str) -> Offered | None:
        row = self._look_up(id, self._foreseen.offers, self._sql.views.offers)
        return Offered(*row) if row else None

    def _look_up(self, id: str, foreseen: dict[str, Row | None], statement: Statement) -> Row | None:
        if id not in foreseen:
            _sort_in(foreseen, self._session.run([statement(ids=self._sql.listed([id]))])[0])
        return foreseen.get(id)
