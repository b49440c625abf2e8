"""Small worlds for the tests of the core and of engines."""

import asyncio
from collections.abc import Sequence
from typing import Any

from changeover import Agent, Limits, Team
from changeover.agent.agent import Member
from changeover.agent.roster import Roster, seat
from changeover.engines.local.dispatcher import Dispatcher
from changeover.engines.local.engine import LocalEngine
from changeover.relay.ports.engine import EngineSetup
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Model, World
from changeover.testing import ManualClock, ScriptedModel
from changeover.toolkits.toolkit import AgentToolkit


def a_world(members: Sequence[Member], model: Model, limits: Limits | None = None) -> World:
    """What effects act upon, without a team around it."""
    Team(members, model=model)  # says so if these members cannot work together
    by_id = {member.id: member for member in members}
    toolkits = {member.id: AgentToolkit(member.tools) for member in members if isinstance(member, Agent)}
    seats = {
        id: seat(member, by_id, toolkits[id].tools(), True) if isinstance(member, Agent) else member
        for id, member in by_id.items()
    }
    roster = Roster(seats, members[0].id, limits or Limits())
    return World(roster, dict.fromkeys(toolkits, model), toolkits, ManualClock(auto=True))


def a_roster(members: Sequence[Member], limits: Limits | None = None) -> Roster:
    """Everything that decisions read of these members."""
    return a_world(members, ScriptedModel({}), limits).roster


def an_engine(log: Log, world: World) -> LocalEngine:
    """An engine without a team around it."""
    return LocalEngine(EngineSetup(lambda: log, world))


def dispatcher_of(team: Team) -> Dispatcher:
    """The dispatcher of a team that lives on the current loop."""
    assert isinstance(team.engine, LocalEngine)
    return team.engine._here()


def tasks_of(team: Team) -> list[asyncio.Task[Any]]:
    """All that a team does at the moment."""
    assert isinstance(team.engine, LocalEngine)
    return list(team.engine._dispatcher.tasks) if team.engine._dispatcher else []
