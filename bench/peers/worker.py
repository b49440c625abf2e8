"""One scenario of one contender: `python -m bench.peers.worker ADAPTER SCENARIO ARGS` prints its figures as JSON.

It runs in the contender's own environment, so it imports the standard library and the adapter only. Times are CPU times
of the process with all its threads: other work on the machine disturbs them less than it disturbs the clock.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from bench import ring

Figures = dict[str, Any]


def contender(adapter: str) -> Any:
    return import_module(f"bench.peers.adapters.{adapter}").Contender()


async def relay(adapter: str, runs: dict[str, int]) -> Figures:
    """CPU microseconds of a run in memory, by the number of its handoffs."""
    peer, taken = contender(adapter), {}
    for hops, times in runs.items():
        for _ in range(10):
            ring.begin(int(hops))
            assert ring.ANSWER in str(await peer.relay())
        gc.collect()
        begun = time.process_time()
        for _ in range(times):
            ring.begin(int(hops))
            await peer.relay()
        taken[hops] = (time.process_time() - begun) / times * 1e6
    return taken


async def durable(adapter: str, runs: int) -> Figures:
    """CPU microseconds and bytes on disk of a run of one handoff with the library's own persistence."""
    peer = contender(adapter)
    with tempfile.TemporaryDirectory(prefix="changeover-peers-") as name:
        folder = Path(name)
        await peer.open(folder)
        for number in range(5):
            ring.begin(1)
            assert ring.ANSWER in str(await peer.durable(f"warm-{number}"))
        before, begun = size(folder), time.process_time()
        for number in range(runs):
            ring.begin(1)
            await peer.durable(f"run-{number}")
        taken = time.process_time() - begun
        await peer.close()
        return {"cpu": taken / runs * 1e6, "bytes": (size(folder) - before) / runs}


async def long(adapter: str, marks: list[int], budget: float) -> Figures:
    """CPU milliseconds of a turn, and bytes on disk, at some turns of a conversation; `budget` seconds end it."""
    peer, taken, found = contender(adapter), [], {}
    with tempfile.TemporaryDirectory(prefix="changeover-peers-") as name:
        folder = Path(name)
        await peer.open(folder)
        for number in range(1, max(marks) + 1):
            ring.begin(0)
            begun = time.process_time()
            await peer.turn(f"Turn {number}: {ring.ASKED}")
            taken.append(time.process_time() - begun)
            if number in marks:
                found[str(number)] = {"cpu": median(taken[-10:]) * 1e3, "bytes": size(folder)}
            if sum(taken) > budget:
                break
        await peer.close()
    return found


async def many(adapter: str, runs: int, latency: float) -> Figures:
    """CPU seconds and peak MiB of many concurrent runs of one handoff with a slow model."""
    peer = contender(adapter)

    async def one() -> str:
        ring.begin(1)
        return str(await peer.relay())

    await one()
    ring.CONDITIONS.latency = latency
    begun, wall = time.process_time(), time.perf_counter()
    answers = await asyncio.gather(*(one() for _ in range(runs)))
    assert all(ring.ANSWER in answer for answer in answers)
    return {
        "cpu": time.process_time() - begun,
        "wall": time.perf_counter() - wall,
        "peak": peak(),
    }


async def imports(adapter: str, statement: str) -> Figures:
    """CPU milliseconds and peak MiB of the import that a program begins with."""
    begun = time.process_time()
    exec(statement, {})
    return {"cpu": (time.process_time() - begun) * 1e3, "peak": peak()}


async def crash(adapter: str, folder: str) -> Figures:
    """Kill this process as the receiver's model is called."""
    peer = contender(adapter)
    await peer.open(Path(folder))
    ring.CONDITIONS.killed_at = 2
    ring.begin(1)
    await peer.durable("killed")
    raise AssertionError("the process outlived its kill")


async def resume(adapter: str, folder: str) -> Figures:
    """Go on with what `crash` left behind; the agents whose models were called say where the library went on."""
    peer = contender(adapter)
    await peer.open(Path(folder))
    run = ring.begin(0)
    said = str(await peer.resume("killed"))
    return {"agents": run.calls, "answered": ring.ANSWER in said, "said": said}


def peak() -> float:
    """The largest resident size of this process so far, in MiB; `getrusage` would count its parent's too."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def size(folder: Path) -> int:
    """The bytes of all files but the shared memory of SQLite, which first moves its logs into the databases."""
    for path in folder.rglob("*.db"):
        database = sqlite3.connect(path, timeout=1)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        database.close()
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".db-shm")


SCENARIOS: dict[str, Callable[..., Coroutine[Any, Any, Figures]]] = {
    scenario.__name__: scenario for scenario in (relay, durable, long, many, imports, crash, resume)
}


def main(adapter: str, scenario: str, args: str) -> None:
    report = os.dup(1)
    os.dup2(2, 1)  # a library that prints must not print into the report
    figures = asyncio.run(SCENARIOS[scenario](adapter, **json.loads(args)))
    os.write(report, json.dumps(figures).encode())
    os._exit(0)  # some libraries leave threads behind that would keep the process alive


if __name__ == "__main__":
    main(*sys.argv[1:])
