"""Approvals: the requests that await a person, and decisions about them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from msgspec import Struct

from changeover.guards.approval import Decision
from changeover.ids import conversation_of
from changeover.relay.ports.lists import ApprovalRow
from changeover.server.access import OWNER, Caller
from changeover.server.problems import Problem
from changeover.server.resource import Filter, Id, Part, Resource, Served, Who, listed, seen
from changeover.server.wire import Json, Page, body
from changeover.team import Team

resource = Resource("approvals")

NOT_FOUND = {404: "There is no such request"}


class Decided(Struct, frozen=True, forbid_unknown_fields=True):
    """The decision about a request: approve, reject, edit or respond, as its `type` says."""

    decision: Decision


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
    await decided(team, who, id, said.decision)
    return Json(None, 204)


async def decided(team: Team, who: Caller, id: str, decision: Decision, by: str = "") -> None:
    """Decide about a request for the user of the token; `by` counts only where no token is needed."""
    request = await _request(team, who, id)
    roles = request.roles if who is OWNER else who.roles
    await team.decide(id, decision, by=who.user or by, roles=roles)


async def _request(team: Team, who: Caller, id: str) -> ApprovalRow:
    missing = Problem(404, f"no request has the id {id!r}", kind="approval-not-found")
    await seen(team, who, conversation_of(id), missing)
    if (row := await team.log.lists.one(ApprovalRow, id)) is None:
        raise missing
    return row
