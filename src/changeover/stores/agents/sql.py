"""SqlAgents: what people say of agents, in the database of a log."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from changeover.relay.agents import KeptAgent
from changeover.routing.profile import Profile
from changeover.stores.agents.jobs import AgentJob
from changeover.stores.sql.agents import AgentStatements
from changeover.stores.sql.database import Call, Row
from changeover.stores.sql.reader import Reader
from changeover.stores.sql.writer import Writer


class SqlAgents:
    """Whoever changes something asks the writer; whoever lists only reads."""

    def __init__(self, sql: AgentStatements, writer: Writer, reader: Reader, check: Callable[[], None]) -> None:
        self._sql, self._writer, self._reader = sql, writer, reader
        self._check = check
        """Raises if the store is closed."""

    async def all(self) -> list[KeptAgent]:
        self._check()
        return [_kept(row) for row in await self._reader.rows(self._sql.all())]

    async def put(self, profile: Profile) -> None:
        text = msgspec.json.encode(profile).decode()
        await self._change(self._sql.put(id=profile.id, profile=text, enabled=profile.enabled, removed=False))

    async def switch(self, id: str, enabled: bool) -> None:
        await self._change(self._sql.switch(id=id, profile=None, enabled=enabled, removed=False))

    async def remove(self, id: str) -> None:
        await self._change(self._sql.remove(id=id, profile=None, enabled=True, removed=True))

    async def version(self) -> int:
        self._check()
        [[version]] = await self._reader.rows(self._sql.version())
        return int(version)

    async def _change(self, call: Call) -> None:
        self._check()
        self._writer.put(job := AgentJob(call))
        await job.future


def _kept(row: Row) -> KeptAgent:
    id, profile, enabled, removed, updated_at = row
    said = None if profile is None else msgspec.json.decode(profile, type=Profile)
    return KeptAgent(id, said, bool(enabled), bool(removed), updated_at)
