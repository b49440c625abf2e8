"""A document in YAML or JSON gives the declarations that code would give."""

import json
import re
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from changeover import (
    AUTO,
    Agent,
    Approval,
    Function,
    Limits,
    MessageOnly,
    Person,
    Recent,
    Reference,
    Summary,
    Variable,
    delegate,
    handoff,
)
from changeover.agent.handoff import Delegate, Handoff
from changeover.documents.team_document import TeamDocument, read_team
from changeover.documents.tool_modules import ToolModules
from changeover.documents.yaml_value import DocumentError
from changeover.toolkits.toolkit import AgentToolkit

TEAM = """
model: offline
start: triage
store: sqlite:///kept.db
limits: {max_handoffs: 3, on_limit: tell}
agents:
  - id: triage
    name: Triage
    instructions: |
      Find out what is needed.
    handoffs:
      - notes
      - to: billing
        name: bill
        description: Payments.
        approval: {expires: 60, on_expiry: approve}
        variables:
          - order_id
          - {name: amount, type: number, required: false, description: In EUR}
      - {to: expert, delegate: true, final: true, max_iterations: 3, on_failure: rollback, variables: [case]}
  - {id: billing, model: [offline, offline], tools: ["yamltools:look", yamltools.look_again], handoffs: auto}
  - {id: expert, capabilities: [law], examples: ["Is it legal?"], handoffs: []}
  - {id: notes, function: "yamltools:note"}
"""


def look(order: str) -> str:
    """Look."""
    return order


def look_again() -> str:
    """Look again."""
    return ""


def note(ctx: object) -> str:
    return "noted"


yamltools = ModuleType("yamltools")
yamltools.__dict__.update(look=look, look_again=look_again, note=note)


def imported(module: str, name: str) -> Any:
    try:
        return getattr(yamltools if module == "yamltools" else import_module(module), name)
    except AttributeError as error:
        raise ImportError(f"there is no {name}") from error


PEOPLE = """
model: offline
agents:
  - id: triage
    handoffs:
      - {to: billing, alternatives: [accounts, ana], timeout: 2.5}
      - {to: accounts, delegate: true, alternatives: [ana], timeout: null}
  - id: billing
    requires: [order_id, {name: amount, type: number}]
    max_concurrency: 2
    accepts: yamltools:look
    handoffs: []
  - {id: accounts, accepts_handoffs: false, pull: true, handoffs: []}
  - {id: ana, person: true, name: Ana, description: Our lawyer}
"""


STRATEGIES = """
model: offline
helper_model: offline
strategy: {recent: {messages: 3}}
briefing: "Do: {your_task}"
agents:
  - id: triage
    handoffs:
      - {to: billing, strategy: {summary: {needs: [prices], max_tokens: 200, exclude: ["tool:look"]}}}
      - {to: expert, delegate: true, strategy: reference}
  - {id: billing, strategy: message_only, briefing: "{story}", handoffs: []}
  - {id: expert, strategy: "yamltools:note", handoffs: []}
"""


def read(text: str) -> TeamDocument:
    return read_team(text, "team.yaml", imported)


def members(document: TeamDocument) -> dict[str, object]:
    return {member.id: member for member in document.members}


def test_a_document_gives_the_declarations_that_code_would():
    document = read(TEAM)
    variables = [Variable("order_id"), Variable("amount", "number", False, "In EUR")]
    approval = Approval(expires=60.0, on_expiry="approve")
    ways: list[str | Handoff | Delegate] = [
        "notes",
        handoff("billing", name="bill", description="Payments.", variables=variables, approval=approval),
        delegate("expert", final=True, max_iterations=3, on_failure="rollback", variables=[Variable("case")]),
    ]
    assert members(document) == {
        "triage": Agent("triage", name="Triage", instructions="Find out what is needed.\n", handoffs=ways),
        "billing": Agent("billing", model=["offline", "offline"], tools=[look, look_again], handoffs=AUTO),
        "expert": Agent("expert", capabilities=["law"], examples=["Is it legal?"], handoffs=[]),
        "notes": Function("notes", note),
    }
    assert document.options == {
        "model": "offline",
        "start": "triage",
        "store": "sqlite:///kept.db",
        "limits": Limits(max_handoffs=3, on_limit="tell"),
    }


def test_people_alternatives_and_conditions_are_read():
    found = members(read(PEOPLE))
    ways: list[str | Handoff | Delegate] = [
        handoff("billing", alternatives=["accounts", "ana"], timeout=2.5),
        delegate("accounts", alternatives=["ana"], timeout=None),
    ]
    assert found == {
        "triage": Agent("triage", handoffs=ways),
        "billing": Agent(
            "billing",
            requires=[Variable("order_id"), Variable("amount", "number")],
            max_concurrency=2,
            accepts=look,
            handoffs=[],
        ),
        "accounts": Agent("accounts", accepts_handoffs=False, pull=True, handoffs=[]),
        "ana": Person("ana", name="Ana", description="Our lawyer"),
    }


