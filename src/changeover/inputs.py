"""Inputs of callers: checked, with all faults raised together before anything is recorded, and built."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import msgspec
from msgspec.structs import replace

from changeover.agent.agent import Person
from changeover.agent.roster import Roster
from changeover.errors import MisconfiguredError, PackageError
from changeover.facts import NoTakers
from changeover.guards.limits import Limits, limit_faults
from changeover.handoffs.context import METADATA
from changeover.handoffs.expectations import fault
from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.strategies import Strategy
from changeover.messages import File
from changeover.relay.events import UserSpoke
from changeover.relay.inputs.requests import Say
from changeover.relay.package import offer_of
from changeover.routing import profile
from changeover.routing.routing import taker_faults
from changeover.workflows.workflow import Workflow


def spoken(
    text: object,
    *,
    agent: str | None = None,
    context: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    user: str | None = None,
    correlation_id: str | None = None,
) -> UserSpoke:
    """The event of a user's message; raises MisconfiguredError."""
    variables, faults = _variables(context) if context else ({}, [])
    named = {"user": user, "correlation_id": correlation_id}
    texts = {"what the user says": text, **{name: given for name, given in named.items() if given is not None}}
    if faults := [*text_faults(texts), *faults, *limit_faults(limits)]:
        raise MisconfiguredError(*faults)
    return UserSpoke(str(text), user or "", agent or "", variables, limits, correlation_id or "")


def check_texts(**given: object) -> None:
    """Raise MisconfiguredError unless all of these are texts: a log could not read anything else back."""
    if faults := _no_texts(given):
        raise MisconfiguredError(*faults)


def text_faults(given: Mapping[str, object]) -> list[str]:
    """Faults of values that must be texts that a log can read back."""
    found = _no_texts(given)
    for what, text in given.items():
        if isinstance(text, str) and not text.isascii() and not _keepable(text):
            found.append(f"{what} holds half a character (a lone surrogate), which no store can keep")
    return found


def check_id(**given: object) -> None:
    """Raise MisconfiguredError if one of these ids is no text, or holds half a character: no store can look for it."""
    if faults := text_faults(given):
        raise MisconfiguredError(*faults)


def check_seq(**given: object) -> None:
    """Raise MisconfiguredError unless all of these can be the sequence number of an event, or 0."""
    for name, seq in given.items():
        if not isinstance(seq, int) or isinstance(seq, bool) or seq < 0:
            raise MisconfiguredError(f"{name}={seq!r} is no sequence number; give the `seq` of an event, or 0")


def _no_texts(given: Mapping[str, object]) -> list[str]:
    wrong = ((what, text) for what, text in given.items() if not isinstance(text, str))
    return [f"{what} must be a str, not {type(text).__name__}" for what, text in wrong]


def _keepable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _variables(
    context: Mapping[str, Any], what: str = "context", reserved: Collection[str] = METADATA
) -> tuple[dict[str, Any], list[str]]:
    """A copy of the context, or of other values by name, as a log reads it back; and its faults."""
    if not isinstance(context, Mapping):
        return {}, [f"the {what} must be a mapping of names to values, not {type(context).__name__}"]
    faults = [f"the context variable {name!r} is reserved; rename it" for name in sorted(context.keys() & reserved)]
    try:
        encoded = msgspec.json.encode(dict(context))
        # Numbers that JSON cannot hold are encoded as null.
        if b"null" in encoded and not _is_finite(msgspec.to_builtins(dict(context), str_keys=True)):
            faults.append(f"the {what} must be what JSON can hold: numbers have to be finite, not NaN or infinite")
        return msgspec.json.decode(encoded), faults
    except (TypeError, ValueError, RecursionError) as error:
        return {}, [*faults, f"the {what} must be what JSON can hold: {error}"]


def _is_finite(value: object) -> bool:
    """True if all numbers in a value are finite."""
    match value:
        case float():
            return isfinite(value)
        case dict():
            return all(map(_is_finite, value.values()))
        case list() | tuple():
            return all(map(_is_finite, value))
        case _:
            return True


CONVERSATION_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RunOptions(TypedDict, total=False):
    """Options of a run beside its text."""

    agent: str | None
    """The agent that answers; by default the active one."""
    conversation: str | None
    """The id of a conversation that goes on, or of a new one."""
    context: Mapping[str, Any] | None
    """Context variables to start with."""
    limits: Limits | None
    user: str | None
    correlation_id: str | None
    key: str | None
    """Idempotency key: the same key gives the same run."""
    files: Sequence[File | str | Path] | None
    """Files that go with the text: paths, addresses, or bytes as a File."""
    strategy: Strategy | None
    model: Any
    """They replace the team's strategy and model in this run and its delegates. Agents and handoffs keep those that
    they declare. Neither is recorded: a process that takes up the run later uses the team's."""


class WorkflowOptions(TypedDict, total=False):
    """Options of a workflow's run beside its inputs, as in RunOptions."""

    conversation: str | None
    context: Mapping[str, Any] | None
    limits: Limits | None
    user: str | None
    correlation_id: str | None
    key: str | None
    files: Sequence[File | str | Path] | None


F = TypeVar("F", bound=Callable[..., Any])


def with_options(method: F) -> F:
    """Show each option of a run in the signature of a method that takes them as keywords. Without it, `inspect`,
    help(…) and notebooks show `**options`."""
    return _shows(method, RunOptions.__annotations__)


def with_workflow_options(method: F) -> F:
    """`with_options` for methods that start workflows."""
    return _shows(method, WorkflowOptions.__annotations__)


