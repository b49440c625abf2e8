"""Legs: the tasks that conversations are at, as far as the next entry may build upon them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from changeover.stores.jobs import Append

KEPT = 2_048
"""How many conversations are remembered from one transaction to the next."""


Widened = tuple[str, dict[str, dict[str, Any]]]


class Leg(Struct, frozen=True, gc=False):
    """The task that a conversation is at, or ended with."""

    position: int
    run_id: str
    handoff_id: str | None
    agent: str
    status: str
    context: str = "{}"
    input: str = ""
    widened: Widened | None = ("", {})
    """What the calls of the last turn added to the context, by call; None if only the log knows."""


NOBODYS: tuple[int, int, Leg | None] = (0, 0, None)


class Offered(NamedTuple):
    """An offer that an earlier entry made."""

    merge: str
    variables: str
    mode: str


class Legs:
    """Remembers the legs of the conversations at work."""

    def __init__(self) -> None:
        self._legs: dict[str, tuple[int, int, Leg | None]] = {}

    def get(self, conversation: str, number: int, end: int, look_up: Callable[[], Leg | None]) -> Leg | None:
        """The leg of a conversation whose log ends here; nobody can have moved it without moving the end, or begun
        another under its id without another number."""
        whose, known, leg = self._legs.get(conversation, NOBODYS)
        return leg if known == end and whose == number else look_up()

    def knows(self, append: Append) -> bool:
        """Whether nothing has to be looked up for this, so far as one can tell without its number."""
        return self._legs.get(append.conversation, NOBODYS)[1] == append.entry.position

    def keep(self, conversation: str, number: int, end: int, leg: Leg | None) -> None:
        """This is committed."""
        if len(self._legs) >= KEPT:
            for oldest in list(self._legs)[: KEPT // 4]:
                del self._legs[oldest]
        self._legs.pop(conversation, None)
        self._legs[conversation] = (number, end, leg)
