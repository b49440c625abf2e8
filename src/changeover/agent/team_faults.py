"""Checks of a team's declarations before it runs: every fault at once, each with its remedy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from math import inf
from typing import get_args

from changeover.agent.agent import AUTO, Agent, Function, Member, Person
from changeover.agent.handoff import Delegate, Handoff, OnEnd
from changeover.agent.moves import EVERY_DELEGATE, GENERIC_TOOL
from changeover.agent.specialist import Specialist
from changeover.guards.approval import approval_faults
from changeover.guards.checks import check_faults
from changeover.guards.guard import guard_faults
from changeover.handoffs.briefing import briefing_faults
from changeover.handoffs.callback import arity_faults, condition_faults
from changeover.handoffs.strategies import FETCH, strategy_faults
from changeover.ids import SLUG
from changeover.tools.http_tool import HttpTool
from changeover.tools.skill import LOAD_SKILL, READ_SKILL_FILE
from changeover.tools.sql_function import SqlFunction
from changeover.tools.tool import Tool, as_tool
from changeover.tools.variable import Variable, Variables, compile_variables, variable_faults

TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""The form of a function's name that every provider accepts."""

TEXTS = ("name", "description", "specialization")
LISTS = ("capabilities", "examples")
"""Options of members that hold a text, and a list of texts."""


def team_faults(members: object, start: str | None, handoffs: bool = True) -> list[str]:
    """The faults of these members, one text each; `handoffs` is False if none can be made at all."""
    if not isinstance(members, Sequence) or isinstance(members, str):
        return [f"a team is made of a list of agents, not of {type(members).__name__}: Team([Agent('triage', …)])"]
    if not members:
        return ["the team has no agents; give at least one: Team([Agent('triage', …)])"]
    known = [member for member in members if isinstance(member, Agent | Function | Person)]
    ids = [member.id for member in known if isinstance(member.id, str)]
    others = [each for each in members if each not in known]
    found = [f"{each!r} cannot be a member; give Agent(…), Function(…) or Person(…)" for each in others]
    found += [f"{n} agents are called {id!r}; give each an id of its own" for id, n in Counter(ids).items() if n > 1]
    if isinstance(start, Agent | Function | Person):
        found.append(f"start is {_unknown(start, ids)}")
    elif start is not None and start not in ids:
        found.append(f"start={start!r} is not in the team; choose one of {_listed(ids)}")
    for member in known:
        found += [f"agent {member.id!r} {fault}" for fault in member_faults(member, ids, handoffs)]
    return found


def member_faults(member: Member, ids: Sequence[str], handoffs: bool) -> Iterator[str]:
    """The faults of one member of a team with these ids, one text each."""
    if not isinstance(member.id, str) or not SLUG.fullmatch(member.id):
        yield "has an invalid id; use letters, digits, '-' and '_', at most 64"
    if isinstance(member, Function) and not callable(member.fn):
        yield f"needs a function, not {type(member.fn).__name__}"
    if isinstance(member, Function):
        yield from arity_faults("fn", member.fn, "context")
        yield from _goto_faults(member, ids)
    yield from _text_faults(member)
    if not isinstance(member, Agent):
        return
    yield from strategy_faults(member.strategy)
    yield from briefing_faults(member.briefing)
    yield from _answer_faults(member)
    if not isinstance(member.tools, Sequence):
        yield f"has tools={member.tools!r}; give a list of tools"
    yield from _handoff_faults(member, ids)
    yield from _name_faults(member, handoffs and len(ids) > 1)


def _goto_faults(member: Function, ids: Sequence[str]) -> Iterator[str]:
    if not isinstance(member.goto, Sequence) or isinstance(member.goto, str):
        yield f"has goto={member.goto!r}; give a list of ids"
        return
    yield from (f"goes to {_unknown(other, ids)}" for other in member.goto if other not in ids)


