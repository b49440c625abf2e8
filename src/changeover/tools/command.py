"""Command and Send: where a tool or a Function member sends the work next, and what it adds to the context."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypedDict

import msgspec
from msgspec import Struct

from changeover.handoffs.context import METADATA


class End(Enum):
    """Where a run ends."""

    END = "end"

    def __repr__(self) -> str:
        return "END"


END: Final = End.END


class WorkflowState(TypedDict, total=False):
    """How far a flow has come."""

    phase: str
    next: str
    done: list[str]
    remaining: list[str]


@dataclass(frozen=True)
class Send:
    """One branch of several that run at once: a receiver, its context variables and, if not the request, its task."""

    receiver: str
    context: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""


@dataclass(frozen=True)
class Command:
    """Go to an agent, to several at once, or to the END; `update` is merged, key by key, into what travels.

    `update` may hold "context", "artifacts" (name to reference, or None while not made), "workflow_state" and, with
    END, "output". The message is for the receiver.
    """

    goto: str | Send | Sequence[Send | str] | End | None = None
    update: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""


class Errand(Struct, frozen=True, omit_defaults=True, gc=False):
    """A Send as it is recorded."""

    receiver: str
    context: dict[str, Any] = {}
    task: str = ""


class Directive(Struct, frozen=True, omit_defaults=True, gc=False):
    """A Command as it is recorded."""

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
        """Whether it says where to go, and does not only add something."""
        return bool(self.goto or self.end or self.sends)


class BadCommand(TypeError):
    """A Command that cannot be carried out."""


UPDATES: Final = ("context", "artifacts", "workflow_state", "output")
WHERE: Final = "give the id of an agent, a Send(…) or a list of them, or END"
WORKFLOW: Final = "it holds phase: str, next: str, done: list[str], remaining: list[str]"


def directive_of(command: Command) -> Directive:
    """The command as a log gives it back, which also makes it ours; raises BadCommand, which says what is wrong."""
    goto = command.goto
    update = _names(command.update, "update")
    if unknown := _strangers(update, UPDATES):
        raise BadCommand(f"update holds {unknown}, which is unknown; it may hold {', '.join(UPDATES)}")
    if "output" in update and goto is not END:
        raise BadCommand("update holds 'output', which is the run's answer; give it only with goto=END")
    if command.message and not isinstance(goto, str):
        raise BadCommand("message is for one receiver; give it with a goto to an agent, and to each Send its task")
    return Directive(
        goto=_receiver(goto, "goto") if isinstance(goto, str) else "",
        end=goto is END,
        output=_text(update.get("output", ""), "update['output']"),
        sends=_sends(goto),
        message=_text(command.message, "message"),
        context=_context(update.get("context", {}), "update['context']"),
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
        raise BadCommand(f"{where} is '', which is nobody; {WHERE if where == 'goto' else 'give the id of an agent'}")
    return id


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
                f"{where}[{name!r}] is {reprlib.repr(value)}; give a reference, a str, or None while it is not made"
            )
    return {
        _text(name, where): None if value is None else _text(value, f"{where}[{name!r}]")
        for name, value in artifacts.items()
    }


def _workflow_state(given: object, where: str) -> dict[str, Any]:
    parts = _names(given, where)
    if unknown := _strangers(parts, WorkflowState.__annotations__):
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


def _strangers(given: Mapping[str, Any], known: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(given.keys() - set(known))))


def _text(given: object, where: str) -> str:
    if not isinstance(given, str):
        raise BadCommand(f"{where} is {reprlib.repr(given)}; give a str")
    # Not `str(given)`, by which an Enum with string values shows its name.
    text: str = _kept(str.__str__(given), where)
    return text


def _kept(value: object, where: str) -> Any:
    """The value as it comes back from JSON."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)
        # By the library that refuses a NaN: the other one writes null for it, and the value would be lost.
        return msgspec.json.decode(json.dumps(plain, allow_nan=False, ensure_ascii=False).encode())
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
