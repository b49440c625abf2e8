"""StuckWork: tickets, conversations and handoffs without an owner, each with the reason and a command that helps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from changeover.agent.roster import Roster
from changeover.cli.options import ALL_ROWS, OpenStore
from changeover.cli.terminal.render import when
from changeover.cli.terminal.run_report import NextCommands
from changeover.ids import below
from changeover.relay.ports.lists import ConversationRow, HandoffRow
from changeover.relay.ports.queue import Queued

MAX_ATTEMPTS = Roster({}, "").attempts
OPEN = ("PENDING", "ACCEPTED", "WORKING")


class StuckWork(Struct, frozen=True, kw_only=True):
    """Work that waits while no process works on it."""

    id: str
    kind: Literal["ticket", "conversation", "handoff"]
    agent: str
    conversation: str
    since: float
    attempts: int = 0
    """Number of times that workers claimed it."""
    why: str
    what_to_do: str


async def find_stuck(store: OpenStore, commands: NextCommands, now: float) -> list[StuckWork]:
    """All stuck work of a store, oldest first."""
    tickets = [each for each in await store.work.tickets() if not each.owner and not each.rests]
    found = [_stuck_ticket(each, commands, now) for each in tickets]
    waiting = {each.ticket.root for each in tickets}
    rows = await _unfinished(store)
    for row in rows:
        if row.status == "interrupted" or not (row.id in waiting or _has_delegate(row.id, rows)):
            found.append(_stuck_conversation(row, commands))
    known = {each.id for each in found}
    for row in rows:
        found += [_stuck_handoff(each, row, commands) for each in await _open(store, row) if each.id not in known]
    return sorted(found, key=lambda each: each.since)


async def _unfinished(store: OpenStore) -> list[ConversationRow]:
    """The conversations with outstanding work and no owner."""
    found = [await store.lists.one(ConversationRow, id) for id in await store.work.unfinished()]
    return [row for row in found if row is not None]


async def _open(store: OpenStore, row: ConversationRow) -> list[HandoffRow]:
    filters = [{"conversation": row.id, "state": state} for state in OPEN]
    return [each for wanted in filters for each in await store.lists.listed(HandoffRow, wanted, limit=ALL_ROWS)]


def _has_delegate(conversation: str, rows: Iterable[ConversationRow]) -> bool:
    return any(row.id.startswith(below(conversation)) for row in rows)


def _stuck_ticket(queued: Queued, commands: NextCommands, now: float) -> StuckWork:
    ticket, attempts = queued.ticket, queued.attempts
    serve = commands.serve([ticket.agent])
    if ticket.deadline is not None and ticket.deadline <= now:
        why = f"No worker claimed it before its deadline, {when(ticket.deadline)}, and no process recorded that."
        todo = commands.resume(ticket.root)
    elif attempts >= MAX_ATTEMPTS:
        why = f"Workers claimed it {attempts} times and none finished it; the next worker escalates it to a person."
        todo = commands.retry(ticket.id)
    elif attempts:
        times = "once" if attempts == 1 else f"{attempts} times"
        why = f"It was claimed {times} and the lease expired; it waits for another worker of {ticket.agent}."
        todo = serve
    else:
        why, todo = f"It waits for a worker of {ticket.agent}, and none has claimed it.", serve
    return StuckWork(
        id=ticket.id,
        kind="ticket",
        agent=ticket.agent,
        conversation=ticket.conversation,
        since=ticket.at,
        attempts=attempts,
        why=why,
        what_to_do=todo,
    )


def _stuck_conversation(row: ConversationRow, commands: NextCommands) -> StuckWork:
    running = f"{row.agent} was working on it when its process ended."
    return StuckWork(
        id=row.id,
        kind="conversation",
        agent=row.agent,
        conversation=row.id,
        since=row.updated_at,
        why=running if row.status == "interrupted" else "Its wait is over, and no process has continued it.",
        what_to_do=commands.resume(row.root),
    )


def _stuck_handoff(row: HandoffRow, within: ConversationRow, commands: NextCommands) -> StuckWork:
    return StuckWork(
        id=row.id,
        kind="handoff",
        agent=row.receiver,
        conversation=row.conversation,
        since=row.accepted_at or row.offered_at,
        why=f"It is {row.state}, and no process works on its conversation.",
        what_to_do=commands.resume(within.root),
    )
