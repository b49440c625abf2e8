"""Large things: a message of ten megabytes, and lists of many conversations."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from bench.durable import folder
from bench.measure import Figure, Taken, Work, alternated, ratio
from bench.ring import ASKED
from bench.script import LEFT, ring
from changeover import Team
from changeover.relay.ports.lists import ConversationRow, HandoffRow, RunRow, TaskRow

SIZE = 10 * 2**20
STORED = 100_000


async def message() -> list[Figure]:
    """A message of ten megabytes that is handed over once: memory above idle, and how long the event loop stands."""
    command = [sys.executable, "-m", "bench.large"]
    rounds = [(await _printed(command)).split() for _ in range(3)]
    memory, blocked = (min(map(float, values)) for values in zip(*rounds, strict=True))
    return [
        Figure("10 MB message, memory above idle", memory, 120, unit=" MB"),
        Figure("10 MB message, event loop blocked", blocked, 100, unit=" ms"),
    ]


async def _printed(command: list[str]) -> str:
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    return (await process.communicate())[0].decode()


async def _large_message() -> None:
    with folder() as here:
        team = ring(store=f"sqlite:///{here}/ours.db")
        LEFT.set([1])
        await team.run("warm up")
        text = ("The parcel came twice, and I paid for both of them. " * (SIZE // 52 + 1))[:SIZE]
        watching = asyncio.ensure_future(_watch(longest := [0.0]))
        await asyncio.sleep(0.05)
        idle = _peak(reset=True)
        LEFT.set([1])
        await team.run(text)
        await asyncio.sleep(0.05)
        peak = _peak()
        watching.cancel()
        await team.close()
    print((peak - idle) / 1024, longest[0] * 1e3)


async def _watch(longest: list[float]) -> None:
    """Note the longest time in which nothing else ran on the event loop."""
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(0.001)
        longest[0] = max(longest[0], time.perf_counter() - begun)


def _peak(reset: bool = False) -> int:
    """The largest resident size of this process in KB, since it was last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1])


LISTS: dict[str, tuple[type[Any], dict[str, str]]] = {
    "conversations": (ConversationRow, {}),
    "failed conversations": (ConversationRow, {"status": "failed"}),
    "conversations of a user": (ConversationRow, {"user": "user-5"}),
    "handoffs": (HandoffRow, {}),
    "tasks": (TaskRow, {}),
    "runs": (RunRow, {}),
}


async def lists() -> list[Figure]:
    """A page of each list of 100,000 conversations, relative to that of 1,000."""
    found: dict[int, dict[str, Taken]] = {}
    for count in (STORED // 100, STORED):
        with folder() as here:
            team = await _filled(here / "ours.db", count)
            works: dict[str, tuple[Work, int]] = {
                name: (partial(team.log.lists.listed, kind, wanted, roots=kind is ConversationRow), 20)
                for name, (kind, wanted) in LISTS.items()
            }
            found[count] = await alternated(works, 5)
            await team.close()
    few, many = found.values()
    return [
        ratio(f"a page of {name}: {STORED:,} / {STORED // 100:,}", many[name], few[name], 2, _milliseconds(many[name]))
        for name in LISTS
    ]


def _milliseconds(found: Taken) -> str:
    return f"{found.least * 1e3:.2f} ms"


async def _filled(path: Path, count: int) -> Team:
    """A store with copies of one conversation, of ten users."""
    team = ring(store=f"sqlite:///{path}")
    LEFT.set([1])
    await team.run(ASKED, conversation="0")
    await team.close()
    with sqlite3.connect(path) as db:
        db.create_function("renamed", 2, lambda id, number: f"{number:08d}{id[1:]}" if id else id, deterministic=True)
        db.execute(
            "CREATE TEMP TABLE numbers AS WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n "
            f"WHERE x < {count}) SELECT x FROM n"
        )
        for table, named in COPIED.items():
            columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})") if name != "number"]
            values = [
                "x * 0.001 + " + name if name in TIMES else f"renamed({name}, x)" if name in named else name
                for name in columns
            ]
            db.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {table}, numbers")
        db.execute("UPDATE conversations SET user_name = 'user-' || (number % 10)")
    return ring(store=f"sqlite:///{path}")


COPIED = {
    "conversations": {"id", "root"},
    "tasks": {"conversation", "id", "master_id", "run_id", "handoff_id"},
    "messages": {"conversation", "task_id"},
    "handoffs": {"id", "conversation", "run_id", "sender_task_id", "task_id"},
}
"""The columns of each table that begin with the id of a conversation."""
TIMES = {"created_at", "updated_at", "said_at", "offered_at", "accepted_at", "ended_at", "at"}

if __name__ == "__main__":
    asyncio.run(_large_message())
