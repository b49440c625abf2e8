"""The floor: a minimal correct handoff loop, written by hand with the standard library only."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.ring import ANSWER, ASKED, NEXT, REASON, RING
from bench.script import LEFT


@dataclass(slots=True)
class Call:
    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class Message:
    role: str
    text: str = ""
    agent: str = ""
    calls: list[Call] = field(default_factory=list)
    answers: str = ""


TYPES = {"string": str}
SCHEMA = {"properties": {"to": {"type": "string"}, "message": {"type": "string"}}, "required": ["to", "message"]}


def checker(schema: dict[str, dict[str, dict[str, str]]]) -> Callable[[dict[str, object]], None]:
    """A validator of arguments, compiled once."""
    types = {name: TYPES[about["type"]] for name, about in schema["properties"].items()}
    required = frozenset(schema["required"])

    def check(args: dict[str, object]) -> None:
        if not required <= args.keys():
            raise ValueError("missing")
        for name, value in args.items():
            if not isinstance(value, types[name]):
                raise ValueError(name)

    return check


CHECK = checker(SCHEMA)  # type: ignore[arg-type]


async def model(agent: str, messages: list[Message], latency: float) -> Message:
    if latency:
        await asyncio.sleep(latency)
    left = LEFT.get()
    if left[0] <= 0:
        return Message("assistant", ANSWER, agent)
    left[0] -= 1
    args = json.dumps({"to": NEXT[agent], "message": REASON})
    return Message("assistant", "", agent, [Call(f"call_{len(messages)}", "handoff", args)])


async def run(agent: str, messages: list[Message], latency: float = 0.0, step: Callable[[Message], object] = id) -> str:
    """Call models and perform calls until an agent answers. `step` is called after each message."""
    for _ in range(1_000):
        reply = await model(agent, messages, latency)
        messages.append(reply)
        step(reply)
        if not reply.calls:
            return reply.text
        for call in reply.calls:
            args = json.loads(call.arguments)
            CHECK(args)
            agent = args["to"]
            result = Message("tool", f"transferred to {agent}", agent, answers=call.id)
            messages.append(result)
            step(result)
    raise RuntimeError("no answer")


async def relay(latency: float = 0.0, first: str = RING[0]) -> str:
    """One conversation of one message, which begins with this agent."""
    return await run(first, [Message("user", ASKED)], latency)


class Journal:
    """The floor on disk: an append-only SQLite journal, synced after every step."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE journal (seq INTEGER PRIMARY KEY, run TEXT, agent TEXT, body TEXT)")
        self._db.execute("CREATE INDEX by_run ON journal (run, seq)")
        self._runs = 0

    async def relay(self, latency: float = 0.0) -> str:
        """One conversation of one message; each step is on disk before the next begins."""
        self._runs += 1
        key = f"run-{self._runs}"

        def step(message: Message) -> None:
            body = json.dumps(asdict(message), separators=(",", ":"))
            self._db.execute("INSERT INTO journal (run, agent, body) VALUES (?, ?, ?)", (key, message.agent, body))

        asked = Message("user", ASKED)
        step(asked)
        return await run(RING[0], [asked], latency, step)

    def close(self) -> None:
        self._db.close()
