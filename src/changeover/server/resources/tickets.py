"""Tickets: submit a package, and claim, answer and conclude it as a worker in any language."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from msgspec import Meta, Struct

from changeover.errors import HandoffNotFound
from changeover.facts import Ticket, TicketStatus
from changeover.handoffs.package import HandoffPackage
from changeover.ids import split_handoff, worker_of
from changeover.relay.ports.lists import ConversationRow
from changeover.relay.ports.queue import Queued, SeenWorker
from changeover.server.access import Caller
from changeover.server.problems import Problem
from changeover.server.resource import Filter, Id, Key, Resource, Served, Some, Who, audited, seen
from changeover.server.resources.conversations import Cancelled, Reason
from changeover.server.resources.handoffs import owned
from changeover.server.resources.runs import HandoffOutcome, handoff_outcome
from changeover.server.wire import Json, Page, body
from changeover.team import Team
from changeover.ticket import LEASE, HeldTicket, TicketClaim, held, retry

resource = Resource("tickets")

NOT_FOUND = {404: "There is no such ticket"}
REFUSED = {**NOT_FOUND, 409: "The claim is lost, or the state of the handoff does not allow it"}
LONGEST = 24 * 3600.0
NEVER = 1e300

Lease = Annotated[float, Meta(gt=0, le=LONGEST)]
Count = Annotated[int, Meta(ge=1, le=100)]
Names = list[str]


class InQueue(Struct, frozen=True, kw_only=True):
    """A ticket that waits for a worker or is claimed."""

    ticket: Ticket
    attempts: int
    """Claims since the last progress."""
    worker: str
    """The worker that holds it; empty if none does."""
    until: float | None
    """When its lease runs out."""
    rests: bool
    """True while its agent waits for a person or a delegate."""


class Wanted(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which tickets a worker claims."""

    agent: str
    limit: Count = 1
    lease: Lease = LEASE
    """Seconds for which each claim holds unless it is renewed."""
    by: str = ""
    """The name of the worker; by default the user of its token."""


class Claimed(Struct, frozen=True, kw_only=True):
    """A claimed ticket. Its `claim` goes with every further call about it."""

    ticket: Ticket
    claim: str
    attempt: int
    """Claim number of this ticket, from 1."""
    package: dict[str, Any]
    """The task, with all that the sender hands over."""


