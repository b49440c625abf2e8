"""A log in memory: gone with the process, shared by its threads."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator

from changeover.errors import Conflict
from changeover.relay.events import Entry, RunCompleted, RunFailed, RunResumed, UserSpoke
from changeover.relay.ports import Head

POLL = 0.02


class MemoryLog:
    """The log that a team has unless it is given a store. Nobody else can own what lies in it."""

    epoch = 1

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, list[Entry]] = {}
        self._causes: dict[tuple[str, str], int] = {}
        self._seq: defaultdict[str, int] = defaultdict(lambda: 1)

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        with self._lock:
            return [entry for entry in self._entries.get(conversation, ()) if entry.position >= after]

    async def append(self, entry: Entry, head: Head | None) -> None:
        conversation, root = entry.conversation, entry.root
        with self._lock:
            entries = self._entries.setdefault(conversation, [])
            end = entries[-1].position + len(entries[-1].events) if entries else 0
            cause = (conversation, entry.cause)
            if entry.position != end or cause in self._causes:
                raise Conflict(conversation, entry.position, entry.cause)
            entry.seq = seq = self._seq[root]
            self._seq[root] = seq + len(entry.events)
            self._causes[cause] = end
            entries.append(entry)

    async def find(self, conversation: str, cause: str) -> int | None:
        with self._lock:
            return self._causes.get((conversation, cause))

    async def unfinished(self) -> list[str]:
        with self._lock:
            return [id for id, entries in self._entries.items() if _outstanding(entries)]

    async def claim(self, conversation: str) -> bool:
        return True

    def may_begin(self) -> bool:
        return True

    async def changes(self, root: str, after_seq: int = 0) -> AsyncIterator[Entry]:
        while True:
            for entry in self._after(root, after_seq):
                after_seq = entry.seq
                yield entry
            await asyncio.sleep(POLL)

    async def close(self) -> None:
        """Nothing to write: what was appended stays readable as long as the team lives."""

    def _after(self, root: str, seq: int) -> list[Entry]:
        with self._lock:
            tree = [entry for entries in self._entries.values() for entry in entries if entry.root == root]
        return sorted((entry for entry in tree if entry.seq > seq), key=lambda entry: entry.seq)


def _outstanding(entries: list[Entry]) -> bool:
    """Whether a run was asked for that has not ended."""
    events = [type(event) for entry in entries for event in entry.events]
    begun = events.count(UserSpoke) + events.count(RunResumed)
    return begun > events.count(RunCompleted) + events.count(RunFailed)
