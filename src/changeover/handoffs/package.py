"""HandoffPackage: the task, its context, its metadata and the expected result, as they travel with a handoff."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import IntEnum
from typing import Annotated, Any, Literal, Self, assert_never

import msgspec
from msgspec import Meta, field
from msgspec.structs import force_setattr

from changeover.errors import PackageError
from changeover.facts import Mode
from changeover.handoffs.json_value import ROOT
from changeover.handoffs.part import Part
from changeover.messages import Assistant, Message, Note, ToolResult, User, with_labels

PROTOCOL = "1.0"
MAJOR = PROTOCOL.partition(".")[0]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Moment = Annotated[datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class Priority(IntEnum):
    """Names for how urgent a handoff is; any other integer will do as well, and the higher one goes first."""

    # Normal is nothing: a queue of somebody else's, which knows no priority, has no need to make one up.
    LOW = -10
    NORMAL = 0
    HIGH = 10
    URGENT = 20


PRIORITIES = {priority.name.lower(): priority for priority in Priority}
"""Their names, as they stand in JSON."""


class Task(Part, frozen=True):
    """The work that is handed over."""

    description: Annotated[str, Meta(min_length=1)]
    """What is to be done."""
    type: str = ""
    """What kind of work it is, for those who take only some kinds."""
    requirements: tuple[str, ...] = ()
    """What has to hold for the work, one demand each."""
    id: str = ""
    """Names the task; filled in when the package is offered, if it is empty."""


class Step(Part, frozen=True):
    """Something that was done already."""

    description: str
    """What was done."""
    agent: str = ""
    """Who did it."""
    result: str = ""
    """What came of it."""


class Decision(Part, frozen=True):
    """Something that was decided and is not to be decided anew."""

    decision: str
    """What was decided."""
    reason: str = ""
    """Why."""
    agent: str = ""
    """Who decided it."""


class FileReference(Part, frozen=True):
    """A file that the work is about."""

    path: Annotated[str, Meta(min_length=1)]
    """Where it is."""
    sections: tuple[str, ...] = ()
    """Which parts of it matter; all of it, if none is named."""


class ToolCall(Part, frozen=True):
    """A tool that an agent called."""

    name: str
    """The tool."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """What it was given."""


class Said(Part, frozen=True):
    """One message of the conversation so far."""

    author: str
    """Who said it: a user, an agent, or the tool whose result it is."""
    text: str = ""
    """What was said."""
    role: Literal["user", "agent", "tool", "note"] = "user"
    """What its author is; a note is for the reader only."""
    calls: tuple[ToolCall, ...] = ()
    """The tools that an agent called with it."""


class Progress(Part, frozen=True):
    """How far a flow has come."""

    phase: str = ""
    """The phase it is in."""
    next: str = ""
    """What comes next."""
    done: tuple[str, ...] = ()
    """The steps that are behind it."""
    remaining: tuple[str, ...] = ()
    """The steps that are before it."""


class Context(Part, frozen=True, kw_only=True):
    """What is known about the task so far."""

    original_request: str = ""
    """What the user asked for, word for word."""
    summary: str = ""
    """The story so far, in short."""
    current_state: str = ""
    """Where things stand now."""
    key_information: tuple[str, ...] = ()
    """Facts that must not be overlooked."""
    constraints: tuple[str, ...] = ()
    """What the receiver has to keep to."""
    completed_steps: tuple[Step, ...] = ()
    """What was done already."""
    decisions: tuple[Decision, ...] = ()
    """What was decided, and why."""
    intermediate_results: dict[str, Any] = field(default_factory=dict)
    """Results of the work so far, by name."""
    relevant_files: tuple[FileReference, ...] = ()
    """Files that the work is about."""
    fallbacks: tuple[str, ...] = ()
    """What to try when stuck."""
    escalation_path: tuple[str, ...] = ()
    """Whom to turn to when nothing helps, one after the other."""
    history: tuple[Said, ...] = ()
    """The messages that went before, oldest first."""
    reference: str = ""
    """Where the whole context is kept, if it does not travel itself."""
    variables: dict[str, Any] = field(default_factory=dict)
    """Context variables, by name."""
    artifacts: dict[str, str | None] = field(default_factory=dict)
    """Where each thing that was made can be found, by name; null while it is not made yet."""
    workflow_state: Progress = field(default_factory=Progress)
    """How far the flow has come that the task belongs to."""


class Metadata(Part, frozen=True, kw_only=True):
    """Who hands over to whom, how, and when."""

    sender: str = ""
    """Who hands over."""
    receiver: str = ""
    """Who is to take over; empty while it is still to be found."""
    mode: Mode = Mode.DELEGATE
    """Whether a result comes back to the sender, or the receiver takes over for good."""
    reason: str = ""
    """Why it is handed over."""
    instructions: str = ""
    """What the receiver is told to do beyond its own instructions."""
    required_capabilities: tuple[str, ...] = ()
    """What the receiver has to be able to do."""
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = Priority.NORMAL.value
    """The higher goes first; low is -10, normal 0, high 10, urgent 20, and these names may stand for the figures."""
    timestamp: Moment | None = None
    """When it was offered; filled in then."""
    deadline: Moment | None = None
    """When the work must be done."""
    attempt: Count = 1
    """Which offer of this task it is, counted from 1."""
    max_iterations: Count | None = None
    """How many model turns the receiver may take; as many as its team allows, if null."""
    estimated_tokens: Count | None = None
    """About how many tokens the task and its context are; filled in for whoever is asked to take it, if it is null."""
    conversation: str = ""
    """The conversation that it belongs to."""
    correlation_id: str = ""
    """What others call the business that it belongs to."""
    user: str = ""
    """For whom it is done."""
    idempotency_key: str = ""
    """Packages with the same key are the same handoff, however often they are sent."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Whatever else the sender wants to say."""

    def __post_init__(self) -> None:
        if isinstance(self.priority, str):
            force_setattr(self, "priority", priority_of(self.priority))
        super().__post_init__()


