"""Entries to store."""

import asyncio
import inspect
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from changeover.messages import Call
from changeover.relay.events import (
    Entry,
    Event,
    HandoffAccepted,
    HandoffOffered,
    ModelReplied,
    RunCompleted,
    RunStarted,
    Started,
    UserSpoke,
)
from changeover.relay.ports import Head, Log

WORKING = Head("running", "front", True)
LEFT = Head("running", "front", False)
DONE = Head("completed", "front", False)


def opening(conversation: str = "c", text: str = "hello", at: float = 1.0, **spoken: Any) -> Entry:
    """A user begins a conversation."""
    events = (Started(conversation), UserSpoke(text, **spoken), RunStarted(1, "front"))
    return Entry(conversation, conversation, 0, "said@1", at, events)


def more(position: int, cause: str = "", conversation: str = "c", root: str = "", at: float = 2.0) -> Entry:
    """Something is said in a conversation."""
    event = UserSpoke(f"at {position}")
    return Entry(conversation, root or conversation, position, cause or f"said@{position}", at, (event,))


def child(conversation: str, root: str, parent: str = "") -> Entry:
    """A conversation that serves another begins."""
    return Entry(conversation, root, 0, "begin", 1.0, (Started(root, parent or root), UserSpoke("help")))


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
    with psycopg.connect(url, autocommit=True) as other:
        cursor = other.execute(sql)
        return cursor.fetchall() if cursor.description else []
