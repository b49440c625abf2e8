"""WorkerProcess: the process of `worker`, with its signals, its draining and one report line per ticket."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from changeover.cli.exits import console, error_text, one_line
from changeover.cli.terminal.render import json_time, print_hanging, when
from changeover.errors import ChangeoverError
from changeover.facts import State as HandoffState
from changeover.facts import Ticket
from changeover.relay.inputs.claims import End
from changeover.relay.result import error_of, result_of
from changeover.relay.state import State
from changeover.worker import News, Worker

if TYPE_CHECKING:
    from changeover.team import Team

TICKET_COLOURS = {
    "takes": "cyan",
    "done": "green",
    **dict.fromkeys(("failed", "lost", "too late"), "red"),
    **dict.fromkeys(("waits", "declined", "given back", "cancelled"), "yellow"),
}
"""The words of a report line, and their colours."""
WIDTH = max(map(len, TICKET_COLOURS))


class WorkerReport:
    """Prints a line, or a JSON object, for each ticket, and counts how they ended."""

    def __init__(self, serves: Mapping[str, Any], as_json: bool) -> None:
        self._serves = serves
        self._out = None if as_json else console()
        self._room = max(map(len, serves["agents"]))
        self._ends: Counter[str] = Counter()
        self._begun = time.monotonic()
        self.held = 0
        """The number of tickets in work."""

    def begins(self) -> None:
        """Print the worker's name, agents, store and settings."""
        serves = self._serves
        terms = f"{serves['concurrency']} at once, lease {serves['lease']:g} s, grace {serves['grace']:g} s"
        where = f" on {serves['store']}" if serves["store"] else ""
        head = Text.assemble(
            (f"{serves['worker']} serves {', '.join(serves['agents'])}", "bold"), (f"{where}; {terms}", "dim")
        )
        facts = {name: value for name, value in serves.items() if name != "name"}
        self._tell("serving", (Text(""), head), facts)

    def takes(self, ticket: Ticket, attempt: int) -> None:
        """Print that a ticket was claimed."""
        self.held += 1
        self._tell("taken", self._line("takes", ticket, _again(attempt)), _facts(ticket, attempt))

    def ends(self, ticket: Ticket, attempt: int, seconds: float, ended: tuple[str, str]) -> None:
        """Print how the work on a ticket ended, and why if it was not done."""
        self.held -= 1
        end, reason = ended
        self._ends[end] += 1
        text = f"after {seconds:.1f} s{f': {one_line(reason)}' if reason else ''}"
        facts = {**_facts(ticket, attempt), "end": end, "seconds": round(seconds, 3), "reason": reason}
        self._tell("ended", self._line(end, ticket, text), facts)

    def stops(self, why: str) -> None:
        """Print that the worker claims nothing more."""
        most = f"{self._serves['grace']:g} s"
        held = (
            f"; {self.held} in work, for {most} at most; a second signal gives them back at once" if self.held else ""
        )
        self._tell("stopping", _plain(f"stops: {why}{held}"), {"why": why, "held": self.held})

    def is_over(self) -> None:
        """Print the totals."""
        seconds = time.monotonic() - self._begun
        ends = {end: self._ends[end] for end in TICKET_COLOURS if end in self._ends}
        totals = ", ".join(f"{count} {end}" for end, count in ends.items()) or "no tickets"
        facts = {"ends": ends, "seconds": round(seconds, 3)}
        self._tell("stopped", _plain(f"{totals}, in {seconds:.1f} s"), facts)

    def _line(self, word: str, ticket: Ticket, more: str) -> tuple[Text, Text]:
        """The columns on the left, and the text on the right of them."""
        watched = self._out is not None and self._out.is_terminal
        now = when(time.time()).split()[-1] if watched else when(time.time())  # a reader at the terminal knows the date
        agent = f"{ticket.agent:<{self._room}}  "
        lead = Text.assemble((f"{now}  ", "dim"), (f"{word:<{WIDTH}}  ", TICKET_COLOURS[word]), agent)
        return lead, Text.assemble(ticket.id, (f"  {more}", "dim") if more else "")

    def _tell(self, event: str, line: tuple[Text, Text], facts: Mapping[str, Any]) -> None:
        # The reader of the pipe may be gone; the work goes on.
        with suppress(BrokenPipeError, SystemExit):
            if self._out is not None:
                print_hanging(self._out, *line, line[0].cell_len)
            else:
                typer.echo(json.dumps({"event": event, "at": json_time(time.time()), **facts}))


def _plain(text: str) -> tuple[Text, Text]:
    """A line without columns."""
    return Text(""), Text(text, "bold")


def _again(attempt: int) -> str:
    return f"attempt {attempt}" if attempt > 1 else ""


def _facts(ticket: Ticket, attempt: int) -> dict[str, Any]:
    return {"ticket": ticket.id, "agent": ticket.agent, "conversation": ticket.conversation, "attempt": attempt}


