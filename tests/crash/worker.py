"""A process that works on a store, for as long as it lives.

    python -m tests.crash.worker

reads orders from its standard input, one a line, forks a process for each, and writes that process's id: so a process
begins in milliseconds, with everything imported.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from changeover import Team
from changeover.engines.address import engine_at
from changeover.errors import ChangeoverError, ConversationNotFound
from changeover.handoffs.tokens import load
from changeover.inputs import RunOptions
from changeover.relay.events import Entry
from changeover.relay.ports.log import Circuits, Head, Log, Reserve
from changeover.relay.ports.queue import Claim
from changeover.relay.projection.rows import Rows
from changeover.stores.sql import log
from changeover.stores.sql.dialects import postgres, sqlite
from changeover.stores.sql.statements import statements
from changeover.stores.store import Store, open_log
from changeover.stream import RunFinished
from changeover.testing.crash import PassingLog
from tests.crash.notes import Notes
from tests.crash.plans import AGENTS, Play, essence
from tests.crash.server import Serve, Server

ROOMS = (postgres, log, sqlite)
"""Which a store enters when it is opened."""


def furnish() -> None:
    load()
    for dialect in ("sqlite", "postgresql"):
        statements(dialect)


How = Literal["run", "stream", "resume"]
Where = Literal["before", "after", "after, and oversleeps"]


class Say(msgspec.Struct, frozen=True):
    """One thing to say."""

    conversation: str
    key: str
    text: str


class Stop(msgspec.Struct, frozen=True):
    """Where a process stops itself until the test continues it."""

    at: int
    """At which append, counted from 1."""
    where: Where = "after"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is to do."""

    url: str
    notes: str = ""
    """The file to note everything in."""
    say: list[list[Say]] = []
    """Rows beside one another; in a row, one after the other."""
    how: How = "run"
    """`resume` first waits for what is under way in each conversation."""
    lease: float = 0.3
    longest: float = 0.02
    """How long an effect takes at most."""
    seed: str = ""
    stop: Stop | None = None
    begin_at: float = 0.0
    """When to begin, so that several begin at once."""
    stay: bool = False
    """Whether to stay when all is said, and go on taking up what others leave behind."""
    serve: Serve | None = None
    """Serve tickets, and say nothing."""
    engine: str = ""
    """The address of the engine, if it is not the local one."""


TURNS = 3
"""Turns of the event loop from the call of a tool to its first line, or to the start of its thread, and one more."""
START = 0.01
"""Seconds in which a thread that was started reaches its first line."""


class StoppingLog(PassingLog):
    """A log whose process stops itself at an append, as if it had been sent to sleep there."""

    def __init__(self, log: Log, order: Order, stop: Stop, notes: Notes) -> None:
        super().__init__(log)
        self._stop, self._notes, self._lease = stop, notes, order.lease
        self._file = order.url.removeprefix("sqlite:///") if order.url.startswith("sqlite:") else None
        self._appends = 0

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
        rows: Rows | None = None,
    ) -> None:
        self._appends += 1
        here = self._appends == self._stop.at
        if here and self._stop.where == "before":
            await self._others_begin()
            self._sleep()
        await self._log.append(entry, head, reserve, claim, circuits, rows)
        if here and self._stop.where != "before":
            await self._others_begin()
            self._sleep()

    async def _others_begin(self) -> None:
        """A tool that the engine has just called in the other conversation begins in a task of its own, or in a thread.
        Let it do so before the process stops: else it would seem to begin when the process goes on."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def _sleep(self) -> None:
        time.sleep(START)
        if self._file:
            _wait_for_the_end_of_a_transaction(self._file)
        self._notes.write("stops")
        os.kill(os.getpid(), signal.SIGSTOP)
        if self._stop.where == "after, and oversleeps":
            time.sleep(self._lease)  # meanwhile the store's own thread takes a new lease
        self._notes.write("goes on")


def _wait_for_the_end_of_a_transaction(file: str) -> None:
    """A process that is stopped while it holds SQLite's file lock blocks all others, which cannot be avoided."""
    connection = sqlite3.connect(file, timeout=5, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")
    connection.close()


async def live(order: Order, notes: Notes) -> None:
    """One life of a process."""
    if order.serve:
        server = Server(order.serve, notes, order.seed)
        async with server.team(Store(order.url, order.lease)) as team:
            await server.serve(team)
        return
    play = Play(notes.write, order.longest, order.seed)
    await asyncio.sleep(max(0.0, order.begin_at - time.monotonic()))
    async with _team(play, order, notes) as team:
        notes.write("opened")
        await asyncio.gather(*(_say_all(team, row, order, notes) for row in order.say))
        notes.write("done")
        if order.stay:
            await asyncio.Event().wait()


def _team(play: Play, order: Order, notes: Notes) -> Team:
    store = Store(order.url, order.lease)
    if order.engine:
        return play.team(store, engine_at(order.engine))
    log: Log = open_log(store)
    return play.team(StoppingLog(log, order, order.stop, notes) if order.stop else log)


async def _say_all(team: Team, row: list[Say], order: Order, notes: Notes) -> None:
    if order.how == "resume":
        with suppress(ConversationNotFound):
            await team.resume(row[0].conversation)
    for say in row:
        await _say(team, say, order, notes)


async def _say(team: Team, say: Say, order: Order, notes: Notes) -> None:
    try:
        if order.how == "stream":
            items = [item async for item in team.stream(say.text, **options(say))]
            assert isinstance(items[-1], RunFinished)
            result = items[-1].result
        else:
            result = await team.run(say.text, **options(say))
    except ChangeoverError as error:
        notes.write("error", say.key, type(error).__name__, str(error))
    else:
        notes.write("result", say.key, result.run_id, essence(result))


def options(say: Say) -> RunOptions:
    """The key beside the text: messages may come in any order, so the answer depends on nothing before."""
    context = {"order": say.key}
    return RunOptions(conversation=say.conversation, key=say.key, agent=AGENTS[0], context=context)


def _fork(order: Order) -> int:
    pid = os.fork()
    if pid:
        return pid
    notes = Notes(Path(order.notes))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever it writes is not an answer to an order
    try:
        asyncio.run(live(order, notes))
    except BaseException:
        notes.write("wrong", kind="crash", value=traceback.format_exc())
    os._exit(0)


def main() -> None:
    furnish()
    Play(lambda *noted: None).team(None)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    for line in sys.stdin:
        print(_fork(msgspec.json.decode(line, type=Order)), flush=True)


if __name__ == "__main__":
    main()
