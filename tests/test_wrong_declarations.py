"""Wrong declarations: each raises one MisconfiguredError, which says who, what and what is possible.

An option that does not exist is Python's own TypeError, as of any function.
"""

from collections.abc import Callable
from typing import Any

import pytest

from changeover import Agent, Function, Limits, Recent, Team, Variable, Worker, delegate, handoff, specialist, tool
from changeover.errors import MisconfiguredError
from changeover.guards import Deadlock, Rule
from changeover.models import LimitedModel
from changeover.routing import Experiment
from changeover.testing import ScriptedModel
from changeover.tools import Bearer, HttpTool, McpServer, SqlFunction
from tests.public_api import only_error

WRONG: Any = 5
"""For a type checker it may be anything."""


def team_of(members: Any, **options: Any) -> Any:
    return Team(members, **{"model": ScriptedModel({}), **options})


def team(*members: Any, **options: Any) -> Any:
    return team_of(members or [Agent("a"), Agent("b")], **options)


def agent(**options: Any) -> Any:
    return team(Agent("a", **options), Agent("b"))


def with_handoff(**options: Any) -> Any:
    return agent(handoffs=[handoff("b", **options)])


def with_tool(**options: Any) -> Any:
    return agent(tools=[tool(**options)(refund)])


def refund(order: int) -> str:
    """Send money back."""
    return f"{order} sent back"


async def awaited(ctx: Any) -> bool:
    return True


def nothing_given() -> str:
    return "Done."


def any_of(value: Any) -> Any:
    """A value of a type that a type checker would refuse here."""
    return value


DECLARATIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "a team of nobody": (lambda: team_of([]), "the team has no agents; give at least one: Team([Agent('triage', …)])"),
    "an agent instead of a list": (
        lambda: team_of(Agent("a")),
        "a team is made of a list of agents, not of Agent: Team([Agent('triage', …)])",
    ),
    "an id instead of a member": (lambda: team("a"), "'a' cannot be a member; give Agent(…), Function(…) or Person(…)"),
    "two agents with one id": (
        lambda: team(Agent("a"), Agent("a")),
        "2 agents are called 'a'; give each an id of its own",
    ),
    "an id with a space": (
        lambda: team(Agent("a b")),
        "agent 'a b' has an invalid id; use letters, digits, '-' and '_', at most 64",
    ),
    "an id that is a number": (
        lambda: team(Agent(WRONG)),
        "agent 5 has an invalid id; use letters, digits, '-' and '_', at most 64",
    ),
    "a start that is not in the team": (lambda: team(start="c"), "start='c' is not in the team; choose one of a, b"),
    "a name of a team with a space": (
        lambda: team(name="a b"),
        "the team has the name 'a b'; use letters, digits, '-' and '_', at most 64",
    ),
    "no model": (
        lambda: team(model=None),
        (
            "- agent 'a' has no model; give it one with Agent(model=…), or all of them with Team(model=…)\n- "
            "agent 'b' has no model; give it one with Agent(model=…), or all of them with Team(model=…)"
        ),
    ),
    "a model without a provider": (
        lambda: team(model="gpt-5"),
        "agents 'a', 'b' have model='gpt-5', which names no known provider; did you mean 'openai-chat:gpt-5'?",
    ),
    "a model of an unknown provider": (
        lambda: team(model="nobody:gpt-5"),
        ("agents 'a', 'b' have model='nobody:gpt-5', which names no known provider; did you mean 'openai-chat:gpt-5'?"),
    ),
    "a model that is a number": (
        lambda: team(model=5),
        ("agents 'a', 'b' have a model of type int; give the name of a model, or an object with reply() and stream()"),
    ),
    "a handoff to nobody": (
        lambda: agent(handoffs=["c"]),
        "agent 'a' hands off to 'c', which is not in the team; choose one of a, b",
    ),
    "an id instead of a list of handoffs": (
        lambda: agent(handoffs="b"),
        "agent 'a' has handoffs='b'; give AUTO, or a list of ids, handoff(…)s and delegate(…)s",
    ),
    "an agent instead of its id in a list": (
        lambda: agent(handoffs=[Agent("b")]),
        "agent 'a' hands off to Agent('b', …) itself; name it by its id, 'b'",
    ),
    "an agent instead of its id in a handoff": (
        lambda: agent(handoffs=[handoff(any_of(Agent("b")))]),
        "agent 'a' hands off to Agent('b', …) itself; name it by its id, 'b'",
    ),
    "two handoffs with one name": (
        lambda: agent(handoffs=[handoff("b"), handoff("b")]),
        (
            "agent 'a' has two tools called 'handoff_to_b' (the handoff to b and the handoff to b); give one of "
            "them another name="
        ),
    ),
    "a specialist among nobody": (
        lambda: agent(handoffs=[specialist(among=["c"])]),
        "agent 'a' 'handoff_to_specialist' chooses among 'c', which is not in the team; choose one of a, b",
    ),
    "an alternative that is not in the team": (
        lambda: with_handoff(alternatives=["c"]),
        ("agent 'a' handoff 'handoff_to_b' has the alternative 'c', which is not in the team; choose one of a, b"),
    ),
    "a return to nobody": (
        lambda: with_handoff(return_to="c"),
        "agent 'a' handoff 'handoff_to_b' returns to 'c', which is not in the team; choose one of a, b",
    ),
    "a way to merge that does not exist": (
        lambda: with_handoff(merge="add"),
        "agent 'a' handoff 'handoff_to_b' has merge='add'; use 'merge' or 'replace'",
    ),
    "a handoff without time": (
        lambda: with_handoff(timeout=0),
        "agent 'a' handoff 'handoff_to_b' has timeout=0; give seconds above 0, or None for no limit",
    ),
    "a condition that has to be awaited": (
        lambda: with_handoff(when=awaited),
        (
            "agent 'a' handoff 'handoff_to_b' has when=awaited, which has to be awaited; give a plain function "
            "of the run's context"
        ),
    ),
    "a variable of an unknown type": (
        lambda: with_handoff(variables=[Variable("order", type=WRONG)]),
        (
            "agent 'a' handoff 'handoff_to_b' has a variable of type 5; use one of string, integer, number, "
            "boolean, array, object"
        ),
    ),
    "a name instead of a variable": (
        lambda: with_handoff(variables=["order"]),
        "agent 'a' handoff 'handoff_to_b' has the variable 'order'; give Variable(…)s or a pydantic model",
    ),
    "a reserved name of a variable": (
        lambda: with_handoff(variables=[Variable("_handoff_from")]),
        (
            "agent 'a' handoff 'handoff_to_b' has a variable called '_handoff_from'; names that begin with an "
            "underscore are reserved"
        ),
    ),
    "a delegate without turns": (
        lambda: agent(handoffs=[delegate("b", max_iterations=0)]),
        "agent 'a' delegate 'delegate_to_b' has max_iterations=0; give 1 or more",
    ),
    "an expectation that is no schema": (
        lambda: agent(handoffs=[delegate("b", expects={"type": "text"})]),
        (
            "agent 'a' delegate 'delegate_to_b' expects a JSON schema that is not valid: type: 'text' is not "
            "valid under any of the given schemas"
        ),
    ),
    "a tool by its name": (
        lambda: agent(tools=["refund"]),
        "agent 'a': tool 'refund' cannot be called; declare a function",
    ),
    "two tools with one name": (
        lambda: agent(tools=[refund, refund]),
        "agent 'a' has two tools called 'refund' (a function and a function); give one of them another name=",
    ),
    "a tool with the name of the generic handoff": (
        lambda: agent(tools=[tool(name="handoff")(refund)]),
        (
            "agent 'a' has two tools called 'handoff' (a function and the generic handoff); give one of them "
            "another name="
        ),
    ),
    "a lambda as a tool": (
        lambda: agent(tools=[lambda order: order]),
        (
            "agent 'a' has a tool called '<lambda>', which providers refuse; use letters, digits, '_' and '-', "
            "at most 64"
        ),
    ),
    "a name of a tool that providers refuse": (
        lambda: with_tool(name="send back"),
        (
            "agent 'a' has a tool called 'send back', which providers refuse; use letters, digits, '_' and '-', "
            "at most 64"
        ),
    ),
    "a tool with less than no time": (
        lambda: with_tool(timeout=-1),
        "agent 'a': tool 'refund' has timeout=-1; use a number of seconds above 0, or None for no limit",
    ),
    "an approval that is a text": (
        lambda: with_tool(approval="yes"),
        "agent 'a': tool 'refund' has approval='yes'; give True, a function or Approval(…)",
    ),
    "instructions that are a number": (
        lambda: agent(instructions=5),
        "agent 'a' has instructions=5; give a text, or a function of the run's context",
    ),
    "capabilities that are one text": (
        lambda: agent(capabilities="law"),
        "agent 'a' has capabilities='law'; give a list of texts",
    ),
    "a requirement that is a name": (
        lambda: agent(requires=["order"]),
        "agent 'a' has requires=('order',); give a list of Variable(…)s",
    ),
    "a check that is a number": (
        lambda: agent(checks=[5]),
        "agent 'a' has the check 5; give a function of the content",
    ),
    "a skill in a folder that does not exist": (
        lambda: agent(skills=["nowhere/refunds"]),
        "agent 'a': skill 'nowhere/refunds': its SKILL.md cannot be read: No such file or directory",
    ),
    "an MCP server without an address": (
        lambda: agent(tools=[McpServer("crm")]),
        (
            "agent 'a': MCP server 'crm' needs command=[…], the program and its arguments, or url=, the address "
            "of the server"
        ),
    ),
    "an HTTP tool with another scheme": (
        lambda: agent(tools=[HttpTool("crm", url="ftp://example.org")]),
        "agent 'a': tool 'crm' has url='ftp://example.org'; give one that begins with https:// or http://",
    ),
    "a token in the code": (
        lambda: agent(tools=[HttpTool("crm", url="https://example.org/", auth=Bearer("s3cret"))]),
        ("agent 'a': tool 'crm' has a literal token; name an environment variable that holds it, such as ${TOKEN}"),
    ),
    "an SQL function without a database": (
        lambda: agent(tools=[SqlFunction("total")]),
        (
            "agent 'a': tool 'total' needs database=, a reference such as '${DATABASE_URL}', or rest=, the "
            "address of a PostgREST server"
        ),
    ),
    "commands that lead to a stranger": (
        lambda: team(Function("a", any_of(refund), goto=["b"])),
        "agent 'a' goes to 'b', which is not in the team; choose one of a",
    ),
    "commands that lead to a text": (
        lambda: team(Function("a", any_of(refund), goto="a")),
        "agent 'a' has goto='a'; give a list of ids",
    ),
    "a function that is a text": (lambda: team(Function("a", WRONG)), "agent 'a' needs a function, not int"),
    "a function without a parameter": (
        lambda: team(Function("a", any_of(nothing_given))),
        (
            "agent 'a' has fn=nothing_given, but it is called with 1 argument (context), and it takes () -> str: "
            "too many positional arguments"
        ),
    ),
    "a strategy by its name": (
        lambda: team(strategy="full"),
        (
            "the team has strategy='full'; give Full(), MessageOnly(), Recent(), Summary(), Reference(), or a "
            "function of a Handover"
        ),
    ),
    "a strategy of no messages": (
        lambda: team(strategy=Recent(0)),
        "the team has strategy recent: messages=0 must be a whole number, 1 or more",
    ),
    "limits that are a number": (
        lambda: team(limits=5),
        "limits=5 is not a Limits(…); give one, such as Limits(max_turns=20)",
    ),
    "fewer than no turns": (lambda: team(limits=Limits(max_turns=-1)), "max_turns is -1; give 1 or more"),
    "a guard that is a number": (
        lambda: team(guards=[5]),
        "the team has the guard 5, which has no check(offer, ledger, facts)",
    ),
    "a guard that is a class": (
        lambda: team(guards=[Deadlock]),
        (
            "the team has the guard <class 'changeover.guards.deadlock.Deadlock'>, which is a class; give an "
            "object of it, Deadlock()"
        ),
    ),
    "a rule that leads to nobody": (
        lambda: team(rules=[Rule("vip", if_=lambda ctx: True, goto="c")]),
        "rule 'vip' goes to 'c', which is not in the team; choose one of a, b",
    ),
    "a rule without an effect": (
        lambda: team(rules=[Rule("vip", if_=lambda ctx: True)]),
        "rule 'vip' has no effect; give goto=, end=, deny= or approval=",
    ),
    "a rule whose condition is a text": (
        lambda: team(rules=[Rule("vip", if_=WRONG, goto="b")]),
        "rule 'vip' has if_=5; give a plain function of the run's context",
    ),
    "a hook that is a number": (lambda: team(hooks={"handoff_offered": 5}), "hook 'handoff_offered' is not a function"),
    "a store of another kind": (
        lambda: team(store="mysql://host"),
        "'mysql://host' is no store; there are: sqlite:///file.db, postgresql://user@host/database",
    ),
    "a store that is a number": (
        lambda: team(store=5),
        "store=5 is no store; give an address, such as 'sqlite:///desk.db', or a Store(…)",
    ),
    "a routing that is a number": (lambda: team(routing=5), "routing=5 is not a Routing(…)"),
    "an experiment with one variant": (
        lambda: team(experiments=[Experiment("size", variants={"a": 1}, on="model")]),
        "experiment 'size' has variants={'a': 1}; give two or more, by name",
    ),
    "fewer than no retries of a model": (
        lambda: team(model_retries=-1),
        "the team has model_retries=-1; give a whole number, 0 or more",
    ),
    "a person to ask that is a number": (lambda: team(ask=5), "Team(ask=5) is no function"),
    "a clock that is a number": (
        lambda: team(clock=5),
        "clock=5 is no clock; it must have now(), sleep_until() and alarm(), as ManualClock() has",
    ),
    "a limit of no requests": (
        lambda: LimitedModel("offline", at_once=0),
        "LimitedModel(at_once=0) cannot work; give 1 or more",
    ),
    "a worker of nobody": (lambda: Worker(team(), ["c"]), "no agent is called 'c'; this team has: a, b"),
    "a worker of one text": (
        lambda: Worker(team(), "a"),
        "agents='a' must name the agents to serve, for example ['billing']",
    ),
    "a worker that does nothing at once": (
        lambda: Worker(team(), ["a"], concurrency=0),
        "concurrency=0 must be a whole number, 1 or more",
    ),
    "a worker without a team": (lambda: Worker(WRONG, ["a"]), "team=5 is not a Team(…)"),
}
OPTIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "of a team": (lambda: team(modle="offline"), "Team.__init__() got an unexpected keyword argument 'modle'"),
    "of an agent": (lambda: agent(tool=[refund]), "Agent.__init__() got an unexpected keyword argument 'tool'"),
    "of a handoff": (lambda: with_handoff(desc="Payments"), "handoff() got an unexpected keyword argument 'desc'"),
    "of a tool": (lambda: with_tool(aproval=True), "tool() got an unexpected keyword argument 'aproval'"),
    "of a run": (
        lambda: team().run_sync("Hello", agnt="a"),
        (
            "a run has no option agnt; it has: agent, conversation, context, limits, user, correlation_id, key, "
            "files, strategy, model"
        ),
    ),
    "of a stream": (
        lambda: team().stream("Hello", agnt="a"),
        (
            "a run has no option agnt; it has: agent, conversation, context, limits, user, correlation_id, key, "
            "files, strategy, model"
        ),
    ),
}


@pytest.mark.parametrize("wrong", DECLARATIONS)
async def test_a_wrong_declaration_is_reported_when_it_is_made(wrong: str):
    use, text = DECLARATIONS[wrong]
    error = await only_error(use)
    assert (type(error), str(error)) == (MisconfiguredError, text)


@pytest.mark.parametrize("wrong", OPTIONS)
async def test_an_unknown_option_is_reported_by_its_name(wrong: str):
    use, text = OPTIONS[wrong]
    error = await only_error(use)
    assert (type(error), str(error).partition(". Did you mean")[0]) == (TypeError, text)