POLL = 0.2
"""Seconds between two checks whether the queue is drained."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
ENDS = {
    End.RESTS: ("waits", "for a person or a delegate"),
    End.LOST: ("lost", "another worker has it, or it has ended"),
    End.BACK: ("given back", ""),
}
STANDING = {
    HandoffState.REJECTED: "declined",
    HandoffState.PENDING: "declined",
    HandoffState.TIMEOUT: "too late",
    HandoffState.FAILED: "failed",
}
"""The word for a ticket that was not done, by the state of its handoff."""


class WorkerProcess:
    """One worker of one team, from start to stop."""

    def __init__(self, team: Team, agents: Sequence[str], terms: dict[str, Any], store: str, as_json: bool) -> None:
        self._team, self._agents = team, agents
        self._worker = Worker(team, agents, news=self._on_news, **terms)
        self._report = WorkerReport(
            {**terms, "worker": self._worker.name, "agents": list(agents), "store": store}, as_json
        )
        self._reporting: set[asyncio.Task[None]] = set()
        self._working: asyncio.Future[None] | None = None
        self._stopped = False

    async def serve(self, drain: bool) -> None:
        """Serve until a signal arrives or, with `drain`, until nothing is left to claim."""
        with signals_handled(self._on_signal):
            try:
                await self._worker.check()
                gc.freeze()  # what is loaded by now stays, and the collector need not look at it again
                self._report.begins()
                await self._work(drain)
            finally:
                await self._team.close()
        self._report.is_over()

    async def _work(self, drain: bool) -> None:
        self._working = asyncio.ensure_future(self._worker.run())
        watching = asyncio.ensure_future(self._until_idle()) if drain else None
        try:
            with suppress(asyncio.CancelledError):
                await self._working
            await asyncio.gather(*self._reporting)
        finally:
            if watching is not None:
                watching.cancel()

    def _on_signal(self, name: str) -> None:
        """Stop claiming at the first signal; give tickets back at the second."""
        if not self._stopped:
            self._stop(name)
        elif self._working is not None:
            self._working.cancel()

    def _stop(self, why: str) -> None:
        self._stopped = True
        self._report.stops(why)
        self._worker.stop()

    async def _until_idle(self) -> None:
        while not self._stopped:
            await asyncio.sleep(POLL)
            if await self._is_idle() and not self._stopped:
                self._stop("nothing is left to claim")

    async def _is_idle(self) -> bool:
        """True if nothing can be claimed, and no work here could lead to a new ticket."""
        now, most, log = self._team.clock.now(), self._team.roster.attempts, self._team.log
        for queued in await log.queue.tickets():
            ticket, deadline = queued.ticket, queued.ticket.deadline
            if ticket.agent not in self._agents or ticket.team != self._team.name or queued.rests:
                continue
            lost = queued.attempts >= most or (deadline is not None and deadline <= now)
            if queued.owner.startswith(f"{self._worker.name}#") or not (queued.owner or lost):
                return False
        return not self._report.held and not await log.owned()

    def _on_news(self, news: News) -> None:
        if news.end is None:
            self._report.takes(news.ticket, news.attempt)
        elif news.end is not End.DONE:
            self._report.ends(news.ticket, news.attempt, news.seconds, ENDS[news.end])
        else:
            task = asyncio.ensure_future(self._report_end(news))
            self._reporting.add(task)
            task.add_done_callback(self._reporting.discard)

    async def _report_end(self, news: News) -> None:
        """Read the outcome from the log, and report it."""
        ended = "done", ""
        with suppress(ChangeoverError):  # the worker logs that the store is unavailable
            ended = await outcome_of(self._team, news.ticket)
        self._report.ends(news.ticket, news.attempt, news.seconds, ended)


async def outcome_of(team: Team, ticket: Ticket) -> tuple[str, str]:
    """The end of the work on a ticket in a word, and the reason if it failed."""
    entries = await team.log.read(ticket.place)
    last = State(ticket.place).fold(entries).last
    if last is not None and last.run.ticket == ticket.id:
        fault = error_text(error_of(last.fault, result_of(ticket.place, last))) if last.fault else ""
        return ("cancelled" if last.cancelled else "failed" if fault else "done"), fault
    status = await team.status(ticket)
    own = next((each for each in status.chain if each.id == ticket.id), None)  # the task may be with another agent now
    return STANDING.get(own.state if own else status.state, "done"), own.error if own else status.reason


@contextmanager
def signals_handled(handle: Callable[[str], None]) -> Iterator[None]:
    """Call `handle` with the name of each SIGINT or SIGTERM, on the running event loop."""
    loop = asyncio.get_running_loop()

    def caught(number: int, _: object) -> None:
        loop.call_soon_threadsafe(handle, signal.Signals(number).name)

    before = {each: signal.signal(each, caught) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