def _text_faults(member: Member) -> Iterator[str]:
    for option in TEXTS:
        if not isinstance(value := getattr(member, option, ""), str):
            yield f"has {option}={value!r}; give a text"
    for option in LISTS:
        value = getattr(member, option, ())
        # A str is a sequence too: each of its letters would be taken for a capability.
        if (
            isinstance(value, str)
            or not isinstance(value, Collection)
            or not all(isinstance(each, str) for each in value)
        ):
            yield f"has {option}={value!r}; give a list of texts"
    instructions = getattr(member, "instructions", "")
    if not isinstance(instructions, str) and not callable(instructions):
        yield f"has instructions={instructions!r}; give a text, or a function of the run's context"
    yield from arity_faults("instructions", instructions, "context")


def _answer_faults(agent: Agent) -> Iterator[str]:
    if agent.accepts is not None and not callable(agent.accepts):
        yield f"has accepts={agent.accepts!r}; give a function of the package that is offered"
    yield from arity_faults("accepts", agent.accepts, "package")
    yield from check_faults(agent.checks)
    if not isinstance(agent.requires, Sequence) or not all(isinstance(each, Variable) for each in agent.requires):
        yield f"has requires={agent.requires!r}; give a list of Variable(…)s"
    else:
        yield from variable_faults(agent.requires)
    if agent.max_concurrency is not None and (not isinstance(agent.max_concurrency, int) or agent.max_concurrency < 1):
        yield f"has max_concurrency={agent.max_concurrency!r}; give 1 or more, or None for no limit"


def _handoff_faults(agent: Agent, ids: Sequence[str]) -> Iterator[str]:
    ways = listed_ways(agent)
    if ways is None:
        if agent.handoffs is not AUTO:
            yield f"has handoffs={agent.handoffs!r}; give AUTO, or a list of ids, handoff(…)s and delegate(…)s"
        return
    for way in ways:
        if isinstance(way, Specialist):
            yield from (f"{way.name!r} {fault}" for fault in _specialist_faults(way, ids))
            continue
        receiver = way.receiver if isinstance(way, Handoff | Delegate) else way
        if receiver not in ids:
            yield f"hands off to {_unknown(receiver, ids)}"
        if isinstance(way, Handoff):
            yield from (f"handoff {way.name!r} {fault}" for fault in _declared_faults(way, ids))
        elif isinstance(way, Delegate):
            yield from (f"delegate {way.name!r} {fault}" for fault in _delegate_faults(way, ids))


def listed_ways(agent: Agent) -> Sequence[str | Handoff | Delegate] | None:
    """The handoffs and delegations that an agent lists; None if it has AUTO, or a value that is no list."""
    ways = agent.handoffs
    return ways if isinstance(ways, Sequence) and not isinstance(ways, str) else None


def _declared_faults(way: Handoff, ids: Sequence[str]) -> Iterator[str]:
    yield from variable_faults(way.variables)
    yield from strategy_faults(way.strategy)
    if way.return_to is not None and way.return_to not in ids:
        yield f"returns to {_unknown(way.return_to, ids)}"
    if way.merge not in ("merge", "replace"):
        yield f"has merge={way.merge!r}; use 'merge' or 'replace'"
    yield from _common_faults(way, ids)


def _delegate_faults(way: Delegate, ids: Sequence[str]) -> Iterator[str]:
    if not isinstance(way.max_iterations, int) or way.max_iterations < 1:
        yield f"has max_iterations={way.max_iterations!r}; give 1 or more"
    yield from variable_faults(way.variables) or _beside_faults(way.variables)
    yield from strategy_faults(way.strategy)
    yield from _common_faults(way, ids)


def _beside_faults(variables: Variables) -> Iterator[str]:
    """Faults of valid variables as parameters of a delegate, beside the parameters that every delegate has."""
    properties = compile_variables(variables)[0].get("properties")
    if properties is None:
        yield "has variables=, a pydantic model without fields of its own; give one with fields, or Variable(…)s"
    for name in EVERY_DELEGATE:
        if properties and name in properties:
            yield f"has a variable called {name!r}, which is a parameter of every delegate; give it another name"


