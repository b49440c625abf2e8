"""Legs: the tasks that conversations are at, as far as the next entry may build upon them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from changeover.stores.sql.jobs import Append

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


Stand = tuple[int, int, Leg | None]
"""The number of a conversation, where its log ends, and the leg that it is at then."""

NOBODYS: Stand = (0, 0, None)


class Offered(NamedTuple):
    """An offer that an earlier entry made."""

    merge: str
    variables: str
    mode: str


class Legs:
    """Remembers the legs of the conversations at work."""

    def __init__(self) -> None:
        self._stands: dict[str, Stand] = {}

    def get(self, conversation: str, number: int, end: int, look_up: Callable[[str], Leg | None]) -> Leg | None:
        """The leg of a conversation whose log ends here; nobody can have moved it without moving the end, or begun
        another under its id without another number."""
        whose, known, leg = self._stands.get(conversation, NOBODYS)
        return leg if known == end and whose == number else look_up(conversation)

    def knows(self, append: Append) -> bool:
        """Whether nothing has to be looked up for this, so far as one can tell without its number."""
        return self._stands.get(append.conversation, NOBODYS)[1] == append.entry.position

    def keep(self, stands: Mapping[str, Stand]) -> None:
        """These are committed."""
        for conversation in stands:  # what was last at work stands last
            self._stands.pop(conversation, None)
        self._stands.update(stands)
        if len(self._stands) > KEPT:
            for oldest in list(self._stands)[: KEPT // 4 - KEPT]:
                del self._stands[oldest]
