"""handoff() and delegate(): declared tools that pass the conversation to a receiver, or ask it for a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from changeover.agent.variable import Variables
from changeover.guards.approval import Approvable
from changeover.guards.guard import Guard
from changeover.handoffs.context import Merge
from changeover.handoffs.strategies import Strategy
from changeover.tools.run_context import RunContext

TIMEOUT = 300.0
"""How many seconds a receiver may take unless it is said otherwise."""


@dataclass(frozen=True, kw_only=True)
class Handoff:
    """One declared way from an agent to another."""

    receiver: str
    name: str
    description: str
    variables: Variables
    instructions: str
    strategy: Strategy | None
    merge: Merge
    return_to: str | None
    approval: Approvable
    timeout: float | None
    alternatives: tuple[str, ...]
    expects: Any
    on_rollback: Callable[..., Any] | None
    guards: Sequence[Guard] = ()
    when: Callable[[RunContext], bool] | None = None


def handoff(
    receiver: str,
    *,
    name: str | None = None,
    description: str = "",
    variables: Variables = (),
    instructions: str = "",
    strategy: Strategy | None = None,
    when: Callable[[RunContext], bool] | None = None,
    approval: Approvable = None,
    timeout: float | None = TIMEOUT,
    return_to: str | None = None,
    merge: Merge = "merge",
    alternatives: Sequence[str] = (),
    expects: Any = None,
    on_rollback: Callable[..., Any] | None = None,
    guards: Sequence[Guard] = (),
) -> Handoff:
    """Declare a handoff to `receiver`; to the model it is a function with exactly these variables.

    If the receiver does not accept it, the `alternatives` are asked in turn; `timeout` is how long it may take to
    answer, in seconds. With `when`, a pure function of the run, the model is shown the handoff only while that is true,
    and it is asked again when the model calls it. `guards` are asked beside those of the team.
    """
    return Handoff(
        receiver=receiver,
        name=name or tool_name("handoff_to", receiver),
        description=description,
        variables=variables if isinstance(variables, type) else tuple(variables),
        instructions=instructions,
        strategy=strategy,
        merge=merge,
        return_to=return_to,
        approval=approval,
        timeout=timeout,
        alternatives=tuple(alternatives),
        expects=expects,
        on_rollback=on_rollback,
        guards=tuple(guards) if isinstance(guards, list) else guards,
        when=when,
    )


def tool_name(verb: str, receiver: str) -> str:
    """The name a handoff gets when none is given."""
    # An agent in place of its id is a fault that its team reports, with all others; until then it needs a name.
    id = str(getattr(receiver, "id", receiver))
    return f"{verb}_{id.replace('-', '_').replace('.', '_')}"


ITERATIONS = 15
"""How many replies of its model a delegate may take unless it is told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Delegate:
    """One declared way to ask another agent."""

    receiver: str
    name: str
    description: str
    instructions: str
    strategy: Strategy | None
    final: bool
    max_iterations: int
    approval: Approvable
    timeout: float | None
    alternatives: tuple[str, ...]
    expects: Any
    guards: Sequence[Guard] = ()


def delegate(
    receiver: str,
    *,
    name: str | None = None,
    description: str = "",
    instructions: str = "",
    strategy: Strategy | None = None,
    final: bool = False,
    max_iterations: int = ITERATIONS,
    approval: Approvable = None,
    timeout: float | None = TIMEOUT,
    alternatives: Sequence[str] = (),
    expects: Any = None,
    guards: Sequence[Guard] = (),
) -> Delegate:
    """Declare that an agent may give `receiver` a task and get its result; to the model it is a function of a task.

    With `final`, the receiver's answer is the run's answer. If the receiver does not accept the task, the
    `alternatives` are asked in turn; `timeout` is how long it may take from the offer to the result, in seconds.
    `expects` says what the result must be: a type, a JSON schema, or Expects(…).
    """
    return Delegate(
        receiver=receiver,
        name=name or tool_name("delegate_to", receiver),
        description=description,
        instructions=instructions,
        strategy=strategy,
        final=final,
        max_iterations=max_iterations,
        approval=approval,
        timeout=timeout,
        alternatives=tuple(alternatives),
        expects=expects,
        guards=tuple(guards) if isinstance(guards, list) else guards,
    )
