"""A worker's shift: it works, is stopped by signals or when nothing is left, and tells what it does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from changeover.cli.exits import lined
from changeover.cli.shift import Shift
from changeover.engines.holding import End
from changeover.errors import ChangeoverError, error_of
from changeover.facts import State as Standing
from changeover.facts import Ticket
from changeover.relay.result import result_of
from changeover.relay.state import State
from changeover.worker import News, Worker

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine
    from changeover.team import Team

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
            if await self._team.on_engine(self._idle) and not self._stopped:
                self._stop("nothing is left to claim")

    async def _idle(self, engine: LocalEngine) -> bool:
        """Whether nothing can be claimed, and nothing goes on here that could make it so."""
        now, most = engine.world.clock.now(), engine.world.roster.attempts
        for queued in await engine.log.queue.tickets():
            ticket, deadline = queued.ticket, queued.ticket.deadline
            if ticket.agent not in self._agents or queued.rests:
                continue
            lost = queued.attempts >= most or (deadline is not None and deadline <= now)
            if queued.owner.startswith(f"{self._worker.name}#") or not (queued.owner or lost):
                return False
        return not self._shift.held and not await engine.log.owned()

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
    entries = await team.on_engine(lambda engine: engine.log.read(ticket.place))
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
