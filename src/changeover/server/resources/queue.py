"""Queue: the tickets with their tasks, why some are stuck, and the workers that serve them."""

from __future__ import annotations

from msgspec import Struct

from changeover.agent.roster import Roster
from changeover.ids import worker_of
from changeover.observe.backlog import Backlog, Standing, WorkerStatus, backlog, reason_of, served_by, standing_of
from changeover.observe.backlog import statuses as worker_statuses
from changeover.relay.ports.lists import ConversationRow, HandoffRow
from changeover.relay.ports.queue import Queued
from changeover.server.resource import Resource, Served, Who, visible
from changeover.server.resources.tickets import sees
from changeover.server.wire import Json
from changeover.team import Team

resource = Resource("tickets")

MOST = 100
"""Tickets that are shown, the most urgent first; all are counted."""
ENDED = 8
"""Handoffs that are shown of those that ended last."""
LOOKED_AT = 200
"""How many of the newest handoffs of each agent with a queue are searched for those that ended last."""


class TicketView(Struct, frozen=True, kw_only=True):
    """A ticket, and what a person has to know about it."""

    id: str
    agent: str
    sender: str
    conversation: str
    root: str
    task: str
    """What is to be done."""
    standing: Standing
    accepted: bool
    """True if its task was accepted; then it cannot be given to another agent."""
    why: str
    """Why it is stuck; empty if it is not."""
    at: float
    """Since when it waits."""
    priority: int
    deadline: float | None
    attempts: int
    worker: str
    until: float | None
    """When its lease runs out."""


class QueueView(Struct, frozen=True, kw_only=True):
    """The queue of a team."""

    at: float
    """The time by which leases and ages are counted."""
    total: int
    """Tickets that the caller may see; `tickets` holds the most urgent of them, and all that are stuck."""
    tickets: list[TicketView]
    agents: dict[str, Backlog]
    """The backlog of each agent that has tickets or workers."""
    workers: list[WorkerStatus]
    ended: list[HandoffRow]
    """What the agents with a queue finished last, the newest first."""


@resource.route("GET /queue", QueueView)
async def read_queue(team: Served, who: Who) -> Json:
    """Tickets that wait or are claimed, the backlog of each agent, and the workers."""
    now, attempts = team.clock.now(), team.roster.attempts
    queued = [each for each in await team.log.queue.tickets() if each.ticket.team == team.name]
    workers = [each for each in await team.log.workers.all() if each.team == team.name]
    served = served_by(workers, now)
    mine = queued if who.sees_all else [each for each in queued if await sees(team, who, each.ticket.root)]
    first = sorted(mine, key=lambda each: standing_of(each, served, attempts, now) != "stuck")[:MOST]
    view = QueueView(
        at=now,
        total=len(mine),
        tickets=[await _view(team, each, served, now) for each in first],
        agents=backlog(queued, workers, attempts, now),
        workers=worker_statuses(queued, workers, now),
        ended=await _ended(team, visible(team, who, {}), team.roster),
    )
    return Json(view)


async def _view(team: Team, queued: Queued, served: dict[str, int], now: float) -> TicketView:
    ticket, attempts = queued.ticket, team.roster.attempts
    handoff = await team.log.lists.one(HandoffRow, ticket.id)
    about = handoff.message if handoff else ""
    if not about:
        row = await team.log.lists.one(ConversationRow, ticket.root)
        about = row.title if row else ""
    known = {name: getattr(ticket, name) for name in ("id", "agent", "conversation", "root", "at", "priority")}
    return TicketView(
        **known,
        deadline=ticket.deadline,
        sender=handoff.sender if handoff else "",
        task=about,
        standing=standing_of(queued, served, attempts, now),
        accepted=handoff is None or handoff.accepted_at is not None,
        why=reason_of(queued, served, attempts, now),
        attempts=queued.attempts,
        worker=worker_of(queued.owner) if queued.owner else "",
        until=queued.until,
    )


async def _ended(team: Team, filters: dict[str, str], roster: Roster) -> list[HandoffRow]:
    pulled = [id for id in roster.seats if roster.pulls(id)]
    found: list[HandoffRow] = []
    for agent in pulled:
        rows = await team.log.lists.listed(HandoffRow, {**filters, "receiver": agent}, limit=LOOKED_AT)
        found += [row for row in rows if row.ended_at is not None][:ENDED]
    return sorted(found, key=lambda row: -(row.ended_at or 0))[:ENDED]
