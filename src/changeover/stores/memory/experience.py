"""MemoryLessons: outcomes of routed handoffs, computed from the entries of a log in memory when they are read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from math import inf

from msgspec import Struct, field

from changeover.facts import State as HandoffState
from changeover.ids import child_id, handoff_id
from changeover.relay.events import Entry, HandoffOffered
from changeover.relay.ports.tables import MOST, Lesson, Unlearned
from changeover.relay.projection.changes import Change, Reading
from changeover.relay.state import State
from changeover.routing.experience import Outcome
from changeover.stores.memory.table import MemoryTable
from changeover.stores.tables import RESETS

Costs = Callable[[str], float | None]
"""The cost of a conversation; None if it is unknown."""

OUTCOMES = frozenset({HandoffState.COMPLETE, HandoffState.FAILED, HandoffState.TIMEOUT})


class Course(Struct):
    """The course of a handoff whose receiver was found by capability."""

    capability: str
    agent: str
    accepted_at: float | None = None
    ended_at: float | None = None
    success: bool = False

    def change(self, change: Change, at: float) -> None:
        if change.state is HandoffState.WORKING:
            self.accepted_at = self.accepted_at if change.resumed else at
            self.ended_at = None
            return
        # A delegate that returns without a reason brought what it was asked for.
        returned = change.state is HandoffState.RETURNED and not change.reason
        self.ended_at = at if returned or change.state in OUTCOMES else None
        self.success = returned or change.state is HandoffState.COMPLETE


class Known(Struct):
    """A conversation as far as its entries were read; without a reading while no receiver was looked for in it."""

    entries: int = 0
    reading: Reading | None = None
    courses: dict[str, Course] = field(default_factory=dict)
    """By call."""

    def read(self, conversation: str, entries: list[Entry]) -> None:
        new, self.entries = entries[self.entries :], len(entries)
        if self.reading is None:
            if not any(isinstance(event, HandoffOffered) and event.capability for each in new for event in each.events):
                return
            self.reading, new = Reading(State(conversation)), entries
        for entry in new:
            self.reading.fold(entry)
            for change in self.reading.changes:
                self._note(change, entry.at)
            self.reading.changes.clear()

    def _note(self, change: Change, at: float) -> None:
        if change.offer is not None:
            if change.offer.capability:
                self.courses[change.call] = Course(change.offer.capability, change.receiver)
        elif course := self.courses.get(change.call):
            course.change(change, at)


class MemoryLessons:
    """Outcomes in memory. The lock and the entries are the log's."""

    def __init__(self, lock: threading.Lock, entries: Mapping[str, list[Entry]], costs: Costs) -> None:
        self._lock, self._entries, self._costs = lock, entries, costs
        self._known: dict[str, Known] = {}
        self._unread: set[str] = set()
        """The conversations with entries that were not read yet."""
        self._resets = MemoryTable(RESETS, lock)

    async def outcomes(self, capability: str, after: float = -inf, most: int = MOST) -> list[Lesson]:
        resets = await self._resets.all()
        with self._lock:
            self._read()
            found = [
                self._lesson(conversation, call, course, course.ended_at)
                for conversation, known in self._known.items()
                for call, course in known.courses.items()
                if course.capability == capability and course.ended_at is not None and course.ended_at > after
            ]
        counted = [each for each in found if not any(reset.covers(each) for reset in resets)]
        return sorted(counted, key=lambda each: (each.at, each.handoff))[-most:]

    async def capabilities(self) -> list[str]:
        with self._lock:
            self._read()
            return sorted({course.capability for known in self._known.values() for course in known.courses.values()})

    async def unlearned(self) -> list[Unlearned]:
        return await self._resets.all()

    async def reset(self, at: float, capability: str = "", agent: str = "") -> None:
        await self._resets.put(Unlearned(capability, agent, at))

    def note(self, conversation: str) -> None:
        """Note that the conversation has a new entry. The caller holds the lock."""
        self._unread.add(conversation)

    def forget(self, conversation: str) -> None:
        """Drop a conversation that was removed. The caller holds the lock."""
        self._known.pop(conversation, None)
        self._unread.discard(conversation)

    def _read(self) -> None:
        for conversation in self._unread:
            self._known.setdefault(conversation, Known()).read(conversation, self._entries[conversation])
        self._unread.clear()

    def _lesson(self, conversation: str, call: str, course: Course, ended: float) -> Lesson:
        seconds = None if course.accepted_at is None else ended - course.accepted_at
        cost = self._costs(child_id(conversation, call))
        outcome = Outcome(course.capability, course.agent, course.success, seconds, cost)
        return Lesson(handoff_id(conversation, call), ended, outcome)
