"""Handoffs: offer a package and wait for its result, read handoffs, and roll them back."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec.structs import replace

from changeover.errors import HandoffNotFound
from changeover.facts import HandoffRecord
from changeover.inputs import package_of
from changeover.relay.lists import HandoffRow
from changeover.server.resource import DEFAULT_LIMIT, Id, Key, Limit, Resource, Served, Who, given, own_key
from changeover.server.resources.conversations import Reason
from changeover.server.resources.runs import HandoffOutcome, handoff_outcome
from changeover.server.wire import Json, body

resource = Resource("handoffs")

NOT_FOUND = {404: "There is no such handoff"}
REFUSED = {**NOT_FOUND, 409: "The state of the handoff does not allow it"}
OFFERED = {409: "Nobody takes it, or the key is taken", 502: "A model or a function failed", 504: "It took too long"}


@resource.route("GET /handoffs", list[HandoffRow])
async def list_handoffs(
    team: Served,
    state: str | None = None,
    sender: str | None = None,
    receiver: str | None = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Json:
    """The newest handoffs."""
    wanted = given(state=state, sender=sender, receiver=receiver)
    return Json(await team.log.lists.listed(HandoffRow, wanted, limit=limit))


@resource.route("POST /handoffs", HandoffOutcome, body=dict[str, Any], refusals=OFFERED)
async def offer(
    team: Served, who: Who, package: Annotated[dict[str, Any], body(dict[str, Any])], key: Key = None
) -> Json:
    """Hand a package to its receiver and wait for the result."""
    whole = package_of(package)
    metadata = whole.metadata
    own = own_key(key or metadata.idempotency_key or None, who) or ""
    result = await team.offer(replace(whole, metadata=replace(metadata, idempotency_key=own)))
    return Json(handoff_outcome(result))


@resource.route("POST /handoffs/{id:path}/rollback", HandoffRecord, body=Reason, refusals=REFUSED)
async def roll_back(id: Id, team: Served, who: Who, why: Annotated[Reason, body(Reason)]) -> Json:
    """Undo a handoff: its task goes back to the sender."""
    return Json(await team.rollback(id, reason=why.reason, by=who.user))


@resource.route("GET /handoffs/{id:path}", HandoffRow, refusals=NOT_FOUND)
async def read_handoff(id: Id, team: Served) -> Json:
    """A handoff."""
    if (row := await team.log.lists.one(HandoffRow, id)) is None:
        raise HandoffNotFound(id)
    return Json(row)
