"""SqlQueue: claims of tickets in a database, and the transaction that claims, renews and frees them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from changeover.ids import queue_topic
from changeover.relay.ports.health import Traffic
from changeover.relay.ports.queue import Bell, Claim, Queued, Take, Taken
from changeover.stores.sql.database import Round, Row, Session
from changeover.stores.sql.jobs import OpenStore, SideJob
from changeover.stores.sql.tickets import QueueStatements, order_of, queued_of, taken_of, urgency


class Renew(NamedTuple):
    """Extend the leases of claims."""

    claims: Sequence[Claim]
    lease: float


class GiveBack(NamedTuple):
    """End a claim."""

    claim: Claim
    counted: bool


class Retry(NamedTuple):
    """Free a ticket and clear its attempts."""

    ticket: str
    offered: bool


Request = Take | Renew | GiveBack | Retry
Listen = Callable[[Sequence[str]], AbstractContextManager[Bell]]


class SqlQueue:
    """Tickets in a database; `listen` wakes a worker when one of these topics has news."""

    def __init__(self, sql: QueueStatements, store: OpenStore, listen: Listen, traffic: Traffic) -> None:
        self._sql, self._store, self._listen, self._traffic = sql, store, listen, traffic

    async def take(self, take: Take) -> list[Taken]:
        nothing: list[Taken] = []
        taken = self._store.write(self._write, take, nothing)
        try:
            return await asyncio.shield(taken)
        except asyncio.CancelledError:
            taken.add_done_callback(self._give_back_all)
            raise

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[str]:
        nothing: list[str] = []
        return await self._store.write(self._write, Renew(claims, lease), nothing)

    async def give_back(self, claim: Claim, counted: bool) -> bool:
        return await self._store.write(self._write, GiveBack(claim, counted), False)

    async def lapsed(self, least: int, team: str | None = None) -> list[Queued]:
        return [queued_of(row) for row in await self._store.rows(self._sql.lapsed(least=least, team=team))]

    async def lease_left(self) -> float | None:
        [(left,)] = await self._store.rows(self._sql.lease_left())
        return None if left is None else float(left)

    async def retry(self, ticket: str, offered: bool = False) -> bool:
        return await self._store.write(self._write, Retry(ticket, offered), False)

    async def tickets(self, ticket: str | None = None) -> list[Queued]:
        wanted = self._sql.all() if ticket is None else self._sql.one(ticket=ticket)
        return [queued_of(row) for row in await self._store.rows(wanted)]

    def listening(self, agents: Sequence[str]) -> AbstractContextManager[Bell]:
        self._store.check()
        return self._listen([queue_topic(agent) for agent in agents])

    def _write(self, session: Session, jobs: Sequence[SideJob[Any, Any]]) -> Collection[str]:
        claims = Claims(session, self._sql)
        topics = claims.write(jobs)
        self._traffic.leases_lost.update(claims.lost)
        self._traffic.claims.update(
            taken.ticket.agent for job in jobs if isinstance(job.data, Take) for taken in job.result
        )
        return topics

    def _give_back_all(self, taking: asyncio.Future[list[Taken]]) -> None:
        """Free the tickets of a caller that was cancelled now, instead of when their leases run out."""
        for taken in () if taking.cancelled() or taking.exception() else taking.result():
            claim = Claim(taken.ticket.id, taken.token)
            _ = self._store.send(SideJob(self._write, GiveBack(claim, counted=False), False))


class Claims:
    """One transaction. Tickets that jobs name are locked in one order and before any is claimed, and a claim skips
    locked tickets, so transactions never deadlock."""

    def __init__(self, session: Session, sql: QueueStatements) -> None:
        self._session, self._sql = session, sql
        self._round = Round(session)
        self._topics: set[str] = set()
        self.lost: list[str] = []
        """The agents of tickets whose lease ran out, one for each."""

    def write(self, jobs: Sequence[SideJob[Any, Any]]) -> Collection[str]:
        """Give each job its result, or raise the driver's error. Returns the topics of agents that have work now."""
        self._session.begin()
        if ids := {id for job in jobs for id in _tickets(job.data)}:
            self._round.later(self._sql.lock(ids=self._sql.listed(sorted(ids))))
        for job in jobs:
            self._change(job)
        takes = [job for job in jobs if isinstance(job.data, Take)]
        if takes:
            self._round.later(self._sql.free(), lambda rows: self.lost.extend(agent for (agent,) in rows))
        for job in takes:
            rows = sorted(self._claimed(job.data, job.tried), key=order_of)
            job.result = [taken_of(row, job.data.token) for row in rows]
        self._round.run()
        notify = self._sql.notify if self._topics else None
        self._session.commit([(notify.sql, [(self._sql.listed(sorted(self._topics)),)])] if notify else [])
        return self._topics

    def _change(self, job: SideJob[Any, Any]) -> None:
        request: Request = job.data
        match request:
            case Take():
                pass  # after all others
            case Renew(claims, lease):
                renewed: list[str] = []
                job.result = renewed  # a retry begins again
                for claim in claims:
                    renew = self._sql.renew(ticket=claim.ticket, token=claim.token, lease=lease)
                    self._round.later(renew, lambda rows: renewed.extend(id for (id,) in rows))
            case GiveBack(claim, counted):
                uncounted = 0 if counted else 1
                back = self._sql.give_back(ticket=claim.ticket, token=claim.token, uncounted=uncounted)
                self._round.later(back, lambda rows: self._note_freed(job, rows))
            case Retry(ticket, offered):
                retry = self._sql.offer_again if offered else self._sql.retry
                self._round.later(retry(ticket=ticket), lambda rows: self._note_freed(job, rows))

    def _note_freed(self, job: SideJob[Any, bool], agents: list[Row]) -> None:
        # If the commit of the first try succeeded unnoticed, the retry finds nothing to free.
        job.result = bool(agents) or (job.tried and job.result)
        self._topics.update(queue_topic(agent) for (agent,) in agents)

    def _claimed(self, take: Take, tried: bool) -> list[Row]:
        """The tickets that were claimed, in no order."""
        if tried and (rows := self._round.run([self._sql.taken(token=take.token)])[0]):
            return rows
        claimed: list[Row] = []
        agents = set(take.agents)
        while agents and len(claimed) < take.limit:
            shares = self._shares(take, agents, take.limit - len(claimed))
            how = {"team": take.team, "token": take.token, "lease": take.lease, "most": take.most, "now": take.now}
            found = self._round.run(
                [self._sql.take(agent=agent, limit=share, **how) for agent, share in shares.items()]
            )
            claimed += (row for rows in found for row in rows)
            # Other workers claimed some of an agent's tickets first: try the other agents for the rest.
            short = {agent for (agent, share), rows in zip(shares.items(), found, strict=True) if len(rows) < share}
            if not short:
                break
            agents -= short
        return claimed

    def _shares(self, take: Take, agents: set[str], limit: int) -> dict[str, int]:
        """How many of the most urgent tickets belong to each of these agents."""
        if len(agents) == 1:
            return {next(iter(agents)): limit}
        names = sorted(agents)
        how = {"team": take.team, "most": take.most, "now": take.now, "limit": limit}
        peeks = [self._sql.peek(agent=agent, **how) for agent in names]
        keys = [
            (urgency(*row), agent) for agent, rows in zip(names, self._round.run(peeks), strict=True) for row in rows
        ]
        return Counter(agent for _, agent in sorted(keys)[:limit])


def _tickets(request: Request) -> list[str]:
    """The tickets that a request names."""
    match request:
        case Renew(claims, _):
            return [claim.ticket for claim in claims]
        case GiveBack(claim, _):
            return [claim.ticket]
        case Retry(ticket, _):
            return [ticket]
        case Take():
            return []
