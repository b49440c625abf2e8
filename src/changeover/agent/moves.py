"""Moves: what each tool call of an agent means (use a tool, transfer, delegate), and the tool definitions for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from changeover.agent.agent import Agent, Member, purpose
from changeover.agent.handoff import TIMEOUT, Delegate, Handoff, Policy, policy_of
from changeover.facts import Expected, Mode
from changeover.guards.approval import Approval, approval_of
from changeover.guards.guard import Guard
from changeover.handoffs.callback import is_awaitable
from changeover.handoffs.context import Merge, fence
from changeover.messages import Call
from changeover.tools.run_context import RunContext
from changeover.tools.tool import CallOptions, ToolDefinition
from changeover.tools.variable import Check, Variable, compile_variables

GENERIC_TOOL = "handoff"
"""The name of the tool that hands off to every agent that an agent may reach."""


class UseTool(Struct, frozen=True):
    """Call a tool and go on."""

    declared: CallOptions
    definition: ToolDefinition

    @property
    def approval(self) -> Approval | None:
        """The approval that its declaration demands before a call, if any."""
        return approval_of(self.declared.approval)


class Intent(Struct, frozen=True):
    """A handoff as a model or a Command asks for it: well-formed, not yet checked or offered."""

    receiver: str
    message: str
    """The text for the receiver; the task, if it is a delegate."""
    variables: dict[str, Any] = {}
    mode: Mode = Mode.TRANSFER
    instructions: str = ""
    merge: Merge = "merge"
    return_to: str = ""
    alternatives: tuple[str, ...] = ()
    timeout: float | None = TIMEOUT
    expected: Expected | None = None
    about: str = ""
    """Background for a delegate, in the sender's words."""
    reason: str = ""
    """Why another agent should do it, where the message does not say so."""
    required: tuple[str, ...] = ()
    """Capabilities that the receiver must have."""
    max_iterations: int = 0
    final: bool = False
    """The delegate's answer is the run's answer."""
    policy: Policy | None = None
    """What follows automatically, as the declaration says."""


class NoSuchReceiver(Struct, frozen=True):
    """The model named a receiver that it cannot hand off to."""

    receiver: str
    available: tuple[str, ...]


class BadArguments(Struct, frozen=True):
    """The model's arguments do not fit the tool."""

    reason: str


def not_json(call: Call) -> str:
    """Why the arguments of a malformed call cannot be read."""
    return f"they must be one JSON object, not {call.malformed[:200]!r}"


def misfit_words(tool: str, reason: str) -> str:
    """The refusal of a call whose arguments do not fit its tool."""
    return f"the arguments of {tool} do not fit: {reason}"


class TransferToAny(Struct, frozen=True):
    """The generic handoff: the model names the receiver."""

    receivers: tuple[str, ...]
    definition: ToolDefinition
    takes: tuple[str, ...] = ("to", "message")
    approval: Approval | None = None

    def read(self, args: dict[str, Any], text: str) -> Intent | NoSuchReceiver | BadArguments:
        receiver, message = args.get("to"), args.get("message", "")
        if not isinstance(receiver, str):
            return BadArguments(f"to: give the id of one of {', '.join(self.receivers)}")
        if receiver not in self.receivers:
            return NoSuchReceiver(receiver, self.receivers)
        if not isinstance(message, str):
            return BadArguments("message: give a text")
        if len(args) > 2 and (extra := args.keys() - set(self.takes)):
            return BadArguments(f"it takes {' and '.join(self.takes)}, not {', '.join(sorted(extra))}")
        variables = args.get("context") or {}
        if not isinstance(variables, dict):
            return BadArguments("context: give an object of names and values")
        return Intent(receiver, message or text, variables)