def _shows(method: F, options: Mapping[str, Any]) -> F:
    signature = inspect.signature(method)
    *taken, _ = signature.parameters.values()
    shown = (
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__)
        for name, kind in options.items()
    )
    method.__signature__ = signature.replace(parameters=[*taken, *shown])  # type: ignore[attr-defined]
    return method


def message(
    text: str, *, conversation: str | None = None, key: str | None = None, files: Any = None, **options: Any
) -> Say:
    """The input of a run; raises MisconfiguredError, or TypeError for an unknown option."""
    if unknown := options.keys() - RunOptions.__annotations__.keys():
        known = ", ".join(RunOptions.__annotations__)
        raise TypeError(f"a run has no option {', '.join(sorted(unknown))}; it has: {known}")
    if (agent := options.get("agent")) is not None and not (isinstance(agent, str) and agent):
        raise MisconfiguredError(f"agent={agent!r} is not the id of an agent")
    if key is not None:
        check_texts(key=key)
    event = spoken(text, **options)
    return Say(conversation_id(conversation, key or ""), _with_files(event, files) if files else event, key or "")


def started(workflow: Workflow, inputs: Mapping[str, Any] | str | None, options: Mapping[str, Any]) -> Say:
    """The input that starts a workflow; raises MisconfiguredError, or TypeError for an unknown option."""
    if unknown := options.keys() - WorkflowOptions.__annotations__.keys():
        known = ", ".join(WorkflowOptions.__annotations__)
        raise TypeError(f"a workflow has no option {', '.join(sorted(unknown))}; it has: {known}")
    given: dict[str, Any] | None = None
    if inputs and not isinstance(inputs, str):
        given, faults = _variables(inputs, "inputs", reserved=frozenset())
        if faults:
            raise MisconfiguredError(*faults)
    text = inputs if isinstance(inputs, str) else workflow.title
    limits = options.get("limits") or workflow.limits
    say = message(text, **{**options, "limits": limits, "agent": workflow.id})
    return replace(say, spoken=replace(say.spoken, inputs=given))


def offered(roster: Roster, package: HandoffPackage, now: float, queued: bool = False) -> Say:
    """The input of a package that a program offers or, if `queued`, submits: then it waits until a worker claims it,
    unless its receiver is a person."""
    say = _handed(roster, package, list(roster.seats), now)
    claimed = queued and not isinstance(roster.seats[package.metadata.receiver], Person)
    return replace(say, spoken=replace(say.spoken, queued=True)) if claimed else say


def brokered(roster: Roster, capability: str, package: HandoffPackage, now: float, no_takers: NoTakers) -> Say:
    """The input of a package whose receiver is to be found by capability."""
    metadata = package.metadata
    if not isinstance(capability, str) or not (wanted := profile.key(capability)):
        raise MisconfiguredError(f"{capability!r} is no capability; give its name, such as 'contract-law'")
    if faults := taker_faults(no_takers):
        raise MisconfiguredError(*faults)
    if metadata.receiver:
        wrong = f"names {metadata.receiver!r}; offer it to that one, or leave it empty so that a receiver is found"
        raise PackageError("$.metadata.receiver", wrong)
    others = (each for each in metadata.required_capabilities if profile.key(each) != wanted)
    whole = replace(package, metadata=replace(metadata, required_capabilities=(capability, *others)))
    say = _handed(roster, whole, None, now)
    return replace(say, spoken=replace(say.spoken, no_takers=no_takers))


def _handed(roster: Roster, package: HandoffPackage, available: list[str] | None, now: float) -> Say:
    """The input of any package that a program hands over."""
    if not roster.handoffs_enabled:
        raise MisconfiguredError("each agent of this team works alone (handoffs_enabled=False), so nothing is offered")
    if (schema := package.expectations.output_schema) and (wrong := fault(schema)):
        raise PackageError("$.expectations.output_schema", wrong)
    if reserved := METADATA & package.context.variables.keys():
        raise PackageError("$.context.variables", f"{', '.join(sorted(reserved))} is reserved; rename it")
    metadata = package.metadata
    if available is not None and not metadata.receiver:
        wrong = f"is empty; name one of {', '.join(sorted(available))}, or let Team.broker find one by a capability"
        raise PackageError("$.metadata.receiver", wrong)
    # With a prefix: a run may have the same key.
    key = f"offer:{metadata.idempotency_key}" if metadata.idempotency_key else ""
    where = conversation_id(metadata.conversation or None, key)
    return Say(where, offer_of(package, available, now), key)


def package_of(given: HandoffPackage | Mapping[str, Any] | str | bytes) -> HandoffPackage:
    """The package, which may be given as JSON; raises PackageError."""
    if isinstance(given, HandoffPackage):
        return given
    return HandoffPackage.from_json(given) if isinstance(given, str | bytes) else HandoffPackage.from_dict(given)


def _with_files(event: UserSpoke, files: Sequence[File | str | Path]) -> UserSpoke:
    from changeover.models.files import attached

    return replace(event, files=attached(files))


def conversation_id(id: str | None, key: str) -> str:
    """This id, else the one that follows from a key; empty if both are. Raises MisconfiguredError."""
    if id is None:
        return f"key-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}" if key else ""
    if not isinstance(id, str) or not CONVERSATION_ID.fullmatch(id):
        raise MisconfiguredError(f"{id!r} cannot be a conversation's id; use 1 to 128 letters, digits, '.', '_', '-'")
    return id
