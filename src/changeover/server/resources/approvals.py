"""Approvals: the requests that await a person, and decisions about them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from changeover.guards.approval import Approve, Decision, Edit, Reject, Respond
from changeover.relay.lists import ApprovalRow
from changeover.server.problems import Problem
from changeover.server.resource import DEFAULT_LIMIT, Id, Limit, Resource, Served, Who, given
from changeover.server.wire import Json, body
from changeover.team import Team

resource = Resource("approvals")

NOT_FOUND = {404: "There is no such request"}
Verdict = Approve | Reject | Edit | Respond


class Decided(Struct, frozen=True, forbid_unknown_fields=True):
    """The decision about a request: approve, reject, edit or respond, as its `type` says."""

    decision: Verdict


@resource.route("GET /approvals", list[ApprovalRow])
async def list_approvals(
    team: Served, status: str | None = "pending", agent: str | None = None, limit: Limit = DEFAULT_LIMIT
) -> Json:
    """The newest requests to people."""
    return Json(await team.log.lists.listed(ApprovalRow, given(status=status or None, agent=agent), limit=limit))


@resource.route("GET /approvals/{id:path}", ApprovalRow, refusals=NOT_FOUND)
async def read_approval(id: Id, team: Served) -> Json:
    """A request to a person."""
    return Json(await _request(team, id))


@resource.route(
    "POST /approvals/{id:path}/decision",
    {204: None},
    body=Decided,
    refusals={**NOT_FOUND, 409: "It was decided before, is not awaited any more, or needs another role"},
)
async def decide(id: Id, team: Served, who: Who, said: Annotated[Decided, body(Decided)]) -> Json:
    """Decide about a request; the run goes on from there."""
    await _request(team, id)
    decision: Decision = said.decision
    await team.decide(id, decision, by=who.user, roles=who.roles)
    return Json(None, 204)


async def _request(team: Team, id: str) -> ApprovalRow:
    if (row := await team.log.lists.one(ApprovalRow, id)) is None:
        raise Problem(404, f"no request has the id {id!r}", kind="approval-not-found")
    return row
