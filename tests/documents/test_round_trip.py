"""A team in code, written as a document and read again, is the same team."""

import asyncio
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from msgspec.structs import asdict

from changeover import Agent, Approval, Function, Member, Person, Team, handoff, tool
from changeover.agent.roster import Roster, Seat
from changeover.documents.team_document import read_team, team_of
from changeover.documents.team_export import TeamExport, export_team
from changeover.documents.team_schema import team_schema
from changeover.documents.tool_modules import ToolModules
from changeover.documents.yaml_value import to_yaml
from changeover.exchange import import_edits
from changeover.guards import Deadlock
from changeover.relay.ports.world import World
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ScriptedModel
from changeover.tools import HttpTool, Skill
from tests.documents import declared_functions as own
from tests.documents.random_teams import AUTOMATION, IDS, MEMBERS, SETTINGS

MODULES = ToolModules([own])
SCHEMA = Draft202012Validator(team_schema())


def seen(roster: Roster) -> dict[str, Any]:
    """What models and engines see of a roster, by member."""
    return {id: (seat.agent, seat.definitions) if isinstance(seat, Seat) else seat for id, seat in roster.seats.items()}


def settled(roster: Roster) -> tuple[Any, ...]:
    """The settings that a roster holds."""
    return roster.start, roster.limits, roster.leads, roster.judges


async def imported(text: str, name: str) -> World:
    """The team of a store that holds this document alone."""
    team = Team(name=name, store=MemoryLog(), tool_modules=[own])
    await team.declarations.write(import_edits(text, "team.yaml", []), by="ana")
    world = await team.engine.world()
    await team.close()
    return world


def exported(team: Team) -> TeamExport:
    return export_team(team.declared.members, asdict(team.declared), MODULES)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(members=MEMBERS, options=SETTINGS)
def test_any_team_survives_being_written_and_read_and_an_import_into_an_empty_store(
    members: tuple[Member, ...], options: dict[str, Any]
):
    export = export_team(members, options, MODULES)
    assert export.left_out == ()
    SCHEMA.validate(export.document)
    text = to_yaml(export.document)
    for found in (
        read_team(text, "team.yaml", MODULES),
        read_team(json.dumps(export.document), "team.json", MODULES),
        team_of(export.document, "the store", MODULES),
    ):
        assert tuple(found.members) == members
        assert found.options == options
    before, again = Team(members, **options), Team(found.members, **found.options)
    assert exported(again) == export
    of_store = asyncio.run(imported(text, options.get("name", "default"))).roster
    for roster in (again.roster, of_store):
        assert list(roster.seats) == list(before.roster.seats)
        assert seen(roster) == seen(before.roster)
        assert settled(roster) == settled(before.roster)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(options=AUTOMATION)
def test_any_workflows_subscriptions_and_schedules_survive_files_and_stores(options: dict[str, Any]):
    members: list[Member] = [*(Agent(id) for id in IDS[:3]), Person(IDS[3]), Function(IDS[4], own.noted, goto=IDS[:2])]
    export = export_team(members, options, MODULES)
    assert export.left_out == ()
    SCHEMA.validate(export.document)
    assert {**read_team(to_yaml(export.document), "team.yaml", MODULES).options, "start": IDS[0]} == {
        "start": IDS[0],
        **{name: each for name, each in options.items() if each},
    }
    found = asyncio.run(imported(to_yaml({**export.document, "model": "offline"}), "default"))
    assert tuple(found.roster.workflows.values()) == options["workflows"]
    assert found.subscriptions == options.get("subscriptions", ())
    assert found.schedules == options.get("schedules", ())


def test_tools_that_share_a_name_stand_in_the_lists_of_their_agents():
    one, other = (HttpTool("get", url=f"https://example.org/{path}") for path in ("a", "b"))
    export = exported(
        Team([Agent("a", tools=[one]), Agent("b", tools=[other]), Agent("c", tools=[one])], model="offline")
    )
    assert export.document["tools"] == {"get": {"type": "http_api", "url": "https://example.org/a"}}
    assert export.document["agents"] == {
        "a": {"tools": ["get"]},
        "b": {"tools": [{"name": "get", "type": "http_api", "url": "https://example.org/b"}]},
        "c": {"tools": ["get"]},
    }


def test_what_only_code_can_express_is_named_with_its_place():
    def own_function(context: object) -> str:
        return ""

    approval = Approval(when=lambda context, arguments: True)
    members: list[Member] = [
        Agent(
            "a",
            model=ScriptedModel({}),
            instructions=own_function,
            tools=[tool(name="send", approval=approval)(own.look), own_function, tool(name="other")(own_function)],
            handoffs=[handoff("f", when=lambda context: True, guards=[Deadlock()])],
            skills=["skills/refunds", Skill("greeting", description="d", instructions="i")],
        ),
        Function("f", own_function),
    ]
    export = export_team(members, {"model": "offline", "guards": [Deadlock()], "hooks": {"*": print}}, MODULES)
    assert [fault.partition(": ")[0] for fault in export.left_out] == [
        "guards",
        "hooks",
        "agents.a.instructions",
        "agents.a.model",
        "agents.a.tools[1]",
        "agents.a.tools[2]",
        "agents.a.handoffs[0].when",
        "agents.a.handoffs[0].guards",
        "agents.a.skills[0]",
        "agents.f",
        "tools.send.approval.when",
    ]
    assert "own_function is Python code that no module listed in tool_modules defines" in export.left_out[2]
    assert export.document == {
        "model": "offline",
        "start": "a",
        "agents": {"a": {"tools": ["send"], "handoffs": [{"to": "f"}], "skills": ["greeting"]}},
        "tools": {"send": {"type": "internal", "function": "tests.documents.declared_functions:look", "approval": {}}},
        "skills": {"greeting": {"description": "d", "instructions": "i"}},
    }
