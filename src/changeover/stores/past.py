"""What earlier entries of a conversation said, where a projection builds upon it: a few rows, however long it is."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from changeover.relay.events import Event, ToolFinished, Unreadable
from changeover.stores.codec import decode
from changeover.stores.database import Session
from changeover.stores.legs import Leg, Offered
from changeover.stores.statements import Statements


class SqlPast:
    """Looks it up, in the transaction of the append."""

    __slots__ = ("_conversation", "_session", "_sql")

    def __init__(self, session: Session, sql: Statements, conversation: str) -> None:
        self._session, self._sql, self._conversation = session, sql, conversation

    def leg(self) -> Leg | None:
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
        [rows] = self._session.run([self._sql.views.offer(id=id)])
        return Offered(*rows[0]) if rows else None
