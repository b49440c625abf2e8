"""Declared ways to hand off: a tool of their own, with variables, for one receiver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from changeover.agent.variable import Variables
from changeover.guards.approval import Approvable
from changeover.handoffs.context import Merge
from changeover.handoffs.strategies import Strategy


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
    unbuilt: tuple[str, ...] = ()


def handoff(
    receiver: str,
    *,
    name: str | None = None,
    description: str = "",
    variables: Variables = (),
    instructions: str = "",
    strategy: Strategy | None = None,
    when: Callable[..., bool] | None = None,
    approval: Approvable = None,
    timeout: float | None = 300.0,
    return_to: str | None = None,
    merge: Merge = "merge",
    alternatives: Sequence[str] = (),
    expects: Any = None,
    on_rollback: Callable[..., Any] | None = None,
) -> Handoff:
    """Declare a handoff to `receiver`; to the model it is a function with exactly these variables."""
    later = {"when": when, "alternatives": alternatives, "expects": expects}
    unbuilt = [option for option, value in {**later, "on_rollback": on_rollback}.items() if value]
    if timeout != 300.0:
        unbuilt.append("timeout")
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
        unbuilt=tuple(unbuilt),
    )


def tool_name(verb: str, receiver: str) -> str:
    """The name a handoff gets when none is given."""
    return f"{verb}_{receiver.replace('-', '_').replace('.', '_')}"
