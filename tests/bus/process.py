"""A process in which a team is open, until it is killed.

    python -m tests.bus.process

reads orders from its standard input, one a line, forks a process for each, and writes that process's id: so a process
begins in milliseconds, with everything imported.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from changeover import Agent, Store, Team
from changeover.bus import BusEvent, Schedule, Subscription
from changeover.engines.clock import SystemClock
from changeover.relay.events import Entry, RunCompleted
from changeover.stores.sql import log
from changeover.stores.sql.dialects import postgres, sqlite
from changeover.stores.sql.statements import statements
from changeover.stores.store import database_of
from changeover.testing import ScriptedModel, says
from tests.crash.nursery import Worker

ROOMS = (postgres, log, sqlite)
"""Which a store enters when it is opened."""
LEASE = 1.0
SUBSCRIBERS = ("first", "second", "third")
CRON = "*/5 * * * *"


class Order(msgspec.Struct, frozen=True):
    """Open the team of this store; note in the file what happens; read the time from the clock, if there is one."""

    url: str
    notes: str
    clock: str = ""
    dies: bool = False
    """Let the agent answer, and die as soon as the end of its run is recorded."""


class DyingLog(log.SqlLog):
    """A log whose process is killed as soon as the end of a run is recorded."""

    async def append(self, entry: Entry, *more: Any, **named: Any) -> None:
        await super().append(entry, *more, **named)
        if any(isinstance(event, RunCompleted) for event in entry.events):
            os.kill(os.getpid(), signal.SIGKILL)


class FileClock:
    """A clock that shows the time that stands in a file, for several processes."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def now(self) -> float:
        return float(self._path.read_text())

    async def sleep_until(self, at: float) -> None:
        await self.alarm(at)

    async def alarm(self, at: float) -> None:
        while self.now() < at:  # noqa: ASYNC110 - another process moves it
            await asyncio.sleep(0.005)

    def move(self, to: float) -> None:
        """Let it show this time from now on."""
        other = self._path.with_suffix(".next")
        other.write_text(repr(to))
        other.rename(self._path)  # no reader sees half of it


class Notes:
    """Lines that several processes append to a file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def team_of(order: Order) -> Team:
    """A team with three subscribers and a schedule, which note what they get; the second one fails on poison."""
    notes = Notes(order.notes)

    def handler(name: str) -> Subscription:
        async def handle(event: BusEvent) -> None:
            if name == "second" and event.data["poison"]:
                raise ValueError("poison")
            notes.add(name, event.source, event.data["number"], event.id)

        return Subscription("number", to=handle, name=name, tries=2, backoff=0.01)

    clock = FileClock(order.clock) if order.clock else SystemClock()

    def start(event: BusEvent) -> None:
        notes.add(event.id, event.data["due"], clock.now())

    async def tell(event: BusEvent) -> None:
        notes.add(event.type, event.data["conversation"], event.data["output"], event.id)

    schedules = [Schedule("often", cron=CRON, start=start, overlap="queue")] if order.clock else []
    ends = Subscription("changeover.run.completed", to=tell, name="ends")
    subscriptions = [] if order.clock else [*(handler(name) for name in SUBSCRIBERS), ends]
    store = Store(order.url, LEASE)
    return Team(
        [Agent("a")],
        model=ScriptedModel({"a": [says("done")]}),
        store=DyingLog(database_of(store), LEASE) if order.dies else store,
        clock=clock,
        subscriptions=subscriptions,
        schedules=schedules,
    )


class Mother:
    """Starts processes, and ends those that are left."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bus.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        self._children: list[Worker] = []

    def start(self, order: Order) -> Worker:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()
        self._children.append(Worker(int(self._process.stdout.readline())))
        return self._children[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            child.kill()
        self._process.kill()
        self._process.communicate()


async def _live(order: Order) -> None:
    if order.dies:  # without opening the team: this process hands out no events
        await team_of(order).run("hello", conversation="c1")
    async with team_of(order):
        await asyncio.Event().wait()


def main() -> None:
    for dialect in ("sqlite", "postgresql"):
        statements(dialect)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for a process that was killed
    for line in sys.stdin.buffer:
        if pid := os.fork():
            print(pid, flush=True)
            continue
        try:
            with suppress(KeyboardInterrupt):
                asyncio.run(_live(msgspec.json.decode(line, type=Order)))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)


if __name__ == "__main__":
    main()
