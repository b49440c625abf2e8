"""What earlier entries of a conversation said, where a projection builds upon it: a few rows, however long it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from changeover.relay.events import Event, HandoffAccepted, HandoffOffered, ToolFinished, Unreadable
from changeover.stores.codec import decode
from changeover.stores.database import Session
from changeover.stores.jobs import Append
from changeover.stores.legs import Leg, Legs, Offered
from changeover.stores.statements import Statements


class Foreseen:
    """What the appends of a batch will ask for first, looked up at once."""

    __slots__ = ("legs", "offers")

    def __init__(self, session: Session, sql: Statements, appends: Sequence[Append], legs: Legs) -> None:
        moved = [each for each in appends if each.entry.position and not legs.knows(each)]
        offers = [id for append in appends for id in _accepted(append)]
        calls = [sql.views.leg(conversation=append.conversation) for append in moved]
        calls += [sql.views.offer(id=id) for id in offers]
        found = session.run(calls) if calls else []
        self.legs = {append.conversation: rows for append, rows in zip(moved, found, strict=False)}
        self.offers = dict(zip(offers, found[len(moved) :], strict=True))


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
        rows = self._foreseen.legs.get(self._conversation)
        if rows is None:
            [rows] = self._session.run([self._sql.views.leg(conversation=self._conversation)])
        return replace(Leg(*rows[0]), widened=None) if rows else None

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
        rows = self._foreseen.offers.get(id)
        if rows is None:
            [rows] = self._session.run([self._sql.views.offer(id=id)])
        return Offered(*rows[0]) if rows else None
