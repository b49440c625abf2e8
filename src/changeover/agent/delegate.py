"""Declared ways to delegate: a tool that asks another agent and brings its result back."""

from __future__ import annotations

from dataclasses import dataclass

from changeover.agent.handoff import tool_name
from changeover.guards.approval import Approvable
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
    unbuilt: tuple[str, ...] = ()


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
    timeout: float | None = 300.0,
) -> Delegate:
    """Declare that an agent may give `receiver` a task and get its result; to the model it is a function of a task.

    With `final`, the receiver's answer is the run's answer.
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
        unbuilt=() if timeout == 300.0 else ("timeout",),
    )
