"""Agents: the members of the team as the router sees them, and switches that take them out of service."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from changeover.agent.agent import Function, Person
from changeover.agent.roster import Roster, Seat
from changeover.errors import UnknownAgentError
from changeover.relay.ports.tables import KeptAgent
from changeover.routing.profile import Profile
from changeover.server.access import Caller
from changeover.server.problems import Problem
from changeover.server.resource import Id, Resource, Served, Who, audited
from changeover.server.wire import Json, Page
from changeover.team import Team

resource = Resource("agents")

NOT_FOUND = {404: "There is no such agent"}


class AgentView(Struct, frozen=True, kw_only=True):
    """A member of the team."""

    id: str
    kind: str
    """agent, function, person, or other if only the store knows it."""
    start: bool
    pull: bool
    """True if workers claim its tickets."""
    enabled: bool
    removed: bool
    profile: Profile
    receivers: tuple[str, ...]
    """The members that it can hand off or delegate to."""
    model: str = ""
    """The name of its model; empty if it has none, or a model that only code can express."""
    tools: tuple[str, ...] = ()
    """What its model may call now, without handoffs."""
    skills: tuple[str, ...] = ()
    origin: Literal["code", "store"] = "code"
    """Where it is declared."""
    version: int = 0
    """Of its row in the store; 0 if code declares it."""


@resource.route("GET /agents", Page[AgentView])
async def list_agents(team: Served) -> Json:
    """The members of the team, with what the store changes about them."""
    return Json(Page(list((await _agents(team)).values())))


@resource.route("GET /agents/{id}", AgentView, refusals=NOT_FOUND)
async def read_agent(id: Id, team: Served) -> Json:
    """A member of the team."""
    return Json(await known_agent(team, id))


@resource.route("POST /agents/{id}/enable", AgentView, refusals=NOT_FOUND)
async def enable_agent(id: Id, team: Served, who: Who) -> Json:
    """Let an agent have handoffs again."""
    return Json(await _switched(team, who, id, True))


@resource.route("POST /agents/{id}/disable", AgentView, refusals=NOT_FOUND)
async def disable_agent(id: Id, team: Served, who: Who) -> Json:
    """Hand nothing to an agent until it is enabled; it goes on with what it has begun."""
    return Json(await _switched(team, who, id, False))


async def _switched(team: Team, who: Caller, id: str, enabled: bool) -> AgentView:
    await known_agent(team, id)
    await audited(team, who, "agents.switch", id, {"enabled": enabled})
    await (team.router.enable(id) if enabled else team.router.disable(id))
    return await known_agent(team, id)


async def known_agent(team: Team, id: str) -> AgentView:
    """A member of the team; raises Problem if there is none."""
    found = await _agents(team)
    if id not in found:
        raise Problem(404, str(UnknownAgentError(id, list(found))), kind="agent-not-found")
    return found[id]


async def _agents(team: Team) -> dict[str, AgentView]:
    world, kept = await team.engine.world(), {each.id: each for each in await team.log.agents.all()}
    profiles = {each.id: each for each in world.registry}
    versions = {each.name: each.version for each in await team.declarations.listed("agent")}
    versions |= {member.id: 0 for member in team.declared.members}  # code wins
    found = {}
    for id in dict.fromkeys([*world.roster.seats, *kept]):
        view = _view(world.roster, profiles.get(id) or Profile(id), kept.get(id) or KeptAgent(id))
        found[id] = _known(team, view, world.roster.seats.get(id), versions.get(id, 0))
    return found


def _known(team: Team, view: AgentView, seat: object, version: int) -> AgentView:
    """The view with what only agents with a model have, and with its origin."""
    origin: Literal["code", "store"] = "store" if version else "code"
    if not isinstance(seat, Seat):
        return replace(view, origin=origin, version=version)
    agent, skills = seat.agent, [getattr(each, "name", str(each)) for each in seat.agent.skills]
    return replace(
        view,
        model=_model_name(agent.model or team.declared.model),
        tools=tuple(seat.tools),
        skills=tuple(skills),
        origin=origin,
        version=version,
    )


def _model_name(model: object) -> str:
    """The name of a model, or of several, each the fallback of the one before."""
    names = model if isinstance(model, list | tuple) else [model]
    return ", else ".join(each for each in names if isinstance(each, str))


def _view(roster: Roster, profile: Profile, kept: KeptAgent) -> AgentView:
    id = kept.id
    seat = roster.seats.get(id)
    kinds = {Function: "function", Person: "person", type(None): "other"}
    return AgentView(
        id=id,
        kind=kinds.get(type(seat), "agent"),
        start=id == roster.start,
        pull=seat is not None and roster.pulls(id),
        enabled=kept.enabled,
        removed=kept.removed,
        profile=kept.profile or profile,
        receivers=() if seat is None or isinstance(seat, Function | Person) else seat.receivers,
    )
