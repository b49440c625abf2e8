"""Tickets, conversations and handoffs without an owner, each with the reason and the command that helps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from changeover.agent.roster import Roster
from changeover.cli.terminal.render import when
from changeover.cli.terminal.run_report import Place
from changeover.relay.lists import ConversationRow, HandoffRow
from changeover.relay.ports import Log
from changeover.relay.queue import Queued
from changeover.stores.views import Views

MOST = Roster({}, "").attempts
OPEN = ("PENDING", "ACCEPTED", "WORKING")
MANY = 10_000


class Stuck(Struct, frozen=True, kw_only=True):
    """Something that waits, and for which nobody is at work."""

    id: str
    kind: Literal["ticket", "conversation", "handoff"]
    agent: str
    conversation: str
    since: float
    attempts: int = 0
    """How often a worker took it."""
    why: str
    what_to_do: str


async def all_stuck(log: Log, views: Views, place: Place, now: float) -> list[Stuck]:
    """The oldest first."""
    tickets = [each for each in await log.queue.tickets() if not each.owner and not each.rests]
    found = [_ticket(each, place, now) for each in tickets]
    waiting = {each.ticket.root for each in tickets}
    left = await _left(log, views)
    for row in left:
        if row.status == "running" or not (row.id in waiting or _has_below(row.id, left)):
            found.append(_conversation(row, place))
    known = {each.id for each in found}
    for row in left:
        found += [_handoff(each, row, place) for each in await _open(views, row) if each.id not in known]
    return sorted(found, key=lambda each: each.since)


async def _left(log: Log, views: Views) -> list[ConversationRow]:
    """The conversations that somebody has to take up."""
    found = [await views.one(ConversationRow, id) for id in await log.unfinished()]
    return [row for row in found if row is not None]


async def _open(views: Views, row: ConversationRow) -> list[HandoffRow]:
    """The handoffs that come to no end as long as nobody works on their conversation."""
    wanted = [{"conversation": row.id, "state": state} for state in OPEN]
    return [each for which in wanted for each in await views.listed(HandoffRow, which, limit=MANY)]


def _has_below(conversation: str, rows: Iterable[ConversationRow]) -> bool:
    return any(row.id.startswith(f"{conversation}/") for row in rows)


def _ticket(queued: Queued, place: Place, now: float) -> Stuck:
    ticket, attempts = queued.ticket, queued.attempts
    serve = place.serving([ticket.agent])
    if ticket.deadline is not None and ticket.deadline <= now:
        why = f"Nobody took it before its deadline, {when(ticket.deadline)}, and no process was there to say so."
        todo = place.again("resume", ticket.root)
    elif attempts >= MOST:
        why = f"Workers took it {attempts} times, and none finished it; the next one that looks has a person asked."
        todo = place.retrying(ticket.id)
    elif attempts:
        times = "once" if attempts == 1 else f"{attempts} times"
        why, todo = f"It was taken {times} and the lease ran out; it waits for another worker of {ticket.agent}.", serve
    else:
        why, todo = f"It waits for a worker of {ticket.agent}, and nobody has it.", serve
    return Stuck(
        id=ticket.id,
        kind="ticket",
        agent=ticket.agent,
        conversation=ticket.conversation,
        since=ticket.at,
        attempts=attempts,
        why=why,
        what_to_do=todo,
    )


def _conversation(row: ConversationRow, place: Place) -> Stuck:
    left = f"{row.agent} was at work on it, and the process is gone."
    return Stuck(
        id=row.id,
        kind="conversation",
        agent=row.agent,
        conversation=row.id,
        since=row.updated_at,
        why=left if row.status == "running" else "What it waited for is over, and no process was there to say so.",
        what_to_do=place.again("resume", row.root),
    )


def _handoff(row: HandoffRow, within: ConversationRow, place: Place) -> Stuck:
    return Stuck(
        id=row.id,
        kind="handoff",
        agent=row.receiver,
        conversation=row.conversation,
        since=row.accepted_at or row.offered_at,
        why=f"It is {row.state}, and nobody works on its conversation.",
        what_to_do=place.again("resume", within.root),
    )


def older(found: Sequence[Stuck], seconds: float, now: float) -> list[Stuck]:
    """Those that are stuck for so long."""
    return [each for each in found if each.since <= now - seconds]
