"""MemoryAgents: agent profiles and switches that people changed at run time, in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from changeover.relay.tables import KeptAgent
from changeover.routing.profile import Profile


class MemoryAgents:
    """Agents in memory. The lock is the log's."""

    def __init__(self, lock: threading.Lock, now: Callable[[], float]) -> None:
        self._lock, self._now = lock, now
        self._agents: dict[str, KeptAgent] = {}
        self._version = 0

    async def all(self) -> list[KeptAgent]:
        with self._lock:
            return [agent for _, agent in sorted(self._agents.items())]

    async def put(self, profile: Profile) -> None:
        self._change(profile.id, profile=profile, enabled=profile.enabled, removed=False)

    async def switch(self, id: str, enabled: bool) -> None:
        self._change(id, enabled=enabled, removed=False)

    async def remove(self, id: str) -> None:
        self._change(id, removed=True)

    async def version(self) -> int:
        return self._version

    def _change(self, id: str, **changes: Any) -> None:
        with self._lock:
            before = self._agents.get(id) or KeptAgent(id)
            self._agents[id] = replace(before, updated_at=self._now(), **changes)
            self._version += 1