def test_strategies_and_briefings_are_read():
    document = read(STRATEGIES)
    summary = Summary(needs=("prices",), max_tokens=200, exclude=("tool:look",))
    ways: list[str | Handoff | Delegate] = [
        handoff("billing", strategy=summary),
        delegate("expert", strategy=Reference()),
    ]
    assert members(document) == {
        "triage": Agent("triage", handoffs=ways),
        "billing": Agent("billing", strategy=MessageOnly(), briefing="{story}", handoffs=[]),
        "expert": Agent("expert", strategy=note, handoffs=[]),
    }
    assert document.options == {
        "model": "offline",
        "helper_model": "offline",
        "strategy": Recent(3),
        "briefing": "Do: {your_task}",
    }


def test_agents_may_share_keys_by_a_merge():
    text = "agents:\n - &one {id: a, model: offline, description: first, handoffs: []}\n - {<<: *one, id: b}\n"
    first, second = read(text).members
    assert (first, second) == (
        Agent("a", model="offline", description="first", handoffs=[]),
        Agent("b", model="offline", description="first", handoffs=[]),
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty; expected a mapping with agents"),
        ("- a\n", "line 1, column 1: expected a mapping with agents, found a list"),
        ("model: offline\n", "line 1, column 1: expected a mapping with agents, and 'agents' is missing"),
        ("agents: []\n", "line 1, column 9: expected at least one agent, found none"),
        ("agents:\n - name: x\n", "line 2, column 4: expected an agent with an id, and 'id' is missing"),
        ("agents:\n - id: no\n", "line 2, column 8: expected text; put it in quotes if it looks like something else"),
        ("agents:\n - {id: a}\nlimits: {max_turns: many}\n", "line 3, column 21: expected a whole number; found text"),
        ("agents:\n - {id: a}\nstart: b\n", "line 3, column 8: expected the id of an agent (a), found 'b'"),
        ("agents:\n - id: a\n   id: b\n", "line 3, column 4: 'id' is given twice"),
        ("agents:\n - {id: a, handoffs: [{to: a, final: true}]}\n", "'final' is not known here"),
        ("agents:\n - {id: a, tools: [look]}\n", "expected an import path, such as package.module:function"),
        (
            "agents:\n - {id: a, function: 'os:getcwd', tools: []}\n",
            "a member with a function takes id, name, description and goto",
        ),
        ("agents:\n - {id: a, goto: [a]}\n", "line 2, column 4: only a member with a function has 'goto'"),
        (
            "agents:\n - {id: a, person: yes, handoffs: []}\n",
            "a person takes id, name and description, not 'handoffs'",
        ),
        (
            "agents:\n - {id: a, person: true, function: 'os:getcwd'}\n",
            "line 2, column 4: a member is a person or has a",
        ),
        ("agents:\n - {id: a, person: 1}\n", "line 2, column 20: expected true or false; found a whole number"),
        ("agents:\n - {id: a, accepts_handoffs: never}\n", "line 2, column 30: expected true or false; found text"),
        ("agents:\n - {id: a, max_concurrency: 0}\n", "line 2, column 29: expected a whole number above 0, found 0"),
        ("agents:\n - {id: a, requires: order}\n", "line 2, column 22: expected a list of variables, found text"),
        ("agents:\n - {id: a, accepts: 'os:sep'}\n", "line 2, column 21: expected a function, and os:sep is of type s"),
        ("agents:\n - {id: a, accepts: 'os:nix'}\n", "line 2, column 21: os:nix cannot be imported"),
        (
            "agents:\n - id: a\n   handoffs:\n    - {to: a, alternatives: [b]}\n",
            "line 4, column 30: expected the id of an agent (a), found 'b'",
        ),
        ("agents:\n - {id: a, handoffs: [{to: a, timeout: soon}]}\n", "column 40: expected a number of seconds, found"),
        (
            "agents:\n - {id: a, handoffs: [{to: a, timeout: 0}]}\n",
            "column 40: expected seconds above 0, or null for no",
        ),
        ("agents:\n - {id: a, handoffs: [{to: a, timeout: .inf}]}\n", "expected seconds above 0, or null for no limit"),
        ("agents:\n - {id: a, strategy: most}\n", "column 22: expected full, message_only, recent, summary, reference"),
        ("agents:\n - {id: a, strategy: {recent: {messages: 0}}}\n", "messages=0 must be a whole number, 1 or more"),
        ("agents:\n - {id: a, strategy: {recent: {}, full: {}}}\n", "expected one of full, message_only"),
        ("agents:\n - {id: a, strategy: {summary: {need: [x]}}}\n", "'need' is not known here"),
        ("agents:\n - {id: a, strategy: {recent: 2}}\n", "column 31: expected options of recent, found a whole"),
        ("a: b: c\n", "line 1, column 5: mapping values are not allowed here"),
        ("agents:\n - {id: a, name: !secret x}\n", "line 2, column 18: could not determine a constructor for the tag"),
        ("agents:\n - {id: a, name: 2026-02-30}\n", "line 2, column 18: the value cannot be read: day is out of range"),
        ("agents:\n - {id: a, settings: {[x]: 1}}\n", "column 23: while constructing a mapping found unhashable"),
        ("agents:\n - {id: a, settings: &own {x: *own}}\n", "line 2, column 22: found unconstructable recursive node"),
        ("agents:\n - {id: a, <<: 3}\n", "line 2, column 16: while constructing a mapping expected a mapping"),
        (f"agents: {'[' * 3000}{']' * 3000}\n", "is nested too deeply"),
        ("agents: [{id: a, name: \0}]\n", "is not valid YAML: unacceptable character #x0000"),
    ],
)
def test_an_error_names_the_source_the_line_and_the_column(text: str, fault: str):
    with pytest.raises(DocumentError) as raised:
        read(text)
    error = raised.value
    assert fault in str(error)
    assert str(error).startswith("team.yaml")
    assert error.source == "team.yaml"
    if error.line is not None:
        assert f"line {error.line}, column {error.column}" in str(error)


