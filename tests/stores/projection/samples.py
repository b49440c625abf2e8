"""Entries projected into rows without a database."""

from collections.abc import Mapping
from typing import Any

from changeover.faults import LimitFault
from changeover.relay.events import Entry, Event, Unreadable
from changeover.stores.projection.projector import project
from changeover.stores.projection.rows import FIELDS, Leg, Name, Offered, Rows

FAULT = LimitFault("max_turns", 3)
LEG = Leg(2, "c@1", None, "front", "running", '{"a":1}', "hello")


class Past:
    """Earlier entries, as far as a test needs them; anything else must not be asked for."""

    def __init__(self, events: Mapping[int, Event] | None = None, offers: Mapping[str, Offered] | None = None) -> None:
        self._events, self._offers = events or {}, offers or {}
        self.added: dict[str, dict[str, dict[str, Any]]] = {}
        """What the calls of a turn added to the context, by turn and call."""

    def event(self, conversation: str, position: int) -> Event | None:
        return self._events.get(position)

    def offer(self, id: str) -> Offered | None:
        return self._offers.get(id)

    def widened(self, conversation: str, turn: str) -> dict[str, dict[str, Any]]:
        return self.added.get(turn, {})


class Nothing(Past):
    """For entries that say everything themselves."""

    def event(self, conversation: str, position: int) -> Event | None:
        raise AssertionError(f"asked for the event at {position}")

    def offer(self, id: str) -> Offered | None:
        raise AssertionError(f"asked for the offer {id}")

    def widened(self, conversation: str, turn: str) -> dict[str, dict[str, Any]]:
        raise AssertionError(f"asked for what the calls of {turn} added")


class Row(tuple[Any, ...]):
    """A row whose fields have names."""

    def __new__(cls, name: Name, row: tuple[Any, ...]) -> "Row":
        made = super().__new__(cls, row)
        made._fields = FIELDS[name]  # type: ignore[attr-defined]
        return made

    def __getattr__(self, name: str) -> Any:
        return self[self.__dict__["_fields"].index(name)]


def at(position: int, *events: Event | Unreadable) -> Entry:
    return Entry("c", "c", position, "x", 5.0, events)


def projected(entry: Entry, leg: Leg | None, past: Past | None = None) -> tuple[dict[str, list[Any]], Leg | None]:
    made = Rows()
    after = project(entry, entry.events, leg, past or Nothing(), made)
    return {name: [Row(name, row) for row in rows] for name, rows in made.in_order()}, after
