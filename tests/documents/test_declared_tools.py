"""Tools and skills under names of their own: agents name them, and all faults are reported where they stand."""

import re
from pathlib import Path
from typing import Any

import pytest

from changeover import AUTO, Agent, Team, Variable, delegate, handoff
from changeover.documents.team_document import read_team, team_of
from changeover.documents.tool_modules import ToolModules
from changeover.documents.yaml_value import DocumentError
from changeover.errors import MisconfiguredError
from changeover.relay.ports.declarations import Declaration
from changeover.testing import ScriptedModel, calls, says
from changeover.tools import HttpTool, Skill
from changeover.union import read_rows
from tests.documents import declared_functions as own

MODULES = ToolModules([own])
OWN = own.__name__

SALES = """
model: offline
agents:
  triage: {tools: [handoff_to_sdr, ask_law]}
  sdr: {handoffs: []}
  law: {handoffs: []}
tools:
  handoff_to_sdr:
    type: handoff
    to: sdr
    description: For qualified leads.
    variables:
      - {name: lead_id, description: The lead}
      - {name: campaign, required: false}
    instructions: Add the lead to the campaign.
  ask_law: {type: handoff, to: law, delegate: true}
"""


def agents(document: Any) -> dict[str, Any]:
    return {member.id: member for member in document.members}


def test_a_handoff_among_the_tools_is_a_way_of_the_agents_that_name_it():
    found = agents(read_team(SALES, "t"))
    variables = [Variable("lead_id", description="The lead"), Variable("campaign", required=False)]
    to_sdr = handoff(
        "sdr", description="For qualified leads.", variables=variables, instructions="Add the lead to the campaign."
    )
    assert found["triage"] == Agent("triage", handoffs=[to_sdr, delegate("law", name="ask_law")])


def test_listed_handoffs_are_joined_with_those_among_the_tools_and_auto_is_not():
    text = SALES.replace("tools: [handoff_to_sdr, ask_law]", "tools: [ask_law], handoffs: [{0}]")
    [way, other] = agents(read_team(text.replace("[{0}]", "[sdr]"), "t"))["triage"].handoffs
    assert (way, other.name) == ("sdr", "ask_law")
    with pytest.raises(DocumentError, match="'handoffs: auto' does not go with handoffs among the tools"):
        read_team(text.replace("[{0}]", "auto"), "t")


async def test_a_handoff_tool_of_a_document_hands_over_with_its_variables():
    document = read_team(SALES, "t")
    script = {"triage": [calls(("handoff_to_sdr", {"lead_id": "L-7"}))], "sdr": [says("Added.")]}
    team = Team(document.members, model=ScriptedModel(script))
    result = await team.run("A new lead")
    assert (result.output, result.context["lead_id"]) == ("Added.", "L-7")
    assert result.context["_handoff_instructions"] == "Add the lead to the campaign."


def test_rows_may_name_members_tools_and_skills_of_code_which_win():
    code = [
        Agent(
            "desk",
            tools=[HttpTool("get", url="https://example.org/code"), own.look],
            skills=[Skill("s", description="d", instructions="i")],
        )
    ]
    data = {
        "agents": {"new": {"tools": ["get", "look"], "handoffs": ["desk"], "skills": ["s"]}},
        "tools": {"get": {"type": "http_api", "url": "https://example.org/row"}},
    }
    [new] = team_of(data, "the store", beside=code).members
    assert new == Agent("new", tools=code[0].tools, handoffs=["desk"], skills=code[0].skills)


def test_absent_tools_and_skills_may_be_named_and_are_not_given():
    data = {"agents": {"new": {"tools": ["get", f"{OWN}:look"], "skills": ["s"]}}}
    [new] = team_of(data, "the store", MODULES, absent={"tools": ["get"], "skills": ["s"]}).members
    assert new == Agent("new", tools=[own.look], handoffs=AUTO)


def test_faults_of_data_are_named_by_their_paths():
    data = {
        "start": "nobody",
        "agents": {"new": {"tools": ["get", "unknown", {"name": "x", "type": "http_api"}], "handoffs": [{"to": 5}]}},
        "tools": {"get": {"type": "http_api", "url": "https://example.org", "auth": {"bearer": {"token": "sk-1234"}}}},
        "skills": {"Bad Name": {"description": "d", "instructions": ""}},
    }
    with pytest.raises(DocumentError) as raised:
        team_of(data, "the store")
    places = [re.sub(r"the store, ([^:]+): .*", r"\1", fault) for fault in raised.value.faults]
    assert sorted(places) == sorted(
        [
            "start",
            "agents.new.tools[1]",
            "agents.new.tools[2]",
            "agents.new.handoffs[0].to",
            "tools.get",
            "skills.Bad Name",
            "skills.Bad Name",
        ]
    ), raised.value.faults