def closed(when: Callable[[RunContext], bool] | None, context: RunContext) -> str:
    """Why a move with this condition is closed now, empty if it is open. A condition that raises counts as not met."""
    if when is None:
        return ""
    try:
        answer: object = when(context)
        if is_awaitable(answer):
            return "its condition could not be judged: it has to be awaited; give a plain function"
        return "" if answer else "its condition is not met now"
    except Exception as error:  # the user's code
        return f"its condition could not be judged: {type(error).__name__}: {error}"


class Transfer(Struct, frozen=True):
    """A declared handoff: a tool of its own for one receiver."""

    declared: Handoff
    definition: ToolDefinition
    check: Check
    approval: Approval | None = None
    expected: Expected | None = None
    policy: Policy | None = None

    @property
    def guards(self) -> Sequence[Guard]:
        return self.declared.guards

    def read(self, args: dict[str, Any], text: str) -> Intent | NoSuchReceiver | BadArguments:
        variables = self.check(args)
        if isinstance(variables, str):
            return BadArguments(variables)
        declared = self.declared
        return Intent(
            declared.receiver,
            text,
            variables,
            Mode.TRANSFER,
            declared.instructions,
            declared.merge,
            declared.return_to or "",
            declared.alternatives,
            answer_time(declared),
            self.expected,
            policy=self.policy,
        )


EVERY_DELEGATE = ("task", "context")
"""The parameters of every delegate's tool, beside its variables."""


class DelegateTo(Struct, frozen=True):
    """A declared delegate: a tool of its own that brings a result back."""

    declared: Delegate
    definition: ToolDefinition
    check: Check
    approval: Approval | None = None
    expected: Expected | None = None
    policy: Policy | None = None

    @property
    def guards(self) -> Sequence[Guard]:
        return self.declared.guards

    def read(self, args: dict[str, Any], text: str) -> Intent | NoSuchReceiver | BadArguments:
        """The task in a model's arguments; a delegate is not given the text of the reply."""
        task, about = args.get("task"), args.get("context") or ""  # models write null for what they leave out
        if not isinstance(task, str) or not task:
            return BadArguments("task: say what is to be done, in words")
        known = about if isinstance(about, dict) else {}
        if not isinstance(about, str):
            about = fence(about) if known else str(about)
        declared, others = self.declared, {name: value for name, value in args.items() if name not in EVERY_DELEGATE}
        if others and not declared.variables:
            return BadArguments(f"it takes {' and '.join(EVERY_DELEGATE)}, not {', '.join(sorted(others))}")
        variables = self.check(others)
        if isinstance(variables, str):
            return BadArguments(variables)
        return Intent(
            declared.receiver,
            task,
            {**known, **variables},
            Mode.DELEGATE,
            declared.instructions,
            alternatives=declared.alternatives,
            timeout=answer_time(declared),
            expected=self.expected,
            about=about,
            max_iterations=declared.max_iterations,
            final=declared.final,
            policy=self.policy,
        )


Move = UseTool | TransferToAny | Transfer | DelegateTo


def generic_transfer(receivers: Sequence[str], members: Mapping[str, Member]) -> TransferToAny:
    """The tool with which an agent hands off to any of `receivers`."""
    names = tuple(dict.fromkeys(receivers))
    lines = [f"- {name}: {about}" if (about := purpose(members[name])) else f"- {name}" for name in names]
    context = _context_asked([members[name] for name in names])
    definition = ToolDefinition(
        name=GENERIC_TOOL,
        description="Hand this conversation over to another agent, which answers the user from then on."
        " Naming yourself starts you afresh. The agents:\n" + "\n".join(lines),
        parameters={
            "type": "object",
            "properties": {
                "to": {"type": "string", "enum": list(names), "description": "The id of the agent that takes over."},
                "message": {"type": "string", "description": "What that agent needs to know, and what it should do."},
                **({"context": context} if context else {}),
            },
            "required": ["to", "message"],
            "additionalProperties": False,
        },
        receivers=names,
    )
    return TransferToAny(names, definition, tuple(definition.parameters["properties"]))