class Expectations(Part, frozen=True, kw_only=True):
    """What the result has to be like."""

    output_schema: dict[str, Any] = field(default_factory=dict)
    """A JSON schema that the result has to fit; any result will do, if it is empty."""
    success_criteria: tuple[str, ...] = ()
    """What makes the result a good one."""
    timeout: Annotated[float, Meta(gt=0)] | None = 300.0
    """After how many seconds nobody waits any longer; null if they wait for ever."""


class HandoffPackage(Part, frozen=True):
    """Everything that a receiver is given with a handoff."""

    task: Task
    """The work that is handed over."""
    context: Context = field(default_factory=Context)
    """What is known about it."""
    metadata: Metadata = field(default_factory=Metadata)
    """Who hands over to whom, how, and when."""
    expectations: Expectations = field(default_factory=Expectations)
    """What the result has to be like."""
    protocol: str = PROTOCOL
    """The version of this form: major.minor. A new minor version only adds fields."""

    def __post_init__(self) -> None:
        check_protocol(self.protocol)
        super().__post_init__()

    @classmethod
    def from_dict(cls, given: object) -> Self:
        """The package that this object of JSON describes; raises PackageError, which says what is wrong and where."""
        if isinstance(given, dict):
            # First of all: what follows may be right in a version that we cannot read.
            check_protocol(given.get("protocol"))
        return super().from_dict(given)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The package that this JSON describes; raises PackageError, which says what is wrong and where."""
        try:
            given = msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise PackageError(ROOT, f"cannot be read as JSON ({error})") from None
        return cls.from_dict(given)

    def to_dict(self) -> dict[str, Any]:
        """The package as an object of JSON, without the fields that say only what holds anyway."""
        return {"protocol": self.protocol, **super().to_dict()}

    def to_json(self, indent: int | None = None) -> str:
        """The package as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)


def fingerprint(package: HandoffPackage) -> str:
    """The same for two packages that say the same, whichever attempt it is, whenever and in whatever order said."""
    said = package.to_dict()
    metadata = said.get("metadata", {})
    if package.metadata.deadline is not None:
        metadata["deadline"] = str(package.metadata.deadline - EPOCH)
    aside = {"attempt", "timestamp"}
    said["metadata"] = {name: value for name, value in metadata.items() if name not in aside}
    del said["protocol"]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def priority_of(name: str) -> Priority:
    """The priority of this name."""
    if name not in PRIORITIES:
        raise PackageError(f"{ROOT}.priority", f"expected `int` or one of {', '.join(PRIORITIES)}, got {name!r}")
    return PRIORITIES[name]


def check_protocol(version: object) -> None:
    """Raises PackageError if packages of this version cannot be read here."""
    path = f"{ROOT}.protocol"
    if version is None:
        raise PackageError(path, f'is missing; this version of Changeover writes "{PROTOCOL}"')
    if not isinstance(version, str) or not re.fullmatch(r"[0-9]+\.[0-9]+", version):
        raise PackageError(path, f'expected a version like "{PROTOCOL}", got {version!r}')
    if version.partition(".")[0] != MAJOR:
        problem = f"is {version}, and this version of Changeover reads {MAJOR}.x (it writes {PROTOCOL})"
        raise PackageError(path, problem)


def history_of(messages: Iterable[Message]) -> tuple[Said, ...]:
    """The messages, oldest first, without what only a provider or an agent itself has a use for."""
    return tuple(map(_said, messages))


def _said(message: Message) -> Said:
    match message:
        case User():
            return Said(message.author, with_labels(message.text, message.files))
        case Assistant():
            calls = tuple(ToolCall(call.name, call.args) for call in message.calls)
            return Said(message.agent, message.text, "agent", calls)
        case ToolResult():
            return Said(message.name, message.text, "tool")
        case Note():
            return Said(message.author, message.text, "note")
        case _:
            assert_never(message)
