"""The process behind `worker`: signals, draining, and one report line per ticket."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from changeover.cli.exits import lined
from changeover.cli.terminal.render import console, hang, json_time, line_of, when
from changeover.errors import ChangeoverError, error_of
from changeover.facts import State as Standing
from changeover.facts import Ticket
from changeover.relay.claims import End
from changeover.relay.result import result_of
from changeover.relay.state import State
from changeover.worker import News, Worker

if TYPE_CHECKING:
    from changeover.team import Team

COLOURS = {
    "takes": "cyan",
    "done": "green",
    **dict.fromkeys(("failed", "lost", "too late"), "red"),
    **dict.fromkeys(("waits", "declined", "given back", "cancelled"), "yellow"),
}
"""What can be said of a ticket, and how it looks."""
WIDTH = max(map(len, COLOURS))


class Shift:
    """Tells, and counts what there was."""

    def __init__(self, serves: Mapping[str, Any], as_json: bool) -> None:
        self._serves = serves
        self._out = None if as_json else console()
        self._room = max(map(len, serves["agents"]))
        self._ends: Counter[str] = Counter()
        self._begun = time.monotonic()
        self.held = 0
        """How many tickets are worked on now."""

    def begins(self) -> None:
        """Who serves whom, where, and on which terms."""
        serves = self._serves
        terms = f"{serves['concurrency']} at once, lease {serves['lease']:g} s, grace {serves['grace']:g} s"
        where = f" on {serves['store']}" if serves["store"] else ""
        head = Text.assemble(
            (f"{serves['worker']} serves {', '.join(serves['agents'])}", "bold"), (f"{where}; {terms}", "dim")
        )
        facts = {name: value for name, value in serves.items() if name != "name"}
        self._tell("serving", (Text(""), head), facts)

    def takes(self, ticket: Ticket, attempt: int) -> None:
        """A ticket was claimed."""
        self.held += 1
        self._tell("taken", self._line("takes", ticket, _again(attempt)), _facts(ticket, attempt))

    def ends(self, ticket: Ticket, attempt: int, seconds: float, ended: tuple[str, str]) -> None:
        """The work on it is over, for this worker: how, and why if it was not simply done."""
        self.held -= 1
        end, reason = ended
        self._ends[end] += 1
        told = f"after {seconds:.1f} s{f': {line_of(reason)}' if reason else ''}"
        facts = {**_facts(ticket, attempt), "end": end, "seconds": round(seconds, 3), "reason": reason}
        self._tell("ended", self._line(end, ticket, told), facts)

    def stops(self, why: str) -> None:
        """It claims nothing more."""
        most = f"{self._serves['grace']:g} s"
        held = f"; {self.held} at work, for {most} at most; once more: give back at once" if self.held else ""
        self._tell("stopping", _plain(f"stops: {why}{held}"), {"why": why, "held": self.held})

    def is_over(self) -> None:
        """The totals."""
        seconds = time.monotonic() - self._begun
        ends = {end: self._ends[end] for end in COLOURS if end in self._ends}
        told = ", ".join(f"{count} {end}" for end, count in ends.items()) or "nothing was to be done"
        facts = {"ends": ends, "seconds": round(seconds, 3)}
        self._tell("stopped", _plain(f"{told}, in {seconds:.1f} s"), facts)

    def _line(self, what: str, ticket: Ticket, more: str) -> tuple[Text, Text]:
        """What stands on the left, each in a column of its own, and the rest."""
        watched = self._out is not None and self._out.is_terminal
        now = when(time.time()).split()[-1] if watched else when(time.time())  # who reads along knows which day it is
        agent = f"{ticket.agent:<{self._room}}  "
        lead = Text.assemble((f"{now}  ", "dim"), (f"{what:<{WIDTH}}  ", COLOURS[what]), agent)
        return lead, Text.assemble(ticket.id, (f"  {more}", "dim") if more else "")

    def _tell(self, event: str, line: tuple[Text, Text], facts: Mapping[str, Any]) -> None:
        # Whoever read along may have gone; that is no reason to leave work undone.
        with suppress(BrokenPipeError, SystemExit):
            if self._out is not None:
                hang(self._out, *line, line[0].cell_len)
            else:
                typer.echo(json.dumps({"event": event, "at": json_time(time.time()), **facts}))


def _plain(text: str) -> tuple[Text, Text]:
    """A line without columns."""
    return Text(""), Text(text, "bold")


def _again(attempt: int) -> str:
    return f"attempt {attempt}" if attempt > 1 else ""


def _facts(ticket: Ticket, attempt: int) -> dict[str, Any]:
    return {"ticket": ticket.id, "agent": ticket.agent, "conversation": ticket.conversation, "attempt": attempt}


LOOK = 0.2
"""How many seconds pass between two looks whether anything is left."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
ENDS = {
    End.RESTS: ("waits", "for a person or a delegate"),
    End.LOST: ("lost", "it is somebody else's, or over"),
    End.BACK: ("given back", ""),
}
STANDING = {
    Standing.REJECTED: "declined",
    Standing.PENDING: "declined",
    Standing.TIMEOUT: "too late",
    Standing.FAILED: "failed",
}
"""What there is to say of a ticket that was not simply done."""


