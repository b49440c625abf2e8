"""SqlMeasures: handoffs, steps, refusals, limits, breaker openings and spending, counted for metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from math import inf
from typing import Any

import sqlalchemy as sa

from changeover.relay.ports.tables import (
    Course,
    Depth,
    Expenses,
    Occurrence,
    OccurrenceKind,
    Opened,
    Reached,
    Refused,
    StepCourse,
)
from changeover.stores.sql.compiler import ZERO, Compiler, Statement, bind
from changeover.stores.sql.database import Call, Row
from changeover.stores.sql.schema import breaker_openings, conversations, handoffs, ledgers, limits, refusals, steps

h, g, o, r, m, s = handoffs.c, ledgers.c, breaker_openings.c, refusals.c, limits.c, steps.c


class MeasureStatements:
    """The SQL of metrics: handoffs and steps in pages, all other figures as sums."""

    def __init__(self, say: Compiler) -> None:
        what = (h.sender, h.receiver, h.mode, h.state, h.offered_at, h.accepted_at, h.ended_at)
        course = sa.select(*what, h.reason.is_not(None), h.tokens_before, h.tokens_after, h.id)
        further = sa.tuple_(h.offered_at, h.id) > sa.tuple_(bind("after", sa.Double), bind("id", sa.Text))
        page = course.where(further, _within(h.offered_at)).order_by(h.offered_at, h.id)
        self.courses = say(page.limit(bind("limit", sa.Integer)).offset(sa.literal_column("0")))
        self.steps = say(_steps().limit(bind("limit", sa.Integer)).offset(sa.literal_column("0")))
        sums = (sa.func.sum(each) for each in (g.turns, g.retries, g.input_tokens, g.output_tokens, g.cost))
        spent = sa.select(g.agent, sa.func.count(), *sums, sa.func.count(g.cost))
        self.expenses = say(spent.where(_within(g.ended_at)).group_by(g.agent))
        refused = sa.select(r.sender, r.receiver, r.kind, sa.func.count()).where(_within(r.at))
        self.refused = say(refused.group_by(r.sender, r.receiver, r.kind))
        self.opened = say(sa.select(o.receiver, sa.func.count()).where(_within(o.at)).group_by(o.receiver))
        self.limits = say(sa.select(m.kind, _conversations()).where(_within(m.at)).group_by(m.kind))
        runs = _runs().subquery()
        self.depths = say(sa.select(runs.c.handoffs, sa.func.count()).group_by(runs.c.handoffs))
        self.occurrences = _occurrences(say)


def _steps() -> sa.Select[Any]:
    """The steps of workflows in a window, behind a cursor."""
    key, of = (s.ended_at, s.conversation, s.run, s.step), bind("workflow", sa.Text)
    cursor = (bind("after", sa.Double), bind("conversation", sa.Text), bind("run", sa.Integer), bind("step", sa.Text))
    what = (s.workflow, s.step, s.status, s.elapsed, s.retries, s.input_tokens, s.output_tokens, s.cost)
    page = sa.select(*what, s.ended_at, s.conversation, s.run).where(sa.tuple_(*key) > sa.tuple_(*cursor))
    any_or_this = sa.or_(of == sa.literal_column("''", sa.Text), s.workflow == of)
    return page.where(_within(s.ended_at), any_or_this).order_by(*key)


def _conversations() -> sa.ColumnElement[int]:
    # Several events may say that a limit was reached.
    return sa.func.count(m.conversation.distinct())


def _runs() -> sa.Select[Any]:
    """The ended runs of users' messages, each with the number of its handoffs."""
    is_root = sa.exists().where(conversations.c.id == g.conversation, conversations.c.parent.is_(None))
    made, ended = sa.func.sum(g.handoffs).label("handoffs"), sa.func.max(g.ended_at).label("ended_at")
    one = sa.select(g.conversation, ended, made).where(_within(g.ended_at), is_root)
    return one.group_by(g.conversation, g.run)


