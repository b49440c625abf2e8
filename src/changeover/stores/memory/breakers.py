"""MemoryBreakers: circuit breaker state per receiver, in memory."""

from __future__ import annotations

import threading

from changeover.guards.breaker import Circuit, closed, forced
from changeover.relay.ports import Circuits
from changeover.relay.projection.admission import weighed


class MemoryBreakers:
    """Circuits in memory. The lock is the log's."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._circuits: dict[str, Circuit] = {}
        self.opened: list[tuple[str, int, float]] = []
        """Each opening: of whose circuit, the how-manieth, and when."""

    @property
    def calm(self) -> bool:
        return not self._circuits

    async def listed(self) -> list[Circuit]:
        with self._lock:
            return [circuit for _, circuit in sorted(self._circuits.items())]

    async def force(self, receiver: str, at: float) -> None:
        with self._lock:
            self._circuits[receiver] = forced(self._get(receiver), at)

    async def reset(self, receiver: str, at: float) -> bool:
        with self._lock:
            before = self._get(receiver)
            if before.clean:
                return False
            self._circuits[receiver] = closed(before, at)
            return True

    def weigh(self, circuits: Circuits, at: float) -> dict[str, Circuit]:
        """What an entry changes, for `take`; raises CircuitsOpen if it cannot be. By whoever has the lock."""
        changed, refusal = weighed(self._circuits, circuits, at)
        if refusal is not None:
            raise refusal
        return changed

    def take(self, changed: dict[str, Circuit]) -> None:
        """The entry is recorded. By whoever has the lock."""
        for receiver, circuit in changed.items():
            if circuit.openings > self._get(receiver).openings and circuit.opened_at is not None:
                self.opened.append((receiver, circuit.openings, circuit.opened_at))
        self._circuits |= changed

    def _get(self, receiver: str) -> Circuit:
        return self._circuits.get(receiver) or Circuit(receiver)
