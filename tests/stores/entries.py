"""Entries to store."""

import asyncio
import inspect
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from changeover.facts import ApprovalRequest
from changeover.guards.approval import Decision
from changeover.messages import Call
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalRequested,
    Entry,
    Event,
    Given,
    HandoffAccepted,
    HandoffOffered,
    ModelReplied,
    RunCompleted,
    RunStarted,
    Started,
    UserSpoke,
)
from changeover.relay.ports.log import Head, Log

WORKING = Head("running", "front", True)
LEFT = Head("running", "front", False)
DONE = Head("completed", "front", False)
WAITING = Head("waiting", "front", False)


def opening(conversation: str = "c", text: str = "hello", at: float = 1.0, **spoken: Any) -> Entry:
    """A user begins a conversation."""
    events = (Started(), UserSpoke(text, **spoken), RunStarted(1, "front"))
    return Entry(conversation, conversation, 0, "said@1", at, events)


def more(position: int, cause: str = "", conversation: str = "c", root: str = "", at: float = 2.0) -> Entry:
    """Something is said in a conversation."""
    event = UserSpoke(f"at {position}")
    return Entry(conversation, root or conversation, position, cause or f"said@{position}", at, (event,))


def child(conversation: str, root: str, parent: str = "") -> Entry:
    """A conversation that serves another begins."""
    return Entry(conversation, root, 0, "begin", 1.0, (Started(root, parent or root), UserSpoke("help")))


def delegate(conversation: str, root: str, at: float = 3.0, **given: Any) -> Entry:
    """A delegate begins to work for the first agent of the conversation above it."""
    spoken = UserSpoke("look it up", agent="billing", given=Given("front", 2, **given))
    events = (Started(root, conversation.rpartition("/")[0], 1), spoken, RunStarted(1, "billing"))
    return Entry(conversation, root, 0, "begin", at, events)


def asked(position: int, call: str, conversation: str = "c", root: str = "", at: float = 2.0, **asks: Any) -> Entry:
    """An agent wants to do what a person has to allow."""
    event = ApprovalRequested(call, 2, "front", "refund", **{"arguments": {"amount": 5}} | asks)
    return Entry(conversation, root or conversation, position, f"ask {call}", at, (event,))


def decided(position: int, request: ApprovalRequest, decision: Decision, at: float = 3.0, **how: Any) -> Entry:
    """A person decides."""
    conversation = request.conversation
    event = ApprovalDecided(request.call, request.digest, decision, **how)
    return Entry(conversation, conversation.partition("/")[0], position, f"decide@{position}", at, (event,))


def handing_over(position: int = 3, conversation: str = "c", at: float = 2.0, **offer: Any) -> Entry:
    """The first agent hands over to the second."""
    call = f"{position}.0"
    events = (
        ModelReplied("front", 2, calls=(Call("x", "handoff", {"to": "billing"}),)),
        HandoffOffered(call, 2, "front", "billing", "yours", **offer),
        HandoffAccepted(call, 2, "billing"),
    )
    return Entry(conversation, conversation, position, "2", at, events)


def answer(position: int, task: int, conversation: str = "c", run: int = 1, at: float = 3.0) -> Entry:
    """The second agent answers."""
    events: tuple[Event, ...] = (ModelReplied("billing", task, "Done."), RunCompleted(run))
    return Entry(conversation, conversation, position, str(task), at, events)


async def stored(log: Log, conversation: str = "c") -> list[tuple[int, str, int]]:
    """What a log holds of a conversation: position, cause and seq of each entry."""
    return [(entry.position, entry.cause, entry.seq) for entry in await log.read(conversation)]


async def until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 5.0) -> None:
    """Wait for what another thread or process does."""
    async with asyncio.timeout(seconds):
        while True:
            met = condition()
            if await met if inspect.isawaitable(met) else met:
                return
            await asyncio.sleep(0.01)


def query(url: str, sql: str) -> list[tuple[Any, ...]]:
    """Look into a store by other means than ours."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()
    from tests.databases import ask  # here: processes that are started import this module, and need no pytest

    return ask(url, sql)


def plan_of(path: Path, call: tuple[str, tuple[Any, ...]]) -> str:
    """How SQLite goes about a query."""
    sql, args = call
    for arg in args:
        sql = sql.replace("?", repr(arg), 1)
    return " / ".join(str(row[3]) for row in query(f"sqlite:///{path}", f"EXPLAIN QUERY PLAN {sql}"))


def rows(store: str, table: str, *columns: str, order: str = "conversation, position") -> list[tuple[Any, ...]]:
    """What a table holds."""
    return query(store, f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}")


def kinds(store: str) -> list[tuple[Any, ...]]:
    """The messages of a store in their order: position, kind, agent and content."""
    return rows(store, "messages", "position", "kind", "agent", "content", order="position, part")
