"""The floor: the loop of `bench.floor`, written by hand; its journal syncs every step to disk."""

from __future__ import annotations

from pathlib import Path

from bench import floor, ring
from bench.script import LEFT


class Contender:
    async def relay(self) -> str:
        LEFT.set([ring.RUN.get().left])
        return await floor.relay(ring.CONDITIONS.latency)

    async def open(self, folder: Path) -> None:
        self._journal = floor.Journal(folder / "floor.db")

    async def durable(self, conversation: str) -> str:
        LEFT.set([ring.RUN.get().left])
        return await self._journal.relay()

    async def close(self) -> None:
        self._journal.close()
