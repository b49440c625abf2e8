"""handoff() and delegate(): declared tools that pass the conversation to a receiver, or ask it for a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from changeover.guards.approval import Approvable
from changeover.guards.guard import Guard
from changeover.handoffs.context import Merge
from changeover.handoffs.strategies import Strategy
from changeover.tools.run_context import RunContext
from changeover.tools.variable import Variables

TIMEOUT = 300.0
"""How many seconds a receiver may take, unless the declaration says otherwise."""


OnEnd = Literal["tell", "rollback"]
"""What follows when a receiver is too late or fails: its sender is told, or the handoff is rolled back."""


class Policy(Struct, frozen=True, omit_defaults=True, gc=False):
    """What follows a handoff automatically, as its declaration says and its offer records."""

    on_accepted: bool = False
    """True if a function is called after the acceptance."""
    on_timeout: OnEnd = "tell"
    on_failure: OnEnd = "tell"


@dataclass(frozen=True, kw_only=True)
class Handoff:
    """A declared handoff; made by `handoff()`, which describes the fields."""

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
    on_accepted: Callable[..., Any] | None = None
    on_timeout: OnEnd = "tell"
    on_failure: OnEnd = "tell"


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
    on_accepted: Callable[..., Any] | None = None,
    on_rollback: Callable[..., Any] | None = None,
    on_timeout: OnEnd = "tell",
    on_failure: OnEnd = "tell",
    guards: Sequence[Guard] = (),
) -> Handoff:
    """Declare a handoff to the agent with the id `receiver`; the model sees it as a function with these `variables`.

    - `name`: the name of that function (default: `handoff_to_<receiver>`); `description`: what the model reads of it.
    - `variables`: a list of Variable, or a pydantic model; `merge` ("merge" or "replace") says how the receiver's
      context variables are updated with them.
    - `instructions`: instructions for the receiver, for this handoff.
    - `strategy`: how much of the conversation the receiver sees (default: the receiver's, else the team's).
    - `when`: a pure function of the RunContext; while it is false, the model does not see the handoff.
    - `approval`: True, a function or Approval(…), if a person has to approve it first.
    - `timeout`: in how many seconds the receiver has to answer the offer (default 300, None for no limit).
    - `return_to`: the id of the agent that gets the user's next message (default: the receiver).
    - `alternatives`: ids of agents that get the offer, in this order, if the receiver declines.
    - `expects`: what the result must be: a type, a JSON schema, or Expects(…).
    - `on_accepted`: a function of an Acceptance that is called once the acceptance is recorded, until it succeeds; the
      receiver does not wait for it.
    - `on_rollback`: a function of a Rollback that cleans up if the handoff is rolled back.
    - `on_timeout`: "rollback" rolls it back if the receiver does not answer in time (default "tell": the sender is
      told).
    - `on_failure`: "rollback" rolls it back if the receiver fails after it accepted, and the sender goes on (default
      "tell": the run fails).
    - `guards`: guards of this handoff, in addition to those of the team.

    `Team(…)` reports what is wrong with it as a MisconfiguredError.
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
        on_accepted=on_accepted,
        on_timeout=on_timeout,
        on_failure=on_failure,
    )


def policy_of(declared: Handoff | Delegate) -> Policy | None:
    """What follows automatically, as a declaration says; None if nothing does."""
    policy = Policy(declared.on_accepted is not None, declared.on_timeout, declared.on_failure)
    return None if policy == Policy() else policy


def tool_name(verb: str, receiver: str) -> str:
    """The default name of the function for a handoff or a delegation."""
    # An Agent instead of its id is a fault that the team reports later; until then a name is needed.
    id = str(getattr(receiver, "id", receiver))
    return f"{verb}_{id.replace('-', '_').replace('.', '_')}"


ITERATIONS = 15
"""How many replies of its model a delegate may take, unless the declaration says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Delegate:
    """A declared delegation; made by `delegate()`, which describes the fields."""

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
    variables: Variables = ()
    when: Callable[[RunContext], bool] | None = None
    on_accepted: Callable[..., Any] | None = None
    on_rollback: Callable[..., Any] | None = None
    on_timeout: OnEnd = "tell"
    on_failure: OnEnd = "tell"


def delegate(
    receiver: str,
    *,
    name: str | None = None,
    description: str = "",
    variables: Variables = (),
    instructions: str = "",
    strategy: Strategy | None = None,
    when: Callable[[RunContext], bool] | None = None,
    final: bool = False,
    max_iterations: int = ITERATIONS,
    approval: Approvable = None,
    timeout: float | None = TIMEOUT,
    alternatives: Sequence[str] = (),
    expects: Any = None,
    on_accepted: Callable[..., Any] | None = None,
    on_rollback: Callable[..., Any] | None = None,
    on_timeout: OnEnd = "tell",
    on_failure: OnEnd = "tell",
    guards: Sequence[Guard] = (),
) -> Delegate:
    """Declare that an agent may give the agent `receiver` a task and get its result; the model sees it as a function.

    - `name`: the name of that function (default: `delegate_to_<receiver>`); `description`: what the model reads of it.
    - `variables`: a list of Variable, or a pydantic model; the model fills them in beside the task and its context, and
      they are context variables of the receiver.
    - `instructions`: instructions for the receiver, for this task.
    - `strategy`: how much of the conversation the receiver sees (default: the receiver's, else the team's).
    - `when`: a pure function of the RunContext; while it is false, the model does not see the delegation.
    - `final`: True if the receiver's answer is the answer of the run.
    - `max_iterations`: how many replies of its model the receiver may take (default 15).
    - `approval`: True, a function or Approval(…), if a person has to approve it first.
    - `timeout`: how many seconds it may take from the offer to the result (default 300, None for no limit).
    - `alternatives`: ids of agents that get the offer, in this order, if the receiver declines.
    - `expects`: what the result must be: a type, a JSON schema, or Expects(…).
    - `on_accepted`: a function of an Acceptance that is called once the acceptance is recorded, until it succeeds; the
      receiver does not wait for it.
    - `on_rollback`: a function of a Rollback that cleans up if the task is rolled back after the receiver accepted it.
    - `on_timeout`, `on_failure`: "rollback" rolls the task back if it takes too long or fails; the sender gets the
      reason and what the receiver said last (default "tell": it gets the reason, and nothing is rolled back).
    - `guards`: guards of this delegation, in addition to those of the team.

    `Team(…)` reports what is wrong with it as a MisconfiguredError.
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
        variables=variables if isinstance(variables, type) else tuple(variables),
        when=when,
        on_accepted=on_accepted,
        on_rollback=on_rollback,
        on_timeout=on_timeout,
        on_failure=on_failure,
    )