class Serving:
    """One worker of one team, from its start to its end."""

    def __init__(self, team: Team, agents: Sequence[str], terms: dict[str, Any], store: str, as_json: bool) -> None:
        self._team, self._agents = team, agents
        self._worker = Worker(team, agents, news=self._hear_news, **terms)
        self._shift = Shift({**terms, "worker": self._worker.name, "agents": list(agents), "store": store}, as_json)
        self._telling: set[asyncio.Task[None]] = set()
        self._working: asyncio.Future[None] | None = None
        self._stopped = False

    async def serve(self, drain: bool) -> None:
        """Until it is stopped or, if that is wanted, nothing is left to claim."""
        with heard(self._hear_signal):
            self._shift.begins()
            try:
                await self._team.open()
                await self._work(drain)
            finally:
                await self._team.close()
        self._shift.is_over()

    async def _work(self, drain: bool) -> None:
        self._working = asyncio.ensure_future(self._worker.run())
        watching = asyncio.ensure_future(self._until_idle()) if drain else None
        try:
            with suppress(asyncio.CancelledError):
                await self._working
            await asyncio.gather(*self._telling)
        finally:
            if watching is not None:
                watching.cancel()

    def _hear_signal(self, name: str) -> None:
        """The first one ends claiming, the second also waiting."""
        if not self._stopped:
            self._stop(name)
        elif self._working is not None:
            self._working.cancel()

    def _stop(self, why: str) -> None:
        self._stopped = True
        self._shift.stops(why)
        self._worker.stop()

    async def _until_idle(self) -> None:
        while not self._stopped:
            await asyncio.sleep(LOOK)
            if await self._is_idle() and not self._stopped:
                self._stop("nothing is left to claim")

    async def _is_idle(self) -> bool:
        """True if nothing can be claimed, and nothing goes on here that could change that."""
        now, most, log = self._team.clock.now(), self._team.roster.attempts, self._team.log
        for queued in await log.queue.tickets():
            ticket, deadline = queued.ticket, queued.ticket.deadline
            if ticket.agent not in self._agents or queued.rests:
                continue
            lost = queued.attempts >= most or (deadline is not None and deadline <= now)
            if queued.owner.startswith(f"{self._worker.name}#") or not (queued.owner or lost):
                return False
        return not self._shift.held and not await log.owned()

    def _hear_news(self, news: News) -> None:
        if news.end is None:
            self._shift.takes(news.ticket, news.attempt)
        elif news.end is not End.DONE:
            self._shift.ends(news.ticket, news.attempt, news.seconds, ENDS[news.end])
        else:
            task = asyncio.ensure_future(self._tell_of_end(news))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell_of_end(self, news: News) -> None:
        """What came of it is in the log."""
        ended = "done", ""
        with suppress(ChangeoverError):  # the store is away, and the worker will say so itself
            ended = await came_of(self._team, news.ticket)
        self._shift.ends(news.ticket, news.attempt, news.seconds, ended)


async def came_of(team: Team, ticket: Ticket) -> tuple[str, str]:
    """How the work on a ticket ended, in a word, and why if it came to nothing."""
    entries = await team.log.read(ticket.place)
    last = State(ticket.place).fold(entries).last
    if last is not None and last.run.ticket == ticket.id:
        fault = lined(error_of(last.fault, result_of(ticket.place, last))) if last.fault else ""
        return ("cancelled" if last.cancelled else "failed" if fault else "done"), fault
    status = await team.status(ticket)
    return STANDING.get(status.state, "done"), status.reason


@contextmanager
def heard(hear: Callable[[str], None]) -> Iterator[None]:
    """Hear of signals that would end the process, by their names, on the loop that runs now."""
    loop = asyncio.get_running_loop()

    def caught(number: int, _: object) -> None:
        loop.call_soon_threadsafe(hear, signal.Signals(number).name)

    before = {each: signal.signal(each, caught) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