class Held(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a worker says about a ticket that it holds."""

    claim: str
    """The `claim` that POST /claims answered."""
    lease: Lease = LEASE
    """Seconds by which a heartbeat renews the claim."""


class Acceptance(Held, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The worker accepts the task."""

    estimated_completion: float | None = None
    """In how many seconds it expects to be done."""


class Rejection(Held, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The worker rejects the task."""

    reason: str
    suggested_alternative: str | None = None


class Conditions(Held, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the worker needs before it accepts the task."""

    needs_more_context: Names = []
    needs_permission: Names = []


class Completion(Held, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result of the task."""

    result: str


class Failure(Held, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why the task cannot be done."""

    reason: str


class Return(Held, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why the worker gives the ticket back."""

    reason: str = ""


@resource.route("GET /tickets", Page[InQueue])
async def list_tickets(
    team: Served, who: Who, some: Some, agent: Filter = None, worker: Filter = None, conversation: Filter = None
) -> Json:
    """The tickets that wait or are claimed, in the order in which they are claimed."""
    wanted = [
        each
        for each in await waiting_tickets(team, who)
        if agent in (None, each.ticket.agent)
        and worker in (None, each.worker)
        and conversation in (None, each.ticket.root, each.ticket.conversation)
    ]
    return some.page(sorted(wanted, key=_claim_order), _claim_order)


def _claim_order(queued: InQueue) -> tuple[float | str, ...]:
    """The order in which tickets are claimed: by priority, deadline and age."""
    ticket = queued.ticket
    return -ticket.priority, NEVER if ticket.deadline is None else ticket.deadline, ticket.at, ticket.id


async def waiting_tickets(team: Team, who: Caller) -> list[InQueue]:
    """The tickets that wait or are claimed, as far as the caller may see them."""
    found = [each for each in await team.log.queue.tickets() if each.ticket.team == team.name]
    return [_in_queue(each) for each in found if await sees(team, who, each.ticket.root)]


async def sees(team: Team, who: Caller, root: str) -> bool:
    if who.sees_all:
        return True
    row = await team.log.lists.one(ConversationRow, root)
    return row is not None and who.sees(row.user)


def _in_queue(queued: Queued) -> InQueue:
    """A ticket for clients: without the token of its claim."""
    worker = worker_of(queued.owner) if queued.owner else ""
    return InQueue(
        ticket=queued.ticket, attempts=queued.attempts, worker=worker, until=queued.until, rests=queued.rests
    )


@resource.route(
    "POST /tickets",
    {201: Ticket},
    body=HandoffPackage,
    refusals={404: "The conversation is not yours", 409: "The key is taken, or it is busy"},
)
async def submit(
    team: Served, who: Who, package: Annotated[dict[str, Any], body(dict[str, Any])], key: Key = None
) -> Json:
    """Put a package into the queue of its receiver."""
    return Json(await team.submit(await owned(team, who, package, key)), 201)


@resource.route("POST /claims", list[Claimed], body=Wanted)
async def claim(team: Served, who: Who, wanted: Annotated[Wanted, body(Wanted)]) -> Json:
    """Claim up to `limit` tickets of an agent; an empty list if none waits."""
    _check_agent(who, wanted.agent)
    by = wanted.by or who.user
    found = await team.claim(wanted.agent, limit=wanted.limit, lease=wanted.lease, by=by)
    await _seen_worker(team, by, wanted)
    return Json([_claimed(each) for each in found])


async def _seen_worker(team: Team, name: str, wanted: Wanted) -> None:
    """Record a worker that claims over HTTP, because such a worker does not report itself."""
    now = team.clock.now()
    lasts = max(wanted.lease, LEASE)
    worker = SeenWorker(name=name, agents=(wanted.agent,), started_at=now, until=now + lasts, team=team.name)
    await team.log.workers.seen(worker, now)


def _claimed(claim: TicketClaim) -> Claimed:
    return Claimed(ticket=claim.ticket, claim=claim.handle, attempt=claim.attempt, package=claim.package.to_dict())


def _check_agent(who: Caller, agent: str) -> None:
    if who.agents and agent not in who.agents:
        raise Problem(403, f"this token claims only for: {', '.join(who.agents)}", kind="forbidden")


async def held_by(team: Team, who: Caller, id: str, said: Held) -> HeldTicket:
    """The ticket that the caller holds; raises ClaimLost, or Problem if the token is not for its agent."""
    found = await held(team.engine, lambda: team.log, id, said.claim, said.lease)
    _check_agent(who, found.ticket.agent)
    return found


@resource.route("POST /tickets/{id:path}/accept", {204: None}, body=Acceptance, refusals=REFUSED)
async def accept(id: Id, team: Served, who: Who, said: Annotated[Acceptance, body(Acceptance)]) -> Json:
    """Accept the task of a claimed ticket."""
    await (await held_by(team, who, id, said)).accept(estimated_completion=said.estimated_completion)
    return Json(None, 204)


@resource.route("POST /tickets/{id:path}/reject", {204: None}, body=Rejection, refusals=REFUSED)
async def reject(id: Id, team: Served, who: Who, said: Annotated[Rejection, body(Rejection)]) -> Json:
    """Reject the task: the next candidate is asked, then a person."""
    ticket = await held_by(team, who, id, said)
    await ticket.reject(said.reason, suggested_alternative=said.suggested_alternative)
    return Json(None, 204)


@resource.route("POST /tickets/{id:path}/conditional", {204: None}, body=Conditions, refusals=REFUSED)
async def conditional(id: Id, team: Served, who: Who, said: Annotated[Conditions, body(Conditions)]) -> Json:
    """Say what the worker needs before it accepts the task."""
    ticket = await held_by(team, who, id, said)
    await ticket.conditional(needs_more_context=said.needs_more_context, needs_permission=said.needs_permission)
    return Json(None, 204)


@resource.route("POST /tickets/{id:path}/heartbeat", {204: None}, body=Held, refusals=REFUSED)
async def heartbeat(id: Id, team: Served, who: Who, said: Annotated[Held, body(Held)]) -> Json:
    """Renew the claim for `lease` seconds from now."""
    await (await held_by(team, who, id, said)).heartbeat()
    return Json(None, 204)


@resource.route("POST /tickets/{id:path}/complete", {204: None}, body=Completion, refusals=REFUSED)
async def complete(id: Id, team: Served, who: Who, said: Annotated[Completion, body(Completion)]) -> Json:
    """Record the result. One that does not fit is refused with 409; the claim holds for a second try."""
    await (await held_by(team, who, id, said)).complete(said.result)
    return Json(None, 204)


@resource.route("POST /tickets/{id:path}/fail", {204: None}, body=Failure, refusals=REFUSED)
async def fail(id: Id, team: Served, who: Who, said: Annotated[Failure, body(Failure)]) -> Json:
    """Record that the task cannot be done."""
    await (await held_by(team, who, id, said)).fail(said.reason)
    return Json(None, 204)


@resource.route("POST /tickets/{id:path}/give-back", {204: None}, body=Return, refusals=REFUSED)
async def give_back(id: Id, team: Served, who: Who, said: Annotated[Return, body(Return)]) -> Json:
    """Release the claim, so that another worker can take the ticket."""
    await (await held_by(team, who, id, said)).give_back(said.reason)
    return Json(None, 204)


@resource.route("POST /tickets/{id:path}/cancel", Cancelled, body=Reason, refusals=NOT_FOUND)
async def cancel_ticket(id: Id, team: Served, who: Who, why: Annotated[Reason, body(Reason)]) -> Json:
    """Cancel a handoff that is under way or waits in the queue."""
    return Json(Cancelled(await cancelled(team, who, id, why.reason)))


async def cancelled(team: Team, who: Caller, id: str, reason: str, by: str = "") -> bool:
    """Cancel a handoff for the user of the token; `by` counts only where no token is needed."""
    await _status(team, who, id)
    return await team.cancel(id, by=who.user or by, reason=reason)


@resource.route("POST /tickets/{id:path}/retry", {204: None}, refusals=REFUSED)
async def retry_ticket(id: Id, team: Served, who: Who) -> Json:
    """Let any worker claim a ticket now, also from its owner, and reset its count of claims."""
    await _status(team, who, id)
    await audited(team, who, "ticket.retry", id)
    if not await retry(team.log, id):
        raise Problem(409, f"{id} waits for no worker", kind="not-queued")
    return Json(None, 204)


class NextReceiver(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent that gets a ticket instead, and why."""

    receiver: str
    reason: str = ""


@resource.route("POST /tickets/{id:path}/hand-on", {204: None}, body=NextReceiver, refusals=REFUSED)
async def hand_on_ticket(id: Id, team: Served, who: Who, to: Annotated[NextReceiver, body(NextReceiver)]) -> Json:
    """Give a ticket that was not accepted yet to another agent, also if a worker has claimed it."""
    await _status(team, who, id)
    await team.hand_on(id, to.receiver, by=who.user, reason=to.reason)
    return Json(None, 204)


Timeout = Annotated[float, Query(ge=0, le=300, description="Seconds to wait for the result.")]


@resource.route(
    "GET /tickets/{id:path}/result", HandoffOutcome, refusals={**NOT_FOUND, 504: "It has not ended in time"}
)
async def ticket_result(id: Id, team: Served, who: Who, timeout: Timeout = 0) -> Json:
    """The result of a ticket, which any process may work on."""
    await _status(team, who, id)
    return Json(handoff_outcome(await team.result(id, timeout=timeout)))


@resource.route("GET /tickets/{id:path}", TicketStatus, refusals=NOT_FOUND)
async def read_ticket(id: Id, team: Served, who: Who) -> Json:
    """The status of a ticket."""
    return Json(await _status(team, who, id))


async def _status(team: Team, who: Caller, id: str) -> TicketStatus:
    await seen(team, who, split_handoff(id)[0], HandoffNotFound(id))
    return await team.status(id)
