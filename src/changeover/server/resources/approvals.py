"""Approvals: the requests that await a person, and decisions about them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from msgspec import Struct

from changeover.guards.approval import Approve, Decision, Edit, Reject, Respond
from changeover.ids import conversation_of
from changeover.relay.lists import ApprovalRow
from changeover.server.access import Caller
from changeover.server.problems import Problem
from changeover.server.resource import Filter, Id, Part, Resource, Served, Who, listed, seen
from changeover.server.wire import Json, Page, body
from changeover.team import Team

resource = Resource("approvals")

NOT_FOUND = {404: "There is no such request"}
Verdict = Approve | Reject | Edit | Respond


class Decided(Struct, frozen=True, forbid_unknown_fields=True):
    """The decision about a request: approve, reject, edit or respond, as its `type` says."""

    decision: Verdict


@resource.route("GET /approvals", Page[ApprovalRow])
async def list_approvals(  # noqa: PLR0913 - each is a parameter of the query
    team: Served,
    who: Who,
    part: Part,
    *,
    status: Annotated[str, Query(max_length=40, description="Empty for all.")] = "pending",
    agent: Filter = None,
    kind: Filter = None,
    conversation: Filter = None,
    user: Filter = None,
) -> Json:
    """The requests to people, the newest first; by default those that await a decision."""
    wanted = {"status": status or None, "agent": agent, "kind": kind, "user": user}
    return await listed(team, who, ApprovalRow, wanted, part, within=conversation)


@resource.route("GET /approvals/{id:path}", ApprovalRow, refusals=NOT_FOUND)
async def read_approval(id: Id, team: Served, who: Who) -> Json:
    """A request to a person."""
    return Json(await _request(team, who, id))


@resource.route(
    "POST /approvals/{id:path}/decision",
    {204: None},
    body=Decided,
    refusals={**NOT_FOUND, 409: "It was decided before, is not awaited any more, or needs another role"},
)
async def decide(id: Id, team: Served, who: Who, said: Annotated[Decided, body(Decided)]) -> Json:
    """Decide about a request; the run goes on from there."""
    await _request(team, who, id)
    decision: Decision = said.decision
    await team.decide(id, decision, by=who.user, roles=who.roles)
    return Json(None, 204)


async def _request(team: Team, who: Caller, id: str) -> ApprovalRow:
    missing = Problem(404, f"no request has the id {id!r}", kind="approval-not-found")
    await seen(team, who, conversation_of(id), missing)
    if (row := await team.log.lists.one(ApprovalRow, id)) is None:
        raise missing
    return row