def test_json_is_read_in_the_same_way():
    text = json.dumps({"agents": [{"id": "a", "handoffs": [{"to": "b"}]}, {"id": "b", "handoffs": []}]}, indent=2)
    assert read(text).members == [Agent("a", handoffs=[handoff("b")]), Agent("b", handoffs=[])]


PLAIN = """
import os
from os import getcwd
from changeover import tool

@tool(name="other")
def marked(): ...

def look(): ...

def _hidden(): ...
"""


@pytest.fixture
def modules() -> ToolModules:
    plain = ModuleType("plain_tools")
    exec(PLAIN, plain.__dict__)
    return ToolModules([plain, "json"])


def test_a_document_names_functions_of_listed_modules_only(modules: ToolModules):
    [agent] = read_team("agents:\n - {id: a, tools: [plain_tools:look, plain_tools.marked]}\n", "t", modules).members
    assert isinstance(agent, Agent)
    assert [tool.definition.name for tool in AgentToolkit(agent.tools).tools()] == ["look", "other"]


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("os:system", "'os' is not among the modules that documents may name (plain_tools, json)"),
        ("plain_tools:os", "plain_tools defines no function 'os'; it has: look, marked"),
        ("plain_tools:getcwd", "plain_tools defines no function 'getcwd'"),
        ("plain_tools:_hidden", "plain_tools defines no function '_hidden'"),
        ("plain_tools:nothing", "plain_tools defines no function 'nothing'"),
        ("json:JSONDecoder", "json defines no function 'JSONDecoder'"),
        ("os.path:join", "'os.path' is not among the modules"),
    ],
)
@pytest.mark.parametrize("place", ["tools: [{0}]", "function: {0}", "accepts: {0}", "strategy: {0}"])
def test_a_document_cannot_name_other_code(modules: ToolModules, place: str, path: str, fault: str):
    entry = place.format(f'"{path}"')
    with pytest.raises(DocumentError, match=re.escape(fault)):
        read_team(f"agents:\n - {{id: a, {entry}}}\n", "t", modules)


def test_without_an_importer_a_document_loads_no_python_code():
    with pytest.raises(DocumentError, match="os:getcwd cannot be imported: this document may not name Python objects"):
        read_team("agents:\n - {id: a, function: 'os:getcwd'}\n", "upload")


def test_all_faults_of_a_document_are_reported_at_once_in_the_order_of_their_lines():
    text = (
        "stor: x\n"
        "agents:\n"
        "  - {id: a, pull: 7, handofs: [], handoffs: [nobody, b, noone]}\n"
        "  - {id: b, requires: [5, {name: n, typ: text}]}\n"
        "  - {name: c}\n"
    )
    with pytest.raises(DocumentError) as raised:
        read(text)
    places = [re.sub(r".*, line (\d+), column (\d+): .*", r"\1:\2", fault) for fault in raised.value.faults]
    assert places == ["1:1", "3:19", "3:22", "3:46", "3:57", "4:24", "4:37", "5:5"]
    assert raised.value.line == 1
    assert all(fault in str(raised.value) for fault in raised.value.faults)
