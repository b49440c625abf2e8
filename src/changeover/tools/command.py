"""Command and Send: where a tool or a Function member sends the work next, and what it adds to the context."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypedDict

import msgspec
from msgspec import Struct

from changeover.handoffs.context import METADATA
from changeover.handoffs.json_value import json_copy


class End(Enum):
    """The type of END."""

    END = "end"

    def __repr__(self) -> str:
        return "END"


END: Final = End.END
"""`Command(goto=END)` ends the run."""


class WorkflowState(TypedDict, total=False):
    """The progress of a workflow, as it travels with handoffs."""

    phase: str
    next: str
    done: list[str]
    remaining: list[str]


@dataclass(frozen=True)
class Send:
    """One of several branches that run in parallel.

    `receiver` is the id of an agent, `context` holds the variables it gets in addition, and `task` is its task; the
    user's request if it is empty.
    """

    receiver: str
    context: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""


@dataclass(frozen=True)
class Command:
    """What a tool or a Function member returns to send the work on, or to add to the context.

    `goto` is the id of an agent, a Send or a list of them, END, or None to stay. `update` is merged key by key: it may
    hold "context", "artifacts" (name to reference, or None while it does not exist yet), "workflow_state" and, with
    END, "output", the answer of the run. Any other key is a context variable; "context" wins over it. `message` is what
    the receiver reads; it needs a `goto` to one agent.
    """

    goto: str | Send | Sequence[Send | str] | End | None = None
    update: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""


class Errand(Struct, frozen=True, omit_defaults=True, gc=False):
    """A Send, as events store it."""

    receiver: str
    context: dict[str, Any] = {}
    task: str = ""


class Directive(Struct, frozen=True, omit_defaults=True, gc=False):
    """A Command, as events store it."""

    goto: str = ""
    end: bool = False
    output: str = ""
    sends: tuple[Errand, ...] = ()
    message: str = ""
    context: dict[str, Any] = {}
    artifacts: dict[str, str | None] = {}
    workflow_state: dict[str, Any] = {}

    @property
    def leads(self) -> bool:
        """True if it names a destination, False if it only updates the context."""
        return bool(self.goto or self.end or self.sends)


class BadCommand(TypeError):
    """A Command that cannot be carried out; the text says which field is wrong."""


UPDATES: Final = ("context", "artifacts", "workflow_state", "output")
"""The keys of an update that have a meaning of their own."""
WHERE: Final = "give the id of an agent, a Send(…) or a list of them, or END"
WORKFLOW: Final = "it holds phase: str, next: str, done: list[str], remaining: list[str]"


def directive_of(command: Command) -> Directive:
    """The command in the form that events store, copied and checked; raises BadCommand."""
    goto = command.goto
    update = _names(command.update, "update")
    if "output" in update and goto is not END:
        raise BadCommand("update holds 'output', which is the run's answer; give it only with goto=END")
    if command.message and not isinstance(goto, str):
        raise BadCommand("message needs a goto to one agent; with Send(…), give each its task")
    return Directive(
        goto=_receiver(goto, "goto") if isinstance(goto, str) else "",
        end=goto is END,
        output=_text(update.get("output", ""), "update['output']"),
        sends=_sends(goto),
        message=_text(command.message, "message"),
        context=_variables(update),
        artifacts=_artifacts(update.get("artifacts", {}), "update['artifacts']"),
        workflow_state=_workflow_state(update.get("workflow_state", {}), "update['workflow_state']"),
    )


def _sends(goto: object) -> tuple[Errand, ...]:
    match goto:
        case None | End() | str():
            return ()
        case Send():
            return (_errand(goto, "goto"),)
        case Sequence() if goto:
            return tuple(_errand(each, f"goto[{index}]") for index, each in enumerate(goto))
        case _:
            raise BadCommand(f"goto is {reprlib.repr(goto)}; {WHERE}")


def _errand(send: object, where: str) -> Errand:
    if isinstance(send, str):
        return Errand(_receiver(send, where))
    if not isinstance(send, Send):
        raise BadCommand(f"{where} is {reprlib.repr(send)}; give the id of an agent or Send(receiver, context, task)")
    return Errand(
        _receiver(send.receiver, f"{where}.receiver"),
        _context(send.context, f"{where}.context"),
        _text(send.task, f"{where}.task"),
    )


def _receiver(given: object, where: str) -> str:
    id = _text(given, where)
    if not id:
        raise BadCommand(f"{where} is empty; {WHERE if where == 'goto' else 'give the id of an agent'}")
    return id


def _variables(update: Mapping[str, Any]) -> dict[str, Any]:
    """The context variables of an update: its other keys, then what its "context" holds."""
    others = {name: value for name, value in update.items() if name not in UPDATES}
    return _context(others, "update") | _context(update.get("context", {}), "update['context']")


def _context(given: object, where: str) -> dict[str, Any]:
    variables = _names(given, where)
    if reserved := sorted(METADATA & variables.keys()):
        raise BadCommand(f"{where} sets {', '.join(map(repr, reserved))}, which only Changeover writes; rename it")
    return {_text(name, where): _kept(value, f"{where}[{name!r}]") for name, value in variables.items()}


def _artifacts(given: object, where: str) -> dict[str, str | None]:
    artifacts = _names(given, where)
    for name, value in artifacts.items():
        if value is not None and not isinstance(value, str):
            raise BadCommand(
                f"{where}[{name!r}] is {reprlib.repr(value)}; give a reference (str), or None while there is none"
            )
    return {
        _text(name, where): None if value is None else _text(value, f"{where}[{name!r}]")
        for name, value in artifacts.items()
    }


def _workflow_state(given: object, where: str) -> dict[str, Any]:
    parts = _names(given, where)
    if unknown := _unknown(parts, WorkflowState.__annotations__):
        raise BadCommand(f"{where} holds {unknown}, which is unknown; {WORKFLOW}")
    kept = {name: _kept(value, f"{where}[{name!r}]") for name, value in parts.items()}
    try:
        return dict(msgspec.convert(kept, WorkflowState))
    except msgspec.ValidationError as error:
        raise BadCommand(f"{where} does not fit ({error}); {WORKFLOW}") from error


def _names(given: object, where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise BadCommand(f"{where} is {reprlib.repr(given)}; give a dict of names to values")
    for name in given:
        if not isinstance(name, str):
            raise BadCommand(f"{where} has the key {reprlib.repr(name)}; give names, each a str")
    return dict(given)


def _unknown(given: Mapping[str, Any], known: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(given.keys() - set(known))))


def _text(given: object, where: str) -> str:
    if not isinstance(given, str):
        raise BadCommand(f"{where} is {reprlib.repr(given)}; give a str")
    text: str = _kept(given, where)
    return text


def _kept(value: object, where: str) -> Any:
    """The value as JSON holds it, also of records and dataclasses; raises BadCommand if JSON cannot hold it."""
    try:
        return json_copy(msgspec.to_builtins(value, str_keys=True, enc_hook=_plain))
    except Exception as error:
        raise BadCommand(f"{where} is {reprlib.repr(value)}, which JSON cannot hold ({error})") from error


def _plain(value: object) -> object:
    match value:
        case Mapping():
            return dict(value)
        case str():
            return str.__str__(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no form in JSON")
