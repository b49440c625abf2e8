"""specialist(): delegation to an agent that the router finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from changeover.agent.handoff import ITERATIONS, TIMEOUT, Delegate, OnEnd, policy_of
from changeover.agent.moves import BadArguments, DelegateTo, Intent, NoSuchReceiver, expected_of
from changeover.guards.approval import Approvable, approval_of
from changeover.guards.guard import Guard
from changeover.handoffs.strategies import Strategy
from changeover.tools.run_context import RunContext
from changeover.tools.tool import ToolDefinition
from changeover.tools.variable import compile_variables

NAME = "handoff_to_specialist"
PARAMETERS = ("specialist_type", "task", "reason", "context", "required_capabilities")


@dataclass(frozen=True, kw_only=True)
class Specialist(Delegate):
    """A declared delegation to an agent that the router finds; made by `specialist()`."""

    among: tuple[str, ...] = ()


def specialist(
    *,
    name: str = NAME,
    description: str = "",
    instructions: str = "",
    among: Sequence[str] = (),
    strategy: Strategy | None = None,
    when: Callable[[RunContext], bool] | None = None,
    final: bool = False,
    max_iterations: int = ITERATIONS,
    approval: Approvable = None,
    timeout: float | None = TIMEOUT,
    expects: Any = None,
    on_accepted: Callable[..., Any] | None = None,
    on_rollback: Callable[..., Any] | None = None,
    on_timeout: OnEnd = "tell",
    on_failure: OnEnd = "tell",
    guards: Sequence[Guard] = (),
) -> Specialist:
    """Declare that an agent may ask for a specialist: the router chooses a member of the team, whose result comes back.

    `among` are the ids of the members to choose from (default: all); the model reads a list of them. `name` and
    `description` are what the model sees of the tool, and `instructions` are for the specialist. The other parameters
    are those of `delegate`: `strategy`, `when`, `final`, `max_iterations`, `approval`, `timeout`, `expects`,
    `on_accepted`, `on_rollback`, `on_timeout`, `on_failure` and `guards`.
    """
    return Specialist(
        receiver="",
        name=name,
        description=description,
        instructions=instructions,
        strategy=strategy,
        final=final,
        max_iterations=max_iterations,
        approval=approval,
        timeout=timeout,
        alternatives=(),
        expects=expects,
        guards=tuple(guards) if isinstance(guards, list) else guards,
        when=when,
        on_accepted=on_accepted,
        on_rollback=on_rollback,
        on_timeout=on_timeout,
        on_failure=on_failure,
        among=tuple(among),
    )


class Wish(Struct, frozen=True):
    """A task that names no receiver, and what the receiver must be able to do."""

    task: str
    required: tuple[str, ...] = ()
    """Capabilities that the receiver must have."""
    kind: str = ""
    """The kind of specialist that the model asked for."""


class ToSpecialist(DelegateTo, frozen=True):
    """Delegates to a specialist that the router finds."""

    @property
    def among(self) -> tuple[str, ...]:
        """The agents that may be chosen; any agent if empty."""
        assert isinstance(self.declared, Specialist)
        return self.declared.among

    def read(self, args: dict[str, Any], text: str) -> Intent | NoSuchReceiver | BadArguments:
        """The task in a model's arguments; its receiver is empty until the router has found one."""
        for name in ("specialist_type", "task", "reason"):
            if not isinstance(args.get(name), str) or (not args[name].strip() and name != "reason"):
                return BadArguments(f"{name}: give a text")
        if extra := args.keys() - set(PARAMETERS):
            return BadArguments(f"it takes {', '.join(PARAMETERS)}, not {', '.join(sorted(extra))}")
        required = args.get("required_capabilities") or []
        if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
            return BadArguments("required_capabilities: give a list of texts")
        intent = super().read({name: args[name] for name in ("task", "context") if name in args}, text)
        if not isinstance(intent, Intent):
            return intent
        return replace(intent, reason=args["reason"], required=tuple(each for each in required if each.strip()))

    def wish(self, intent: Intent, args: dict[str, Any]) -> Wish:
        """What the router looks for, from arguments that `read` accepted."""
        return Wish(intent.message, intent.required, args["specialist_type"])


def specialist_tool(declared: Specialist) -> ToSpecialist:
    """The move and the tool definition of a declared `specialist(…)`."""
    lead = "Give a task to a specialist and get the result back; you stay in charge, and answer the user."
    text = {"type": "string"}
    definition = ToolDefinition(
        name=declared.name,
        description=f"{lead} {declared.description}".rstrip(),
        parameters={
            "type": "object",
            "properties": {
                "specialist_type": {**text, "description": "What kind of specialist: a capability or a field."},
                "task": {**text, "description": "What is to be done, complete in itself."},
                "reason": {**text, "description": "Why a specialist should do it."},
                "context": {**text, "description": "What the specialist should know to do it."},
                "required_capabilities": {
                    "type": "array",
                    "items": text,
                    "description": "What the specialist must be able to do, all of it.",
                },
            },
            "required": ["specialist_type", "task", "reason"],
            "additionalProperties": False,
        },
        delegate=True,
    )
    _, check = compile_variables(declared.variables)
    demands = approval_of(declared.approval), expected_of(declared.expects), policy_of(declared)
    return ToSpecialist(declared, definition, check, *demands)


def guidance(name: str, specialists: Sequence[tuple[str, str]]) -> str:
    """Instructions for an agent that may ask for a specialist: how to do it, and the list of specialists."""
    lines = [f"- {id}: {about}" if about else f"- {id}" for id, about in specialists]
    return (
        f"You can get help with {name}: it finds the specialist that fits, and brings back what that one found."
        " Ask for one when a task needs what you cannot do yourself, several at once if they do not need each other's"
        " results, and put together one answer of what comes back. If none fits, go on by yourself."
        f" The specialists:\n{chr(10).join(lines) or '- none at the moment'}"
    )
