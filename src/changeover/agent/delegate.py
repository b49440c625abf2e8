"""Declared ways to delegate: a tool that asks another agent and brings its result back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from changeover.agent.handoff import TIMEOUT, tool_name
from changeover.guards.approval import Approvable
from changeover.guards.guard import Guard
from changeover.handoffs.strategies import Strategy

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
