"""MemoryLessons: outcomes of routed handoffs, computed from the entries of a log in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf
from typing import Any

from msgspec import Struct

from changeover.ids import child_id, handoff_id
from changeover.relay.events import (
    Entry,
    HandoffAccepted,
    HandoffExpired,
    HandoffOffered,
    HandoffReturned,
    RollbackRequested,
)
from changeover.relay.tables import MOST, Lesson, Unlearned
from changeover.routing.experience import Outcome
from changeover.stores.memory.table import MemoryTable
from changeover.stores.tables import RESETS

Costs = Callable[[str], float | None]
"""What was spent in a conversation, if that is known."""


class Course(Struct):
    """How a handoff goes whose receiver was looked for."""

    capability: str
    agent: str
    accepted_at: float | None = None
    ended_at: float | None = None
    success: bool = False


class MemoryLessons:
    """Outcomes in memory. The lock is the log's."""

    def __init__(self, lock: threading.Lock, costs: Costs) -> None:
        self._lock, self._costs = lock, costs
        self._courses: dict[str, dict[str, Course]] = {}
        """By conversation and call."""
        self._resets = MemoryTable(RESETS, lock)

    async def outcomes(self, capability: str, after: float = -inf, most: int = MOST) -> list[Lesson]:
        resets = await self._resets.all()
        with self._lock:
            found = [
                self._lesson(conversation, call, course, course.ended_at)
                for conversation, courses in self._courses.items()
                for call, course in courses.items()
                if course.capability == capability and course.ended_at is not None and course.ended_at > after
            ]
        counted = [each for each in found if not any(reset.covers(each) for reset in resets)]
        return sorted(counted, key=lambda each: (each.at, each.handoff))[-most:]

    async def capabilities(self) -> list[str]:
        with self._lock:
            return sorted({course.capability for courses in self._courses.values() for course in courses.values()})

    async def unlearned(self) -> list[Unlearned]:
        return await self._resets.all()

    async def reset(self, at: float, capability: str = "", agent: str = "") -> None:
        await self._resets.put(Unlearned(capability, agent, at))

    def note(self, entry: Entry) -> None:
        """An entry was recorded. By whoever has the lock."""
        for event in entry.events:
            if (change := _CHANGES.get(type(event))) is not None:
                change(self, entry, event)

    def forget(self, conversation: str) -> None:
        """Nobody was ever looked for there. By whoever has the lock."""
        self._courses.pop(conversation, None)

    def _lesson(self, conversation: str, call: str, course: Course, ended: float) -> Lesson:
        seconds = None if course.accepted_at is None else ended - course.accepted_at
        cost = self._costs(child_id(conversation, call))
        outcome = Outcome(course.capability, course.agent, course.success, seconds, cost)
        return Lesson(handoff_id(conversation, call), ended, outcome)

    def _offer(self, entry: Entry, event: HandoffOffered) -> None:
        if event.capability:
            courses = self._courses.setdefault(entry.conversation, {})
            courses[event.call] = Course(event.capability, event.receiver)

    def _accept(self, entry: Entry, event: HandoffAccepted) -> None:
        if course := self._course(entry, event.call):
            course.accepted_at = entry.at

    def _come_back(self, entry: Entry, event: HandoffReturned) -> None:
        if event.declined or event.cancelled:
            return
        if course := self._course(entry, event.call):
            course.ended_at, course.success = entry.at, event.success

    def _expire(self, entry: Entry, event: HandoffExpired) -> None:
        if course := self._course(entry, event.call):
            course.ended_at = entry.at

    def _recall(self, entry: Entry, event: RollbackRequested) -> None:
        course = self._course(entry, event.call)
        if course and not course.success:
            course.ended_at = None

    def _course(self, entry: Entry, call: str) -> Course | None:
        return self._courses.get(entry.conversation, {}).get(call)


_CHANGES: dict[type, Callable[[MemoryLessons, Entry, Any], None]] = {
    HandoffOffered: MemoryLessons._offer,
    HandoffAccepted: MemoryLessons._accept,
    HandoffReturned: MemoryLessons._come_back,
    HandoffExpired: MemoryLessons._expire,
    RollbackRequested: MemoryLessons._recall,
}
