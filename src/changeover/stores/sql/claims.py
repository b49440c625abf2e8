"""Transactions beside entries: claims of tickets, kept contexts and users' measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any

from changeover.errors import ConversationNotFound
from changeover.facts import Ticket
from changeover.relay.queue import Taken
from changeover.stores.feed import bell_of
from changeover.stores.sql.contexts import Put, Sweep
from changeover.stores.sql.database import Round, Row, Session
from changeover.stores.sql.jobs import LARGEST, Job
from changeover.stores.sql.queue import GiveBack, Renew, Retry, Take
from changeover.stores.sql.side_jobs import Beside
from changeover.stores.sql.statements import Statements


class Claiming:
    """Carries out jobs together. Tickets are waited for in one order and before any is taken, and of those that are
    locked none is taken: so nobody waits in vain."""

    def __init__(self, session: Session, sql: Statements) -> None:
        self._session, self._sql = session, sql.queue
        self._notify, self._listed = sql.notify, sql.listed
        self._round = Round(session)
        self.bells: set[str] = set()
        """The topics of those for whom there is something to take now."""

    def write(self, jobs: Sequence[Job[Any]]) -> None:
        """Give each job its result, or raise what the driver raises."""
        self._session.begin()
        takes = [job for job in jobs if isinstance(job, Take)]
        if ids := {id for job in jobs for id in job.tickets}:
            self._round.later(self._sql.lock(ids=self._listed(sorted(ids))))
        for job in jobs:
            self._change(job)
        if takes:
            self._round.later(self._sql.free())
        for take in takes:
            take.result = [_taken_of(row, take.token) for row in sorted(self._rows_for(take), key=_order)]
        self._round.run()
        bells = [(self._notify.sql, [(self._listed(sorted(self.bells)),)])] if self._notify and self.bells else []
        self._session.commit(bells)

    def _change(self, job: Job[Any]) -> None:
        match job:
            case Renew():
                job.result = []  # anew with each try
                for claim in job.claims:
                    renewed = self._sql.renew(ticket=claim.ticket, token=claim.token, lease=job.lease)
                    self._round.later(renewed, lambda rows: job.result.extend(id for (id,) in rows))
            case GiveBack(claim=claim):
                uncounted = 0 if job.counted else 1
                back = self._sql.give_back(ticket=claim.ticket, token=claim.token, uncounted=uncounted)
                self._round.later(back, lambda rows: self._freed(job, rows))
            case Retry():
                retry = self._sql.offer_again if job.offered else self._sql.retry
                self._round.later(retry(ticket=job.tickets[0]), lambda rows: self._freed(job, rows))
            case _:
                pass  # takes come last

    def _freed(self, job: GiveBack | Retry, agents: list[Row]) -> None:
        # What a commit freed of which nobody heard is not ours any more when we look again.
        job.result = bool(agents) or (job.tried and job.result)
        self.bells.update(bell_of(agent) for (agent,) in agents)

    def _rows_for(self, take: Take) -> list[Row]:
        """What was taken, in no order."""
        if take.tried and (rows := self._round.run([self._sql.taken(token=take.token)])[0]):
            return rows
        taken: list[Row] = []
        agents = set(take.agents)
        while agents and len(taken) < take.limit:
            shares = self._shares(take, agents, take.limit - len(taken))
            how = {"token": take.token, "lease": take.lease, "most": take.most, "now": take.now}
            found = self._round.run(
                [self._sql.take(agent=agent, limit=share, **how) for agent, share in shares.items()]
            )
            taken += (row for rows in found for row in rows)
            # Others were quicker than we are: what is left of ours is to be had from the other agents.
            short = {agent for (agent, share), rows in zip(shares.items(), found, strict=True) if len(rows) < share}
            if not short:
                break
            agents -= short
        return taken

    def _shares(self, take: Take, agents: set[str], limit: int) -> dict[str, int]:
        """How many of the most urgent tickets wait for each of these agents."""
        if len(agents) == 1:
            return {next(iter(agents)): limit}
        looked = sorted(agents)
        peeks = [self._sql.peek(agent=agent, most=take.most, now=take.now, limit=limit) for agent in looked]
        keys = [
            (_urgency(*row), agent) for agent, rows in zip(looked, self._round.run(peeks), strict=True) for row in rows
        ]
        return Counter(agent for _, agent in sorted(keys)[:limit])


def ticket_of(row: Row) -> Ticket:
    """A ticket, of a row that begins with its fields."""
    id, agent, conversation, place, root, priority, deadline, at = row[:8]
    return Ticket(
        id=id,
        agent=agent,
        conversation=conversation,
        place=place,
        root=root,
        priority=priority,
        deadline=None if deadline == inf else deadline,
        at=at,
    )


def _taken_of(row: Row, token: str) -> Taken:
    return Taken(ticket_of(row), token, row[9])


def _order(row: Row) -> Row:
    return _urgency(row[5], row[6], row[8], row[0])


def _urgency(priority: int, deadline: float, turn: float, id: str) -> Row:
    """By what tickets are ordered: the most urgent is the least."""
    return -priority, deadline, turn, id


SWEPT = 100
"""How many are removed in one transaction: whoever appends waits for it."""


def keep(session: Session, sql: Statements, jobs: Sequence[Job[Any]]) -> None:
    """Give each job its result, or raise what the driver raises."""
    session.begin()
    for job in jobs:
        if isinstance(job, Sweep):
            job.result = len(session.run([sql.contexts.sweep(now=job.now, limit=SWEPT)])[0])
    # In one order for everybody: of two who keep the same, one waits for the other, and never each for the other.
    rows = sorted((job.row for job in jobs if isinstance(job, Put)), key=lambda row: row[:2])
    session.commit([(sql.contexts.put.sql, rows)] if rows else [])


class Measure(Beside[None]):
    """Keep one measure of a conversation."""

    __slots__ = ("row",)

    def __init__(self, row: Row) -> None:
        super().__init__(None, share=1 / LARGEST, root=row[0])
        self.row = row
        """The conversation, the name, the value, and when it was measured."""


def keep_measures(session: Session, sql: Statements, jobs: Sequence[Job[Any]]) -> None:
    """Give each job its result, or raise what the driver raises."""
    wanted = sorted((job for job in jobs if isinstance(job, Measure)), key=lambda job: job.root)
    session.begin()
    # Locked, and in one order for everybody: whoever forgets a conversation must not leave a measure of it behind.
    found = {
        root: bool(session.run([sql.forget.root(root=root)])[0]) for root in dict.fromkeys(each.root for each in wanted)
    }
    for job in wanted:
        if not found[job.root]:
            job.error = ConversationNotFound(job.root)
    # The last of each name: a database changes no row twice in one statement.
    rows = {job.row[:2]: job.row for job in jobs if isinstance(job, Measure) and found[job.root]}
    session.commit([(sql.trials.measure.sql, list(rows.values()))] if rows else [])
