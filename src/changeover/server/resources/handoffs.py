"""Handoffs: offer a package and wait for its result, read handoffs, and roll them back."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec.structs import replace

from changeover.errors import HandoffNotFound
from changeover.facts import HandoffRecord, Mode
from changeover.facts import State as HandoffState
from changeover.handoffs.package import HandoffPackage
from changeover.ids import split_handoff
from changeover.inputs import package_of
from changeover.relay.ports.lists import HandoffRow
from changeover.server.access import Caller
from changeover.server.resource import (
    Filter,
    Id,
    Key,
    Part,
    Resource,
    Served,
    Who,
    free_or_seen,
    listed,
    own_key,
    seen,
)
from changeover.server.resources.conversations import Reason
from changeover.server.resources.runs import HandoffOutcome, handoff_outcome
from changeover.server.wire import Json, Page, body
from changeover.team import Team

resource = Resource("handoffs")

NOT_FOUND = {404: "There is no such handoff"}
REFUSED = {**NOT_FOUND, 409: "The state of the handoff does not allow it"}
OFFERED = {
    404: "The conversation is not yours",
    409: "No receiver accepts it, or the key is taken",
    502: "A model or a function failed",
    504: "It took too long",
}


@resource.route("GET /handoffs", Page[HandoffRow])
async def list_handoffs(  # noqa: PLR0913 - each is a parameter of the query
    team: Served,
    who: Who,
    part: Part,
    *,
    state: HandoffState | None = None,
    mode: Mode | None = None,
    sender: Filter = None,
    receiver: Filter = None,
    conversation: Filter = None,
    user: Filter = None,
) -> Json:
    """The handoffs of all conversations, the newest first; of one conversation with its delegates if it is named."""
    wanted = {"state": state, "mode": mode, "sender": sender, "receiver": receiver, "user": user}
    return await listed(team, who, HandoffRow, wanted, part, within=conversation)


@resource.route("POST /handoffs", HandoffOutcome, body=HandoffPackage, refusals=OFFERED)
async def offer(
    team: Served, who: Who, package: Annotated[dict[str, Any], body(dict[str, Any])], key: Key = None
) -> Json:
    """Hand a package to its receiver and wait for the result."""
    return Json(handoff_outcome(await team.offer(await owned(team, who, package, key))))


async def owned(team: Team, who: Caller, given: dict[str, Any], key: str | None) -> HandoffPackage:
    """A package as its caller may hand it over: for its own user, in its own conversation, under its own key."""
    package = package_of(given)
    metadata = package.metadata
    if metadata.conversation:
        await free_or_seen(team, who, metadata.conversation)
    user = metadata.user if who.sees_all and metadata.user else who.user
    own = own_key(key or metadata.idempotency_key, who) or ""
    return replace(package, metadata=replace(metadata, user=user, idempotency_key=own))


@resource.route("POST /handoffs/{id:path}/rollback", HandoffRecord, body=Reason, refusals=REFUSED)
async def roll_back(id: Id, team: Served, who: Who, why: Annotated[Reason, body(Reason)]) -> Json:
    """Undo a handoff: its task goes back to the sender."""
    await seen(team, who, split_handoff(id)[0], HandoffNotFound(id))
    return Json(await team.rollback(id, reason=why.reason, by=who.user))


@resource.route("GET /handoffs/{id:path}", HandoffRow, refusals=NOT_FOUND)
async def read_handoff(id: Id, team: Served, who: Who) -> Json:
    """A handoff."""
    await seen(team, who, split_handoff(id)[0], HandoffNotFound(id))
    if (row := await team.log.lists.one(HandoffRow, id)) is None:
        raise HandoffNotFound(id)
    return Json(row)
