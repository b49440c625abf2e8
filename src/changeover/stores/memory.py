"""A log in memory: gone with the process, shared by its threads."""

from __future__ import annotations

import threading
from collections import defaultdict

from changeover.errors import Conflict
from changeover.relay.events import Entry, RunCompleted, RunFailed, UserSpoke


class MemoryLog:
    """The log that a team has unless it is given a store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, list[Entry]] = {}
        self._causes: dict[tuple[str, str], int] = {}
        self._seq: defaultdict[str, int] = defaultdict(lambda: 1)

    async def read(self, conversation: str) -> list[Entry]:
        with self._lock:
            return list(self._entries.get(conversation, ()))

    async def append(self, entry: Entry) -> None:
        with self._lock:
            entries = self._entries.setdefault(entry.conversation, [])
            end = entries[-1].position + len(entries[-1].events) if entries else 0
            cause = (entry.conversation, entry.cause)
            if entry.position != end or cause in self._causes:
                raise Conflict(entry.conversation, entry.position, entry.cause)
            seq = self._seq[entry.root]
            self._seq[entry.root] = seq + len(entry.events)
            self._causes[cause] = entry.position
            entry.seq = seq
            entries.append(entry)

    async def find(self, conversation: str, cause: str) -> int | None:
        with self._lock:
            return self._causes.get((conversation, cause))

    async def unfinished(self) -> list[str]:
        with self._lock:
            return [id for id, entries in self._entries.items() if _outstanding(entries)]

    async def close(self) -> None:
        """Nothing to write: what was appended stays readable as long as the team lives."""


def _outstanding(entries: list[Entry]) -> bool:
    """Whether a run was asked for that has not ended."""
    events = [type(event) for entry in entries for event in entry.events]
    return events.count(UserSpoke) > events.count(RunCompleted) + events.count(RunFailed)
