"""Backlog: the tickets of each agent that wait or are claimed, and the workers that are there for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from changeover.ids import worker_of
from changeover.relay.ports.queue import Queued, SeenWorker

Standing = Literal["waiting", "claimed", "resting", "stuck"]
PATIENCE = 60.0
"""Seconds after which a ticket that no live worker serves is stuck."""


class Backlog(Struct, frozen=True, kw_only=True):
    """The tickets of one agent."""

    waiting: int = 0
    """Tickets that a worker can claim, stuck ones included."""
    claimed: int = 0
    resting: int = 0
    """Tickets whose agent waits for a person or a delegate."""
    stuck: int = 0
    oldest: float | None = None
    """Seconds for which the oldest of the waiting tickets has waited."""
    workers: int = 0
    """Live workers that serve the agent."""


class WorkerStatus(Struct, frozen=True, kw_only=True):
    """A worker, and the tickets that it holds."""

    name: str
    agents: tuple[str, ...]
    """The agents whose tickets it claims; empty if the worker is known only by the tickets that it holds."""
    started_at: float | None = None
    alive: bool = True
    until: float | None = None
    """When it counts as gone, unless it is seen again before."""
    tickets: tuple[str, ...] = ()


def standing_of(queued: Queued, served: Mapping[str, int], attempts: int, now: float) -> Standing:
    """The standing of a ticket; `served` counts the live workers of each agent, and after `attempts` claims the ticket
    is stuck."""
    if queued.rests:
        return "resting"
    if queued.owner:
        return "claimed"
    ticket = queued.ticket
    late = ticket.deadline is not None and ticket.deadline <= now
    alone = not served.get(ticket.agent) and now - ticket.at >= PATIENCE
    return "stuck" if late or alone or queued.attempts >= attempts else "waiting"


def reason_of(queued: Queued, served: Mapping[str, int], attempts: int, now: float) -> str:
    """Why a ticket is stuck, as a sentence; empty if it is not."""
    ticket, agent = queued.ticket, queued.ticket.agent
    if standing_of(queued, served, attempts, now) != "stuck":
        return ""
    if ticket.deadline is not None and ticket.deadline <= now:
        return "No worker claimed it before its deadline, and no process has recorded that yet."
    if queued.attempts >= attempts:
        return f"Workers claimed it {queued.attempts} times and none finished it."
    if queued.attempts:
        return f"Its worker stopped, and no other worker serves {agent} now."
    return f"No worker serves {agent}."


def backlog(tickets: Iterable[Queued], workers: Sequence[SeenWorker], attempts: int, now: float) -> dict[str, Backlog]:
    """The backlog of each agent that has tickets or workers, by its id."""
    served, by_agent = served_by(workers, now), defaultdict[str, list[Queued]](list)
    for each in tickets:
        by_agent[each.ticket.agent].append(each)
    return {
        agent: _backlog(by_agent.get(agent, []), served, attempts, now, agent) for agent in sorted({*by_agent, *served})
    }


def served_by(workers: Iterable[SeenWorker], now: float) -> dict[str, int]:
    """The number of live workers of each agent."""
    served: dict[str, int] = {}
    for worker in workers:
        if worker.until > now:
            for agent in worker.agents:
                served[agent] = served.get(agent, 0) + 1
    return served


def _backlog(tickets: Sequence[Queued], served: Mapping[str, int], attempts: int, now: float, agent: str) -> Backlog:
    standings = [standing_of(each, served, attempts, now) for each in tickets]
    waits = [now - each.ticket.at for each, standing in zip(tickets, standings, strict=True) if standing in OPEN]
    return Backlog(
        waiting=len(waits),
        claimed=standings.count("claimed"),
        resting=standings.count("resting"),
        stuck=standings.count("stuck"),
        oldest=max(waits, default=None),
        workers=served.get(agent, 0),
    )


OPEN: tuple[Standing, ...] = ("waiting", "stuck")


def statuses(tickets: Iterable[Queued], workers: Iterable[SeenWorker], now: float) -> list[WorkerStatus]:
    """The workers of the store by name: all that are alive or hold a ticket, and those that the store remembers."""
    held = defaultdict[str, list[str]](list)
    for each in tickets:
        if each.owner:
            held[worker_of(each.owner)].append(each.ticket.id)
    found = {name: WorkerStatus(name=name, agents=(), tickets=tuple(ids)) for name, ids in held.items()}
    for worker in sorted(workers, key=lambda each: each.until):
        found[worker.name] = WorkerStatus(
            name=worker.name,
            agents=worker.agents,
            started_at=worker.started_at,
            alive=worker.until > now or worker.name in held,
            until=worker.until,
            tickets=tuple(held.get(worker.name, ())),
        )
    return [found[name] for name in sorted(found)]
