"""A log that passes everything on to another, for those who change one thing about it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from changeover.facts import ApprovalRequest
from changeover.relay.agents import Agents
from changeover.relay.contexts import Contexts
from changeover.relay.events import Entry
from changeover.relay.experience import Lessons
from changeover.relay.ports import Breakers, Circuits, Head, Log, Reserve
from changeover.relay.queue import Claim, Queue
from changeover.relay.tables import Measures
from changeover.relay.trials import Trials


class PassingLog:
    """Whatever is asked of it is asked of the log beneath."""

    def __init__(self, log: Log) -> None:
        self.beneath = log

    @property
    def _log(self) -> Log:
        """The log beneath, for whoever may use it now."""
        return self.beneath

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
    ) -> None:
        await self._log.append(entry, head, reserve, claim, circuits)

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        return await self._log.read(conversation, after)

    async def tree(self, conversation: str) -> list[Entry]:
        return await self._log.tree(conversation)

    async def find(self, conversation: str, cause: str) -> int | None:
        return await self._log.find(conversation, cause)

    async def unfinished(self) -> list[str]:
        return await self._log.unfinished()

    async def approvals(self) -> list[ApprovalRequest]:
        return await self._log.approvals()

    async def at_work(self, agent: str) -> list[str]:
        return await self._log.at_work(agent)

    async def claim(self, conversation: str) -> bool:
        return await self._log.claim(conversation)

    async def release(self, conversation: str, position: int, rests: str = "", due: float | None = None) -> bool:
        return await self._log.release(conversation, position, rests, due)

    async def owned(self) -> dict[str, int]:
        return await self._log.owned()

    async def forget(self, root: str) -> bool:
        return await self._log.forget(root)

    def may_begin(self) -> bool:
        return self._log.may_begin()

    def changes(self, root: str, after_seq: int = 0) -> AsyncIterator[Entry]:
        return self._log.changes(root, after_seq)

    async def close(self) -> None:
        await self._log.close()

    @property
    def epoch(self) -> int:
        return self._log.epoch

    @property
    def queue(self) -> Queue:
        return self._log.queue

    @property
    def contexts(self) -> Contexts:
        return self._log.contexts

    @property
    def agents(self) -> Agents:
        return self._log.agents

    @property
    def breakers(self) -> Breakers:
        return self._log.breakers

    @property
    def trials(self) -> Trials:
        return self._log.trials

    @property
    def measures(self) -> Measures:
        return self._log.measures

    @property
    def experience(self) -> Lessons:
        return self._log.experience
