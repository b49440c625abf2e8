"""Agent, Function and Person: the members of a team as users declare them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias

from typing_extensions import TypeVar

from changeover.agent.handoff import Delegate, Handoff
from changeover.copies import FrozenDict
from changeover.guards.checks import Check
from changeover.handoffs.briefing import Briefing
from changeover.handoffs.strategies import Strategy
from changeover.tools.http_tool import HttpTool
from changeover.tools.mcp_server import McpServer
from changeover.tools.run_context import RunContext
from changeover.tools.skill import Skill
from changeover.tools.sql_function import SqlFunction
from changeover.tools.tool import Fn, Tool
from changeover.tools.variable import Variable


class Auto(Enum):
    """The type of AUTO."""

    AUTO = "auto"

    def __repr__(self) -> str:
        return "AUTO"


AUTO: Final = Auto.AUTO
"""The default of `Agent(handoffs=…)`: the agent may hand off to every member of the team."""

Instructions = str | Callable[[RunContext], str | Awaitable[str]]


T_co = TypeVar("T_co", covariant=True, default=str)
"""The type of an agent's answers."""


@dataclass(frozen=True)
class Agent(Generic[T_co]):
    """A member of a team that works with a model.

    It is a declaration, which a run never changes. `Team(…)` reports what is wrong with it as a MisconfiguredError.
    """

    id: str
    """Letters, digits, '-' and '_', at most 64."""
    _: KW_ONLY
    name: str = ""
    """For display, and for the models of other agents; the id if empty."""
    instructions: Instructions = ""
    """The system prompt: a text, or a function of the RunContext, sync or async."""
    model: Any = None
    """A name such as "openai:gpt-5", or a Model; None takes the model of the team."""
    tools: Sequence[Tool | HttpTool | SqlFunction | McpServer | Fn] = ()
    """What the model may call: functions, with or without `@tool`, HttpTool(…), SqlFunction(…) and McpServer(…)."""
    handoffs: Auto | Sequence[str | Handoff | Delegate] = AUTO
    """The members it may hand off to: AUTO for all, or a list of ids, handoff(…), delegate(…) and specialist(…)."""
    skills: Sequence[str | Path | Skill] = ()
    """Instructions that the agent can load on demand: folders with a SKILL.md, or Skill(…)."""
    specialization: str = ""
    """The field it is specialised in, for routing."""
    capabilities: Sequence[str] = ()
    """What it can do, by name, for routing and for the models of other agents."""
    description: str = ""
    """What it is for; other agents' models read it."""
    examples: Sequence[str] = ()
    """Tasks for it, as a user would write them."""
    accepts_handoffs: bool = True
    """False if it is handed nothing: it is the first agent, or a caller names it."""
    accepts: Callable[[Any], Any] | None = None
    """`accepts(package)`, sync or async, answers an offer: Accepted(), Rejected(…), Conditional(…), True or False."""
    requires: Sequence[Variable] = ()
    """Context variables without which it accepts no handoff."""
    pull: bool = False
    """True if workers claim its tasks from a queue: a `Worker`, or your own program with `Team.claim`. An agent that
    only your own programs serve needs no model."""
    max_concurrency: int | None = None
    """How many tasks it works on at a time; None for no limit."""
    output: type[T_co] | None = None
    """The type of its answers, which its model writes as JSON and `result.output` holds as values; None for texts."""
    strategy: Strategy | None = None
    """How much of the conversation it sees after a handoff; None takes the strategy of the team."""
    briefing: Briefing | None = None
    """How a handoff to it is introduced: a template of named parts, or a function of a Brief; None takes the team's."""
    parallel_tools: bool = False
    """True if all tool calls of one reply may run in parallel; those of read-only tools always do."""
    checks: Sequence[Check] = ()
    """Functions that judge a user's or sender's message before the model reads it, and an answer before it leaves."""
    settings: Mapping[str, Any] = field(default_factory=FrozenDict)
    """Settings of the model, such as {"temperature": 0}."""

    def __post_init__(self) -> None:
        # Copied: later changes of the caller's lists and dicts must not reach the declaration.
        for declared in fields(self):
            value = getattr(self, declared.name)
            if isinstance(value, list):
                object.__setattr__(self, declared.name, tuple(value))
            elif isinstance(value, dict):
                object.__setattr__(self, declared.name, FrozenDict(value))


@dataclass(frozen=True)
class Function:
    """A member that is plain Python: `fn(ctx)`, sync or async, returns the answer, or a Command that sends the work on.

    `id` is as that of an Agent, and `name` is for display (default: the id). `description` is what other agents' models
    read (default: the first line of the function's docstring). `goto` lists the ids of the members to which its
    Commands may lead; drawings of the team show them. If `fn` raises, the run ends with a FunctionError.
    """

    id: str
    fn: Callable[[RunContext], Any]
    _: KW_ONLY
    name: str = ""
    description: str = ""
    goto: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.goto, list):
            object.__setattr__(self, "goto", tuple(self.goto))


@dataclass(frozen=True)
class Person:
    """A member that is a human being. Tasks for it wait in an inbox (`Team.approvals`) until a person answers,
    rejects or hands on the task (`Team.decide`).

    `id` is as that of an Agent, `name` is for display (default: the id), and `description` is what other agents' models
    read.
    """

    id: str
    _: KW_ONLY
    name: str = ""
    description: str = ""


if TYPE_CHECKING:
    Member: TypeAlias = Agent[Any] | Function | Person
else:
    Member = Agent | Function | Person  # for `isinstance`, which takes no parameters of types


def purpose(member: Member) -> str:
    """What this member is for, in one line, for the models of other agents."""
    if isinstance(member, Function):
        return member.description or first_line(member.fn.__doc__) or member.name
    if isinstance(member, Person):
        return member.description or (f"{member.name}, a person" if member.name else "a person")
    parts = [member.description or member.specialization or member.name]
    if member.capabilities:
        parts.append(f"capabilities: {', '.join(member.capabilities)}")
    if member.examples:
        parts.append(f"for example: {'; '.join(member.examples)}")
    return "; ".join(part for part in parts if part)


def first_line(text: str | None) -> str:
    """The first line of a text that is not blank; empty if there is none."""
    return text.strip().splitlines()[0] if text and text.strip() else ""