def is_generic(tool: ToolDefinition) -> bool:
    """True if this is the generic handoff tool; a declared handoff may have the same name."""
    to = tool.parameters.get("properties", {}).get("to", {})
    return tool.name == GENERIC_TOOL and to.get("enum") == list(tool.receivers)


def _context_asked(receivers: Sequence[Member]) -> dict[str, Any]:
    """The schema of the context variables that these receivers require; empty if they require none."""
    asked = {each.id: required_of(each) for each in receivers if required_of(each)}
    if not asked:
        return {}
    lines = [f"{id} needs {', '.join(map(_described, variables))}" for id, variables in asked.items()]
    return {
        "type": "object",
        "description": f"What an agent has to know before it takes over, by name: {'; '.join(lines)}.",
        "additionalProperties": True,
    }


def required_of(member: Member) -> Sequence[Variable]:
    """The context variables that this member requires before it accepts a handoff."""
    return member.requires if isinstance(member, Agent) else ()


def _described(variable: Variable) -> str:
    about = f": {variable.description}" if variable.description else ""
    return f"{variable.name} ({variable.type}{about})"


def _description(lead: str, about: str, instructions: str) -> str:
    """The description of a handoff's tool; instructions for the receiver are marked as such."""
    told = f"The receiver is told: {instructions}" if instructions else ""
    return " ".join(part for part in (lead, about, told) if part)


def declared_transfer(declared: Handoff, members: Mapping[str, Member]) -> Transfer:
    """The tool of one declared handoff."""
    schema, check = compile_variables(declared.variables)
    about = declared.description or purpose(members[declared.receiver])
    lead = f"Hand this conversation over to {declared.receiver}."
    definition = ToolDefinition(
        name=declared.name,
        description=_description(lead, about, declared.instructions),
        parameters=schema,
        receivers=(declared.receiver,),
    )
    demands = approval_of(declared.approval), expected_of(declared.expects), policy_of(declared)
    return Transfer(declared, definition, check, *demands)


def declared_delegate(declared: Delegate, members: Mapping[str, Member]) -> DelegateTo:
    """The tool of one declared delegate."""
    schema, check = compile_variables(declared.variables)
    about = declared.description or purpose(members[declared.receiver])
    lead = f"Give {declared.receiver} a task and get the result back; you stay in charge."
    definition = ToolDefinition(
        name=declared.name,
        description=_description(lead, about, declared.instructions),
        parameters={
            "type": "object",
            "properties": {
                "task": {"type": "string", "description": "What is to be done, complete in itself."},
                "context": _context_asked([members[declared.receiver]])
                or {"type": "string", "description": "What that agent should know to do it."},
                **schema["properties"],
            },
            "required": ["task", *schema.get("required", ())],
            "additionalProperties": False,
            **({"$defs": schema["$defs"]} if "$defs" in schema else {}),
        },
        receivers=(declared.receiver,),
        delegate=True,
    )
    demands = approval_of(declared.approval), expected_of(declared.expects), policy_of(declared)
    return DelegateTo(declared, definition, check, *demands)


TRANSFERS = (TransferToAny, Transfer)
"""Moves that pass the conversation on, as a tuple: a union would be built with every isinstance()."""
DECLARED = (Transfer, DelegateTo)
"""Moves that `handoff(…)` or `delegate(…)` declares, with guards, a condition and functions of their own."""
CONDITIONAL = (UseTool, *DECLARED)
"""Moves that may have a `when`."""


def answer_time(declared: Handoff | Delegate) -> float | None:
    """Seconds that the receiver may take: the timeout of its expectations, else that of the declaration."""
    return getattr(declared.expects, "timeout", None) or declared.timeout


def expected_of(expects: Any) -> Expected | None:
    """The expectations of a declaration in the form in which events store them."""
    if expects is None:
        return None
    from changeover.handoffs.expectations import expectations_of

    written = expectations_of(expects)
    return Expected(written.output_schema, written.success_criteria)
