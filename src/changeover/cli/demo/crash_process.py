"""The process that `demo --crash` kills: `python -m changeover.cli.demo.crash_process URL JOURNAL`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from changeover.agent.moves import UseTool
from changeover.cli.demo.desk import MESSAGES, desk, line
from changeover.facts import ApprovalRequest
from changeover.guards.approval import Approve
from changeover.ids import effect_key
from changeover.messages import Message, Reply, ToolResult
from changeover.relay.ports.world import Model, Request, Toolkit, ToolOutcome, World
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.stores.store import Store
from changeover.testing import ScriptedModel
from changeover.tools.run_context import RunContext
from changeover.tools.tool import ToolDefinition

ID = "crash"
LEASE = 1.0
"""Seconds after which another process may take over."""
LATENCY, LAST_LATENCY = 0.25, 1.5
"""Seconds until a reply; the one after the refund leaves time for the kill."""


class Noted(Struct, frozen=True):
    """A call that a process has started."""

    pid: int
    key: str
    """The key of its outcome in the log: `conversation:command`."""
    agent: str
    what: str


class Journal:
    """A file, independent of the log, to which every call is appended when it starts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def watch(self, world: World) -> World:
        """The world with models and tools that write their calls into the journal."""
        models = {id: NotedModel(model, self) for id, model in world.models.items()}
        toolkits = {id: NotedToolkit(toolkit, self) for id, toolkit in world.toolkits.items()}
        return replace(world, models=models, toolkits=toolkits)

    def note(self, conversation: str, command: str, agent: str, what: str) -> None:
        noted = Noted(os.getpid(), effect_key(conversation, command), agent, what)
        with self._path.open("ab", buffering=0) as file:  # one write: a killed process leaves no half line
            file.write(msgspec.json.encode(noted) + b"\n")

    def read(self) -> list[Noted]:
        """All calls so far, in the order in which they started."""
        return [msgspec.json.decode(line, type=Noted) for line in self._path.read_bytes().splitlines()]


class NotedModel:
    """A model whose calls are written into the journal."""

    def __init__(self, model: Model, journal: Journal) -> None:
        self._model, self._journal = model, journal

    async def reply(self, request: Request) -> Reply:
        self._journal.note(request.conversation, request.command, request.agent, "model")
        return await self._model.reply(request)

    def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        self._journal.note(request.conversation, request.command, request.agent, "model")
        return self._model.stream(request)


class NotedToolkit:
    """A toolkit whose calls are written into the journal."""

    def __init__(self, toolkit: Toolkit, journal: Journal) -> None:
        self._toolkit, self._journal = toolkit, journal

    def tools(self) -> Sequence[UseTool]:
        return self._toolkit.tools()

    def misfit(self, name: str, args: dict[str, Any], context: RunContext) -> str:
        return self._toolkit.misfit(name, args, context)

    async def call(self, name: str, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        self._journal.note(context.conversation, context.command, context.agent, name)
        return await self._toolkit.call(name, args, context)


async def slow_line(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """The next reply of the script, after the latency of a model."""
    last = messages[-1]
    await asyncio.sleep(LAST_LATENCY if isinstance(last, ToolResult) and last.name == "refund" else LATENCY)
    return line(agent, messages, tools)


def approve(request: ApprovalRequest) -> Approve:
    """Approve everything: this process has no user."""
    return Approve()


async def work(url: str, journal: Path) -> None:
    """Send the customer's first message, and work until it is answered."""
    team = desk(ScriptedModel(slow_line), ask=approve).on(Store(url, lease=LEASE), Journal(journal).watch)
    async with team:
        await team.run(MESSAGES[0], conversation=ID, key="first")


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2])))