def _specialist_faults(way: Specialist, ids: Sequence[str]) -> Iterator[str]:
    yield from _delegate_faults(way, ids)
    for other in way.among:
        if other not in ids:
            yield f"chooses among {_unknown(other, ids)}"


def _common_faults(way: Handoff | Delegate, ids: Sequence[str]) -> Iterator[str]:
    for option in ("description", "instructions"):
        if not isinstance(value := getattr(way, option), str):
            yield f"has {option}={value!r}; give a text"
    yield from approval_faults(way.approval)
    # None is valid for a team only, where it means the default guards.
    yield from guard_faults(way.guards) if way.guards is not None else ["has guards=None; give a list, or leave it out"]
    seconds = way.timeout
    if seconds is not None and (not isinstance(seconds, int | float) or seconds is True or not 0 < seconds < inf):
        yield f"has timeout={seconds!r}; give seconds above 0, or None for no limit"
    if way.expects is not None:
        from changeover.handoffs.expectations import fault

        if wrong := fault(way.expects):
            yield wrong
    for other in way.alternatives:
        if other not in ids:
            yield f"has the alternative {_unknown(other, ids)}"
    yield from _function_faults(way)
    yield from _end_faults(way)


def _end_faults(way: Handoff | Delegate) -> Iterator[str]:
    for option in ("on_timeout", "on_failure"):
        if (wanted := getattr(way, option)) not in get_args(OnEnd):
            yield f"has {option}={wanted!r}; use 'tell' or 'rollback'"


def _function_faults(way: Handoff | Delegate) -> Iterator[str]:
    if way.when is not None:
        yield from condition_faults("when", way.when)
    for option, about in (("on_rollback", "rollback"), ("on_accepted", "acceptance")):
        if (function := getattr(way, option)) is not None and not callable(function):
            yield f"has {option}={function!r}; give a function"
        yield from arity_faults(option, function, about)


def _name_faults(agent: Agent, generic: bool) -> Iterator[str]:
    owners = list(_named(agent, generic))
    for name, count in Counter(name for name, _ in owners).items():
        if count > 1:
            both = " and ".join(owner for other, owner in owners if other == name)
            yield f"has two tools called {name!r} ({both}); give one of them another name="
        if not TOOL_NAME.fullmatch(name):
            yield f"has a tool called {name!r}, which providers refuse; use letters, digits, '_' and '-', at most 64"


def _named(agent: Agent, generic: bool) -> Iterator[tuple[str, str]]:
    """The name of each function that this agent's model may call, and what it is, in words for errors."""
    yield FETCH, "which reads a stored context"
    if agent.skills:
        yield LOAD_SKILL, "which loads a skill"
        yield READ_SKILL_FILE, "which reads a file of a skill"
    yield from _named_tools(agent.tools if isinstance(agent.tools, Sequence) else ())
    ways = listed_ways(agent)
    if (agent.handoffs is AUTO and generic) or any(isinstance(way, str) for way in ways or ()):
        yield GENERIC_TOOL, "the generic handoff"
    for way in ways or ():
        if isinstance(way, Handoff):
            yield way.name, f"the handoff to {way.receiver}"
        elif isinstance(way, Specialist):
            yield way.name, "the way to a specialist"
        elif isinstance(way, Delegate):
            yield way.name, f"the delegate {way.receiver}"


def _named_tools(tools: Sequence[object]) -> Iterator[tuple[str, str]]:
    for declared in tools:
        if isinstance(declared, HttpTool | SqlFunction):
            yield str(declared.name), "an HTTP request" if isinstance(declared, HttpTool) else "an SQL function"
        elif isinstance(declared, Tool) or callable(declared):
            yield as_tool(declared).name, "a function"


def _unknown(other: object, ids: Sequence[str]) -> str:
    """What was given instead of a member's id, and what to give."""
    if isinstance(other, Agent | Function | Person):
        return f"{type(other).__name__}({other.id!r}, …) itself; name it by its id, {other.id!r}"
    return f"{other!r}, which is not in the team; choose one of {_listed(ids)}"


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(sorted(set(ids)))