def _occurrences(say: Compiler) -> dict[OccurrenceKind, Statement]:
    """The newest or slowest cases of each kind, with the fields of an Occurrence in their order."""
    nothing, name, none = sa.literal_column("''", sa.Text), bind("name", sa.Text), sa.null()
    anyone = name == nothing
    refused = sa.select(r.conversation, r.at, r.sender, r.receiver, r.reason, none)
    refused = refused.where(_within(r.at), sa.or_(anyone, r.sender == name)).order_by(r.at.desc())
    last = sa.func.max(m.at)
    reached = sa.select(m.conversation, last, sa.func.max(m.agent), nothing, m.kind, none).where(_within(m.at))
    reached = reached.group_by(m.conversation, m.kind).order_by(last.desc())
    spent = sa.select(g.conversation, g.ended_at, g.agent, nothing, nothing, g.input_tokens + g.output_tokens)
    spent = spent.where(_within(g.ended_at), sa.or_(anyone, g.agent == name))
    runs = _runs().subquery()
    depth = sa.select(runs.c.conversation, runs.c.ended_at, nothing, nothing, nothing, runs.c.handoffs)

    def slowest(since: sa.Column[float | None], until: sa.Column[float | None]) -> sa.Select[Any]:
        took = until - since
        lasted = sa.select(h.conversation, h.offered_at, h.sender, h.receiver, h.state, took)
        ours = lasted.where(_within(h.offered_at), until.is_not(None), since.is_not(None))
        return ours.where(sa.or_(anyone, h.receiver == name)).order_by(took.desc())

    found: dict[OccurrenceKind, sa.Select[Any]] = {
        "refused": refused,
        "deadlock": refused.where(r.kind == sa.literal_column("'deadlock'")),
        "limit": reached.where(sa.or_(anyone, m.kind == name)),
        "spent": spent.order_by(g.ended_at.desc()),
        "depth": depth.where(sa.or_(anyone, sa.cast(runs.c.handoffs, sa.Text) == name)).order_by(
            runs.c.ended_at.desc()
        ),
        "waited": slowest(h.offered_at, h.accepted_at),
        "worked": slowest(h.accepted_at, h.ended_at),
    }
    return {kind: say(query.limit(bind("limit", sa.Integer)).offset(ZERO)) for kind, query in found.items()}


def _within(time: sa.Column[float]) -> sa.ColumnElement[bool]:
    return sa.and_(time > bind("since", sa.Double), time <= bind("until", sa.Double))


PAGE = 10_000
"""Handoffs or steps that are read at once."""
MOST = 50
"""Cases that are listed, unless the caller says otherwise."""

Ask = Callable[[Call], Awaitable[list[Row]]]


class SqlMeasures:
    """Counts in a database."""

    def __init__(self, sql: MeasureStatements, ask: Ask, page: int = PAGE) -> None:
        self._sql, self._ask, self._page = sql, ask, page

    async def courses(self, since: float, until: float) -> AsyncIterator[list[Course]]:
        after, id, found = -inf, "", self._page
        while found == self._page:
            page = self._sql.courses(after=after, id=id, since=since, until=until, limit=self._page)
            rows = await self._ask(page)
            if rows:
                yield [_course(row) for row in rows]
                after, id = rows[-1][4], rows[-1][-1]
            found = len(rows)

    async def steps(self, since: float, until: float, workflow: str = "") -> AsyncIterator[list[StepCourse]]:
        cursor: dict[str, Any] = {"after": -inf, "conversation": "", "run": 0, "step": ""}
        found, which = self._page, {"since": since, "until": until, "workflow": workflow, "limit": self._page}
        while found == self._page:
            rows = await self._ask(self._sql.steps(**cursor, **which))
            if rows:
                yield [StepCourse(*row[:-3]) for row in rows]
                after, conversation, run = rows[-1][-3:]
                cursor = {"after": after, "conversation": conversation, "run": run, "step": rows[-1][1]}
            found = len(rows)

    async def expenses(self, since: float, until: float) -> list[Expenses]:
        return [_expenses(row) for row in await self._ask(self._sql.expenses(since=since, until=until))]

    async def refused(self, since: float, until: float) -> list[Refused]:
        rows = await self._ask(self._sql.refused(since=since, until=until))
        return [Refused(sender, receiver, kind == "deadlock", count) for sender, receiver, kind, count in rows]

    async def opened(self, since: float, until: float) -> list[Opened]:
        return [Opened(*row) for row in await self._ask(self._sql.opened(since=since, until=until))]

    async def limits(self, since: float, until: float) -> list[Reached]:
        rows = await self._ask(self._sql.limits(since=since, until=until))
        return sorted((Reached(*row) for row in rows), key=lambda each: each.limit)

    async def depths(self, since: float, until: float) -> list[Depth]:
        rows = await self._ask(self._sql.depths(since=since, until=until))
        return sorted((Depth(int(handoffs), runs) for handoffs, runs in rows), key=lambda each: each.handoffs)

    async def occurrences(
        self, kind: OccurrenceKind, since: float, until: float, name: str = "", most: int = MOST
    ) -> list[Occurrence]:
        found = self._sql.occurrences[kind](since=since, until=until, name=name, limit=most)
        return [_occurrence(row) for row in await self._ask(found)]


def _course(row: Row) -> Course:
    sender, receiver, mode, state, offered_at, accepted_at, ended_at, explained, before, after, _ = row
    times = (offered_at, accepted_at, ended_at)
    return Course(sender, receiver, mode, state, *times, bool(explained), before, after)


def _expenses(row: Row) -> Expenses:
    agent, runs, turns, retries, input_tokens, output_tokens, cost, known = row
    # One run of unknown cost makes the sum unknown.
    return Expenses(agent, runs, turns, retries, input_tokens, output_tokens, cost if known == runs else None)


def _occurrence(row: Row) -> Occurrence:
    conversation, at, agent, receiver, words, amount = row
    counted = None if amount is None else float(amount)
    return Occurrence(conversation=conversation, at=at, agent=agent, receiver=receiver, words=words, amount=counted)
