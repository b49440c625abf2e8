"""The ports beside the log: SqlQueue, SqlAgents, SqlBreakers, SqlContexts, SqlLessons, SqlTrials."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from math import inf

import msgspec

from changeover.facts import State
from changeover.guards.breaker import Circuit
from changeover.relay.queue import Bell, Claim, Queued, Taken
from changeover.relay.tables import MOST, Kept, KeptAgent, Lesson, Unlearned
from changeover.routing.experience import Outcome
from changeover.routing.profile import Profile
from changeover.routing.statistics import Measured
from changeover.stores.feed import Feed, bell_of
from changeover.stores.sql.agents import AgentJob, AgentStatements
from changeover.stores.sql.breakers import BreakerJob, BreakerStatements, circuit_of
from changeover.stores.sql.claims import Measure, ticket_of
from changeover.stores.sql.contexts import ContextStatements, Put, Sweep
from changeover.stores.sql.database import Call, Row
from changeover.stores.sql.experience import LessonStatements, Reset
from changeover.stores.sql.queue import GiveBack, QueueStatements, Renew, Retry, Take
from changeover.stores.sql.reader import Reader
from changeover.stores.sql.trials import TrialStatements
from changeover.stores.sql.writer import Writer


class SqlQueue:
    """Whoever takes, holds or gives back asks the writer; whoever lists only reads."""

    def __init__(
        self, sql: QueueStatements, writer: Writer, reader: Reader, feed: Feed, check: Callable[[], None]
    ) -> None:
        self._sql, self._writer, self._reader, self._feed = sql, writer, reader, feed
        self._check = check
        """Raises if the store is closed."""

    async def take(
        self, agents: Sequence[str], token: str, lease: float, limit: int, most: int, now: float
    ) -> list[Taken]:
        self._check()
        self._writer.put(take := Take(agents, token, lease, limit, most, now))
        try:
            return await asyncio.shield(take.future)
        except asyncio.CancelledError:
            take.future.add_done_callback(self._give_back_all)
            raise

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[str]:
        self._check()
        self._writer.put(renewal := Renew(claims, lease))
        return await renewal.future

    async def give_back(self, claim: Claim, counted: bool) -> bool:
        self._check()
        self._writer.put(back := GiveBack(claim, counted))
        return await back.future

    async def worn_out(self, most: int) -> list[Queued]:
        self._check()
        return [_queued_of(row) for row in await self._reader.rows(self._sql.worn_out(most=most))]

    async def retry(self, ticket: str, offered: bool = False) -> bool:
        self._check()
        self._writer.put(retry := Retry(ticket, offered))
        return await retry.future

    async def tickets(self, ticket: str | None = None) -> list[Queued]:
        self._check()
        wanted = self._sql.all() if ticket is None else self._sql.one(ticket=ticket)
        return [_queued_of(row) for row in await self._reader.rows(wanted)]

    def listening(self, agents: Sequence[str]) -> AbstractContextManager[Bell]:
        self._check()
        return self._feed.listening([bell_of(agent) for agent in agents])

    def _give_back_all(self, taking: asyncio.Future[list[Taken]]) -> None:
        """Whoever wanted these has gone, and others need not wait until their leases run out."""
        for taken in () if taking.cancelled() or taking.exception() else taking.result():
            self._writer.put(GiveBack(Claim(taken.ticket.id, taken.token), counted=False))


def _queued_of(row: Row) -> Queued:
    attempts, owner, until, rests = row[8:]
    return Queued(ticket_of(row), attempts, owner or "", until, bool(rests))


class SqlAgents:
    """Whoever changes something asks the writer; whoever lists only reads."""

    def __init__(self, sql: AgentStatements, writer: Writer, reader: Reader, check: Callable[[], None]) -> None:
        self._sql, self._writer, self._reader = sql, writer, reader
        self._check = check
        """Raises if the store is closed."""

    async def all(self) -> list[KeptAgent]:
        self._check()
        return [_kept(row) for row in await self._reader.rows(self._sql.all())]

    async def put(self, profile: Profile) -> None:
        text = msgspec.json.encode(profile).decode()
        await self._change(self._sql.put(id=profile.id, profile=text, enabled=profile.enabled, removed=False))

    async def switch(self, id: str, enabled: bool) -> None:
        await self._change(self._sql.switch(id=id, profile=None, enabled=enabled, removed=False))

    async def remove(self, id: str) -> None:
        await self._change(self._sql.remove(id=id, profile=None, enabled=True, removed=True))

    async def version(self) -> int:
        self._check()
        [[version]] = await self._reader.rows(self._sql.version())
        return int(version)

    async def _change(self, call: Call) -> None:
        self._check()
        self._writer.put(job := AgentJob(call))
        await job.future


def _kept(row: Row) -> KeptAgent:
    id, profile, enabled, removed, updated_at = row
    said = None if profile is None else msgspec.json.decode(profile, type=Profile)
    return KeptAgent(id, said, bool(enabled), bool(removed), updated_at)


class SqlBreakers:
    """Whoever opens or resets asks the writer; whoever lists only reads."""

    calm = False
    """Others write too, and to ask them takes as long as to tell."""

    def __init__(self, sql: BreakerStatements, writer: Writer, reader: Reader, check: Callable[[], None]) -> None:
        self._sql, self._writer, self._reader = sql, writer, reader
        self._check = check
        """Raises if the store is closed."""

    async def listed(self) -> list[Circuit]:
        self._check()
        found = [circuit_of(row) for row in await self._reader.rows(self._sql.all())]
        # Not those whose row was only made to be locked.
        return sorted((each for each in found if each != Circuit(each.receiver)), key=lambda each: each.receiver)

    async def force(self, receiver: str, at: float) -> None:
        self._check()
        self._writer.put(opening := BreakerJob(receiver, at, opens=True))
        await opening.future

    async def reset(self, receiver: str, at: float) -> bool:
        self._check()
        self._writer.put(closing := BreakerJob(receiver, at, opens=False))
        return await closing.future


class SqlContexts:
    """Whoever keeps or sweeps asks the writer; whoever gets only reads."""

    def __init__(self, sql: ContextStatements, writer: Writer, reader: Reader, check: Callable[[], None]) -> None:
        self._sql, self._writer, self._reader = sql, writer, reader
        self._check = check
        """Raises if the store is closed."""

    async def put(self, root: str, id: str, body: str, expires_at: float | None = None) -> None:
        self._check()
        self._writer.put(put := Put(root, id, body, expires_at))
        await put.future

    async def get(self, root: str, id: str) -> Kept | None:
        self._check()
        rows = await self._reader.large(self._sql.get(root=root, id=id))
        return Kept(*rows[0]) if rows else None

    async def sweep(self, now: float) -> int:
        swept = 0
        while removed := await self._sweep(now):
            swept += removed
        return swept

    async def _sweep(self, now: float) -> int:
        self._check()
        self._writer.put(sweep := Sweep(now))
        return await sweep.future


SUCCESSES = (State.COMPLETE, State.RETURNED)


class SqlLessons:
    """Whoever resets asks the writer; whoever looks back only reads."""

    def __init__(self, sql: LessonStatements, writer: Writer, reader: Reader, check: Callable[[], None]) -> None:
        self._sql, self._writer, self._reader = sql, writer, reader
        self._check = check
        """Raises if the store is closed."""

    async def outcomes(self, capability: str, after: float = -inf, most: int = MOST) -> list[Lesson]:
        self._check()
        rows = await self._reader.rows(self._sql.outcomes(capability=capability, after=after, most=most))
        return [_lesson(capability, row) for row in reversed(rows)]

    async def capabilities(self) -> list[str]:
        self._check()
        return sorted(name for (name,) in await self._reader.large(self._sql.capabilities()))

    async def unlearned(self) -> list[Unlearned]:
        self._check()
        rows = await self._reader.rows(self._sql.unlearned())
        return [Unlearned(*row) for row in sorted(rows)]

    async def reset(self, at: float, capability: str = "", agent: str = "") -> None:
        self._check()
        self._writer.put(reset := Reset(at, capability, agent))
        await reset.future


def _lesson(capability: str, row: Row) -> Lesson:
    id, agent, state, accepted_at, ended_at, cost = row
    seconds = None if accepted_at is None else ended_at - accepted_at
    return Lesson(id, ended_at, Outcome(capability, agent, state in SUCCESSES, seconds, cost))


Ask = Callable[[Call], Awaitable[list[Row]]]


class TrialReader:
    """Counts in a database, however it is asked."""

    def __init__(self, sql: TrialStatements, ask: Ask) -> None:
        self._sql, self._ask = sql, ask

    async def measured(self, experiment: str) -> list[Measured]:
        over = await self._ask(self._sql.over(experiment=experiment))
        spent = {row[0]: _spent(*row[1:]) for row in await self._ask(self._sql.spent(experiment=experiment))}
        lasted: dict[str, float] = dict(await self._ask(self._sql.lasted(experiment=experiment)))
        own: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for root, name, value in await self._ask(self._sql.own(experiment=experiment)):
            own[root][name] = value
        found = []
        for root, variant, status in sorted(over):
            tokens, cost = spent.get(root, (0, 0.0))
            found.append(Measured(variant, status == "completed", tokens, cost, lasted.get(root, 0.0), own[root]))
        return found

    async def variants(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for experiment, variant in sorted(await self._ask(self._sql.variants())):
            found[experiment].append(variant)
        return dict(found)


class SqlTrials(TrialReader):
    """Whoever measures asks the writer; whoever counts only reads."""

    def __init__(self, sql: TrialStatements, writer: Writer, ask: Ask) -> None:
        super().__init__(sql, ask)
        self._writer = writer

    async def measure(self, conversation: str, name: str, value: float, at: float) -> None:
        self._writer.put(measure := Measure((conversation, name, value, at)))
        await measure.future


def _spent(tokens: int, cost: float | None, unknown: int) -> tuple[int, float | None]:
    # One run whose cost nobody knows makes the sum unknown. PostgreSQL gives sums of whole numbers as it likes.
    return int(tokens), None if unknown else cost