@pytest.mark.parametrize(
    ("tool", "fault"),
    [
        ("{url: 'https://x.org'}", "line 3, column 8: expected a tool with a type, and 'type' is missing"),
        ("{type: magic}", "column 15: expected internal or http_api or mcp_server or sql_function or handoff"),
        ("{type: http_api, url: 'https://x', retrys: 3}", "'retrys' is not known here; did you mean 'retries'?"),
        ("{type: http_api, url: 'ftp://x'}", "line 3, column 8: tool 'get' has url='ftp://x'"),
        (
            "{type: http_api, url: 'https://x.org', headers: {Authorization: Bearer sk-abcdefghijklmnop}}",
            "tool 'get' has what looks like a key in its headers 'Authorization'",
        ),
        ("{type: http_api, url: 'https://x.org', auth: {bearer: {token: abc}}}", "tool 'get' has a literal token"),
        ("{type: mcp_server}", "tool 'get' needs command=[…]"),
        ("{type: internal, function: 'os:system'}", "'os' is not among the modules that documents may name"),
        (f"{{type: internal, function: '{OWN}:look', retries: -1}}", "tool 'get' has retries=-1"),
        ("{type: sql_function, database: '${DB}', max_rows: 0}", "expected a whole number above 0, found 0"),
        ("{type: handoff, to: nobody}", "column 28: expected the id of an agent (a), found 'nobody'"),
        ("{type: handoff, to: a, name: other}", "'name' is not known here"),
    ],
)
def test_a_wrong_tool_is_reported_where_it_stands(tool: str, fault: str):
    with pytest.raises(DocumentError) as raised:
        read_team(f"agents: {{a: {{tools: [get]}}}}\ntools:\n  get: {tool}\n", "t", MODULES)
    assert fault in str(raised.value)
    assert len(raised.value.faults) == 1  # the agent that names it is not to blame


def test_a_wrong_key_does_not_hide_the_faults_of_a_tool():
    text = "agents: {a: {}}\ntools:\n  get: {type: http_api, url: 'ftp://x', retrys: 3, auth: {bearer: {token: abc}}}\n"
    with pytest.raises(DocumentError) as raised:
        read_team(text, "t")
    assert [fault.partition(": ")[0] for fault in raised.value.faults] == [
        *["t, line 3, column 8"] * 2,
        "t, line 3, column 41",
    ]
    assert all(words in str(raised.value) for words in ("'retrys'", "url='ftp://x'", "a literal token"))


def test_skills_of_a_file_may_be_folders_and_those_of_rows_may_not():
    text = "agents: {a: {skills: [skills/refunds]}}\n"
    [agent] = read_team(text, "t", folder=Path("/srv/team")).members
    assert agent == Agent("a", skills=["/srv/team/skills/refunds"])
    with pytest.raises(DocumentError, match=r"expected the name of a skill \(there are none\), found 'skills/refunds'"):
        read_team(text, "t")


def test_faults_that_code_would_have_are_reported_with_their_lines():
    get = "{name: get, type: http_api, url: 'https://example.org'}"
    text = f"agents:\n  a: {{handoffs: []}}\n  b: {{tools: [{get}, {get}]}}\n"
    with pytest.raises(DocumentError, match="line 3, column 6: agent 'b' has two tools called 'get'"):
        read_team(text, "t")


def test_tool_modules_of_a_team_are_checked():
    wrong: Any = [own, 5]
    with pytest.raises(MisconfiguredError, match="the team has 5 in tool_modules; give a module, or its name"):
        Team([Agent("a")], model="offline", tool_modules=wrong)
    assert Team([Agent("a")], model="offline", tool_modules=[own, "json"]).declared.tool_modules == (own, "json")


@pytest.mark.parametrize(
    ("variables", "agent"),
    [
        ({"tier": "gold"}, "vip"),
        ({"tier": "platinum", "blocked": False}, "vip"),
        ({"tier": "tin"}, "desk"),
        ({}, "desk"),
    ],
)
async def test_a_rule_as_data_holds_while_variables_have_the_values(variables: dict[str, Any], agent: str):
    rules = "rules: [{if: {tier: [gold, platinum]}, goto: vip}]\n"
    document = read_team(f"agents: {{desk: {{}}, vip: {{}}}}\n{rules}", "t")
    model = ScriptedModel({"desk": [says("Hello.")], "vip": [says("Welcome.")]})
    result = await Team(document.members, model=model, **document.options).run("Hi", context=variables)
    assert result.final_agent == agent


def test_rows_may_name_agents_and_tools_that_are_withdrawn():
    rows = [
        Declaration("agent", "desk", 1, 1, "enabled", {"tools": ["get"], "handoffs": [{"to": "old"}]}),
        Declaration("agent", "old", 2, 2, "removed", {}),
        Declaration("tool", "get", 2, 3, "disabled", {"type": "http_api", "url": "https://example.org"}),
    ]
    [desk] = read_rows(rows, "default", MODULES).members
    assert desk == Agent("desk", handoffs=[handoff("old")])
