"""`demo --crash`: kill the process that runs the desk, and let a second process continue."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.text import Text

from changeover.cli.demo.crash_process import ID, LEASE, Journal
from changeover.cli.demo.desk import CUSTOMER, MEMBERS, MESSAGES, desk
from changeover.cli.demo.play import show_next
from changeover.cli.exits import Mistake, console
from changeover.cli.options import store_url
from changeover.cli.terminal.page import Page
from changeover.cli.terminal.transcript import Transcript
from changeover.ids import effect_key
from changeover.relay.events import Entry, RunCompleted, ToolFinished
from changeover.relay.history import recorded
from changeover.relay.ports.log import Log
from changeover.relay.stream import Recorded
from changeover.stores.store import Store, open_log

TITLE = "Changeover: kill -9 in the middle, and nothing is lost or repeated"
ABOUT = (
    "One process works at the desk, and is killed right after the refund, before the customer is told. "
    "Then another process is started. This page is read from the store by a third process. "
    "Scripted: no model, no key, no network; the processes, the kill and the log are real."
)
WITNESS = "The table is not taken from the log: models and tools wrote it themselves when they were called."
REFUND = "refund"
LONGEST = 60.0
"""Seconds until the demo gives up."""


def crash_desk(store: str | None = None) -> None:
    """Kill a working process, start another, and show which calls each of them made."""
    with tempfile.TemporaryDirectory() as folder:
        url = store_url(store or str(Path(folder, "desk.db")))
        crash = Crash(url, Path(folder, "journal"))
        asyncio.run(crash.run())
    show_next(crash.page, store, ID, "demo --crash")


class Crash:
    """One conversation, and the two processes that work on it one after the other."""

    def __init__(self, url: str, journal: Path) -> None:
        self._url, self._path, self._journal = url, journal, Journal(journal)
        self.page = Page(console(), [CUSTOMER, *(member.id for member in MEMBERS)])
        self._transcript = Transcript(self.page, desk().roster)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._entries: list[Entry] = []
        self._before: set[str] = set()
        """The keys of the entries recorded before the first process was killed."""

    async def run(self) -> None:
        """Run the demo from its title to the commands to try next."""
        self.page.title(TITLE, ABOUT)
        log = open_log(Store(self._url))
        try:
            if await log.read(ID):
                raise Mistake(f"{self._url} has a conversation {ID!r} already; choose another --store")
            async with asyncio.timeout(LONGEST):
                await self._watch(log)
            self._table()
        except TimeoutError:
            raise Mistake(f"no process finished within {LONGEST:g} seconds") from None
        finally:
            self._end()
            await log.close()

    async def _watch(self, log: Log) -> None:
        """Show what is recorded, kill the first process after the refund, and return when the run completes."""
        self.page.speaker(CUSTOMER)
        self.page.write(MESSAGES[0])
        self._start()
        async for entry in log.changes(ID):
            self._entries.append(entry)
            new = list(recorded(self._entries))[-len(entry.events) :]
            for each in new:
                self._transcript.item(each)
            if len(self._workers) == 1 and any(map(self._is_refund, new)):
                await self._kill(log)
                self._start()
                self._taken_up(new[-1].agent)
            if any(isinstance(each.event, RunCompleted) and each.conversation == ID for each in new):
                await asyncio.to_thread(self._workers[-1].wait)
                return

    def _is_refund(self, each: Recorded) -> bool:
        if not isinstance(each.event, ToolFinished):
            return False
        call = self._transcript.calls.find(each.conversation, each.event.call)
        return call is not None and call.name == REFUND

    def _start(self) -> None:
        command = [sys.executable, "-m", "changeover.cli.demo.crash_process", self._url, str(self._path)]
        self._workers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))

    async def _kill(self, log: Log) -> None:
        """Kill the process by SIGKILL, which it cannot catch, and note what it had recorded."""
        worker = self._workers[-1]
        worker.kill()
        worker.wait()
        self._before = {effect_key(entry.conversation, entry.cause) for entry in await log.tree(ID)}

    def _taken_up(self, agent: str) -> None:
        """Show what was recorded when the first process was killed, and which process takes over."""
        first, second = self._workers
        page, noted = self.page, self._journal.read()
        kept = [each for each in noted if each.key in self._before]
        page.label("KILLED", f"process {first.pid}, by SIGKILL, in the middle of its work")
        page.field("recorded", f"{sum(len(entry.events) for entry in self._entries)} events, {len(kept)} calls")
        page.field("active", agent)
        for each in noted:
            if each.key not in self._before:
                page.field("cut off", f"{each.agent} was waiting for the next reply of its {each.what}")
        page.gap()
        page.line(f"Process {second.pid} is started in the same way. It knows only the store.")
        page.line(f"The lease of the first process expires after {LEASE:g} s; then the second takes over:")
        page.speaker(agent)
        page.line(Text(f"continues, in process {second.pid}", "dim"))

    def _table(self) -> None:
        """Show each call, and which process made it."""
        page, noted = self.page, self._journal.read()
        pids = [worker.pid for worker in self._workers]
        page.rule("every call that was made, by process")
        page.line(Text(_row("agent", "calls", *(f"process {pid}" for pid in pids)), "dim"), margin=0)
        for key in dict.fromkeys(each.key for each in noted):
            made = {each.pid: each for each in noted if each.key == key}
            first = next(iter(made.values()))
            cells = [self._outcome(key, pid, pids) if pid in made else "" for pid in pids]
            page.line(page.name(first.agent), _row("", first.what, *cells)[len(first.agent) :], margin=0)
        kept = len(self._before & {each.key for each in noted})
        again = sum(each.pid != pids[0] and each.key in self._before for each in noted)
        page.gap()
        page.line(
            Text(f"{kept} calls were recorded before the kill; {again} of them were made again.", "bold"), margin=0
        )
        page.line(WITNESS, margin=0)
        page.gap()

    def _outcome(self, key: str, pid: int, pids: list[int]) -> str:
        return "recorded" if pid != pids[0] or key in self._before else "cut off"

    def _end(self) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()


def _row(agent: str, what: str, *cells: str) -> str:
    return f"{agent:<11}{what:<18}{''.join(f'{cell:<17}' for cell in cells)}".rstrip()
