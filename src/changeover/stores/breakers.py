"""Circuit breakers of receivers: the Board, which holds the rules of every store, and MemoryBreakers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from changeover.bus.delivery import Publication
from changeover.errors import CircuitsOpen
from changeover.faults import Circuit
from changeover.guards.breaker import Ended, admitted, closed, forced, noted
from changeover.guards.guard import Tripped
from changeover.relay.ports.log import Circuits

Opening = tuple[str, int, float]
"""A row of `breaker_openings`: the receiver, the number of the opening from 1, and its time."""
Denial = tuple[str, str, int, float | None, float]
"""A handoff that is refused: its id, the receiver, its failures, until when its circuit is open, and since when."""


class Board:
    """Circuits by receiver, and their changes. A receiver that is not known has never failed."""

    def __init__(self, known: Mapping[str, Circuit] | None = None) -> None:
        self.known = dict(known or {})
        self.changed: dict[str, Circuit] = {}
        self.opened: list[Opening] = []
        self.published: list[Publication] = []
        """Events of the bus about the openings."""
        self._weighed: dict[str, Circuit] = {}
        self._tell: Callable[[Circuit, float], Publication | None] | None = None

    def get(self, receiver: str) -> Circuit:
        return self.known.get(receiver) or Circuit(receiver)

    def refusal(self, circuits: Circuits, at: float) -> CircuitsOpen | None:
        """Why an entry may not be recorded; None if it may, then `take` applies its changes. Endings count before
        offers: a receiver that succeeds in this entry may be offered work in it."""
        self._weighed, self._tell = {}, circuits.tell
        for ended in circuits.ended:
            self._end(ended, at)
        denials = [self._offer(handoff, receiver, at) for handoff, receiver in circuits.offers]
        tripped = [denial for denial in denials if denial]
        return CircuitsOpen(tripped) if tripped else None

    def take(self, at: float) -> None:
        """Apply the changes of the entry that `refusal` judged last, which is recorded."""
        for circuit in self._weighed.values():
            opens = self._put(circuit, at)
            if opens and self._tell and (told := self._tell(circuit, at)):
                self.published.append(told)
        self._weighed = {}

    def force(self, receiver: str, at: float) -> None:
        """Open a circuit until it is reset. A person's decision is not counted as an opening."""
        self._put(forced(self.get(receiver), at), at)

    def reset(self, receiver: str, at: float) -> bool:
        """Close a circuit; False if there was nothing to reset."""
        before = self.get(receiver)
        if before.clean:
            return False
        self._put(closed(before, at), at)
        return True

    def _put(self, circuit: Circuit, at: float) -> bool:
        """Change a circuit; True if it opens."""
        if opens := circuit.openings > self.get(circuit.receiver).openings:
            self.opened.append((circuit.receiver, circuit.openings, at))
        self.known[circuit.receiver] = self.changed[circuit.receiver] = circuit
        return opens

    def _end(self, ended: Ended, at: float) -> None:
        before = self._find(ended.receiver)
        # Most receivers never failed, and do not fail now.
        if before is not None or ended.ok is False:
            self._weigh(before, noted(before or Circuit(ended.receiver), ended, at))

    def _offer(self, handoff: str, receiver: str, at: float) -> Denial | None:
        before = self._find(receiver)
        if before is None:
            return None
        after = admitted(before, handoff, at)
        if isinstance(after, Tripped):
            return handoff, after.receiver, after.failures, after.until, after.opened_at
        self._weigh(before, after)
        return None

    def _find(self, receiver: str) -> Circuit | None:
        return self._weighed.get(receiver) or self.known.get(receiver)

    def _weigh(self, before: Circuit | None, after: Circuit) -> None:
        if after is not before:
            self._weighed[after.receiver] = after


class MemoryBreakers:
    """Circuits in memory. The lock is the log's; the log uses the board while it holds the lock."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.board = Board()

    @property
    def calm(self) -> bool:
        return not self.board.known

    async def listed(self) -> list[Circuit]:
        with self._lock:
            return [circuit for _, circuit in sorted(self.board.known.items())]

    async def force(self, receiver: str, at: float) -> None:
        with self._lock:
            self.board.force(receiver, at)

    async def reset(self, receiver: str, at: float) -> bool:
        with self._lock:
            return self.board.reset(receiver, at)
