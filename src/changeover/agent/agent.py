"""Agent, Function and Person: the members of a team as users declare them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from changeover.agent.handoff import Delegate, Handoff
from changeover.agent.variable import Variable
from changeover.handoffs.briefing import Briefing
from changeover.handoffs.strategies import Strategy
from changeover.tools.run_context import RunContext
from changeover.tools.tool import Fn, Tool


class Auto(Enum):
    """Hand off to anybody in the team, by the generic tool."""

    AUTO = "auto"

    def __repr__(self) -> str:
        return "AUTO"


AUTO: Final = Auto.AUTO
"""The default of `Agent(handoffs=…)`: the agent may hand off to every member of the team."""

SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The form of an id."""

Instructions = str | Callable[[RunContext], str | Awaitable[str]]


@dataclass(frozen=True)
class Agent:
    """A member that thinks with a model. A declaration: a run never changes it."""

    id: str
    _: KW_ONLY
    name: str = ""
    instructions: Instructions = ""
    model: Any = None
    tools: Sequence[Tool | Fn] = ()
    handoffs: Auto | Sequence[str | Handoff | Delegate] = AUTO
    skills: Sequence[Any] = ()
    specialization: str = ""
    capabilities: Sequence[str] = ()
    description: str = ""
    examples: Sequence[str] = ()
    accepts_handoffs: bool = True
    accepts: Callable[[Any], Any] | None = None
    """`accepts(package)`, sync or async, says whether this agent takes a handoff: Accepted(), Rejected(…),
    Conditional(…), or plainly True or False."""
    requires: Sequence[Variable] = ()
    """Context variables without which it takes no handoff."""
    pull: bool = False
    """Served only by whoever claims what it is to do: a `Worker`, or a program of your own (`Team.claim`). One that
    only such programs serve needs no model."""
    max_concurrency: int | None = None
    output: type | None = None
    strategy: Strategy | None = None
    """How much it sees of what was said before it was handed a task."""
    briefing: Briefing | None = None
    """How it is briefed: a template of named parts, or a function of a Brief."""
    parallel_tools: bool = False
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        # What the caller passed stays the caller's: later changes to it must not reach the declaration.
        for own in fields(self):
            value = getattr(self, own.name)
            if isinstance(value, list):
                object.__setattr__(self, own.name, tuple(value))
            elif isinstance(value, dict):
                object.__setattr__(self, own.name, MappingProxyType(dict(value)))


@dataclass(frozen=True)
class Function:
    """A member that is plain Python: `fn(ctx)` gives the answer, or a Command that says where to go."""

    id: str
    fn: Callable[[RunContext], Any]
    _: KW_ONLY
    name: str = ""
    description: str = ""


@dataclass(frozen=True)
class Person:
    """A member that is a human being: what reaches it waits in an inbox until somebody answers, rejects it or hands it
    on (`Team.approvals`, `Team.decide`)."""

    id: str
    _: KW_ONLY
    name: str = ""
    description: str = ""


Member = Agent | Function | Person


def purpose(member: Member) -> str:
    """What this member is for, in one line for the models that may hand off to it."""
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
    """The first line of a docstring."""
    return text.strip().splitlines()[0] if text and text.strip() else ""
