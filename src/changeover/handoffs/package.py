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
    """Names for priorities of handoffs; any other integer is valid too, and a higher one goes first."""

    # NORMAL is 0, so that a queue without priorities need not make one up.
    LOW = -10
    NORMAL = 0
    HIGH = 10
    URGENT = 20


PRIORITIES = {priority.name.lower(): priority for priority in Priority}
"""The names of priorities in JSON."""


class Task(Part, frozen=True):
    """The work that is handed over."""

    description: Annotated[str, Meta(min_length=1)]
    """What is to be done."""
    type: str = ""
    """The kind of work, for receivers that accept only some kinds."""
    requirements: tuple[str, ...] = ()
    """Requirements of the work, one each."""
    id: str = ""
    """The id of the task; filled in when the package is offered, if it is empty."""


class Step(Part, frozen=True):
    """A step that was done already."""

    description: str
    """What was done."""
    agent: str = ""
    """The agent that did it."""
    result: str = ""
    """Its result."""


class Decision(Part, frozen=True):
    """A decision that the receiver should not reopen."""

    decision: str
    """What was decided."""
    reason: str = ""
    """Why."""
    agent: str = ""
    """The agent that decided it."""


class FileReference(Part, frozen=True):
    """A file that the work is about."""

    path: Annotated[str, Meta(min_length=1)]
    """The path of the file."""
    sections: tuple[str, ...] = ()
    """The sections that matter; the whole file, if empty."""


class ToolCall(Part, frozen=True):
    """A call of a tool by an agent."""

    name: str
    """The name of the tool."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """The arguments of the call."""


class Said(Part, frozen=True):
    """One message of the conversation so far."""

    author: str
    """The author: a user, an agent, or the tool whose result it is."""
    text: str = ""
    """The text of the message."""
    role: Literal["user", "agent", "tool", "note"] = "user"
    """The role of the author; a note is a remark for the next reader."""
    calls: tuple[ToolCall, ...] = ()
    """The tool calls that an agent made with it."""


class Progress(Part, frozen=True):
    """The progress of a workflow."""

    phase: str = ""
    """The current phase."""
    next: str = ""
    """The next phase."""
    done: tuple[str, ...] = ()
    """The steps that are done."""
    remaining: tuple[str, ...] = ()
    """The steps that remain."""


class Context(Part, frozen=True, kw_only=True):
    """What is known about the task so far."""

    original_request: str = ""
    """What the user asked for, word for word."""
    summary: str = ""
    """A summary of the conversation so far."""
    current_state: str = ""
    """The current state of the work."""
    key_information: tuple[str, ...] = ()
    """Facts that the receiver must not overlook."""
    constraints: tuple[str, ...] = ()
    """Constraints that the receiver has to respect."""
    completed_steps: tuple[Step, ...] = ()
    """Steps that were done already."""
    decisions: tuple[Decision, ...] = ()
    """Decisions that were made, with their reasons."""
    intermediate_results: dict[str, Any] = field(default_factory=dict)
    """Results of the work so far, by name."""
    relevant_files: tuple[FileReference, ...] = ()
    """Files that the work is about."""
    fallbacks: tuple[str, ...] = ()
    """What to try when stuck."""
    escalation_path: tuple[str, ...] = ()
    """Whom to ask when nothing helps, in this order."""
    history: tuple[Said, ...] = ()
    """The messages of the conversation so far, oldest first."""
    reference: str = ""
    """A reference to the stored context, if the context itself does not travel."""
    variables: dict[str, Any] = field(default_factory=dict)
    """Context variables, by name."""
    artifacts: dict[str, str | None] = field(default_factory=dict)
    """References to results of the work, by name; null while a result does not exist yet."""
    workflow_state: Progress = field(default_factory=Progress)
    """The progress of the workflow that the task belongs to."""


class Metadata(Part, frozen=True, kw_only=True):
    """Sender, receiver, mode, priority and times of a handoff."""

    sender: str = ""
    """The agent that hands over."""
    receiver: str = ""
    """The agent that should take over; empty if one has to be found."""
    mode: Mode = Mode.DELEGATE
    """Whether a result comes back to the sender, or the receiver takes over for good."""
    reason: str = ""
    """Why it is handed over."""
    instructions: str = ""
    """Instructions for the receiver, in addition to its own."""
    required_capabilities: tuple[str, ...] = ()
    """Capabilities that the receiver must have."""
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = Priority.NORMAL.value
    """A higher priority goes first; the names low (-10), normal (0), high (10) and urgent (20) are valid too."""
    timestamp: Moment | None = None
    """When it was offered; filled in then."""
    deadline: Moment | None = None
    """When the work must be done."""
    attempt: Count = 1
    """The number of this offer of the task, from 1."""
    max_iterations: Count | None = None
    """How many model turns the receiver may take; null for 15."""
    estimated_tokens: Count | None = None
    """About how many tokens the task and its context have; filled in when a receiver is asked, if it is null."""
    conversation: str = ""
    """The id of the conversation that it belongs to."""
    correlation_id: str = ""
    """An id of the same matter in other systems."""
    user: str = ""
    """The user for whom the work is done."""
    idempotency_key: str = ""
    """Packages with the same key are one handoff, however often they are sent."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further data of the sender."""

    def __post_init__(self) -> None:
        if isinstance(self.priority, str):
            force_setattr(self, "priority", priority_of(self.priority))
        super().__post_init__()


class Expectations(Part, frozen=True, kw_only=True):
    """What the sender expects of the result."""

    output_schema: dict[str, Any] = field(default_factory=dict)
    """A JSON schema that the result has to fit; empty allows any result."""
    success_criteria: tuple[str, ...] = ()
    """What makes the result a good one."""
    timeout: Annotated[float, Meta(gt=0)] | None = 300.0
    """After how many seconds the handoff expires; null for never."""


class HandoffPackage(Part, frozen=True):
    """Everything that a receiver gets with a handoff. A value that does not fit raises PackageError."""

    task: Task
    """The work that is handed over."""
    context: Context = field(default_factory=Context)
    """What is known about the task."""
    metadata: Metadata = field(default_factory=Metadata)
    """Sender, receiver, mode, priority and times."""
    expectations: Expectations = field(default_factory=Expectations)
    """What the sender expects of the result."""
    protocol: str = PROTOCOL
    """The version of the package format: major.minor. A new minor version only adds fields."""

    def __post_init__(self) -> None:
        check_protocol(self.protocol)
        super().__post_init__()

    @classmethod
    def from_dict(cls, given: object) -> Self:
        """The package that the JSON object `given` describes; raises PackageError, which says what is wrong where."""
        if isinstance(given, dict):
            # First: other fields may be valid in a version that this one cannot read.
            check_protocol(given.get("protocol"))
        return super().from_dict(given)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The package that the JSON in `text` describes; raises PackageError, which says what is wrong and where."""
        try:
            given = msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise PackageError(ROOT, f"cannot be read as JSON ({error})") from None
        return cls.from_dict(given)

    def to_dict(self) -> dict[str, Any]:
        """The package as a JSON object, without the fields that have their default value."""
        return {"protocol": self.protocol, **super().to_dict()}

    def to_json(self, indent: int | None = None) -> str:
        """The package as JSON; `indent` is the number of spaces, None for one line."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)


def fingerprint(package: HandoffPackage) -> str:
    """A SHA-256 of what the package says: without attempt, timestamp and version, and independent of field order."""
    content = package.to_dict()
    metadata = content.get("metadata", {})
    if package.metadata.deadline is not None:
        metadata["deadline"] = str(package.metadata.deadline - EPOCH)
    content["metadata"] = {name: value for name, value in metadata.items() if name not in ("attempt", "timestamp")}
    del content["protocol"]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def priority_of(name: str) -> Priority:
    """The priority with this name; raises PackageError if there is none."""
    if name not in PRIORITIES:
        raise PackageError(f"{ROOT}.priority", f"expected `int` or one of {', '.join(PRIORITIES)}, got {name!r}")
    return PRIORITIES[name]


def check_protocol(version: object) -> None:
    """Raise PackageError if this version of Changeover cannot read packages of that version."""
    path = f"{ROOT}.protocol"
    if version is None:
        raise PackageError(path, f'is missing; this version of Changeover writes "{PROTOCOL}"')
    if not isinstance(version, str) or not re.fullmatch(r"[0-9]+\.[0-9]+", version):
        raise PackageError(path, f'expected a version like "{PROTOCOL}", got {version!r}')
    if version.partition(".")[0] != MAJOR:
        problem = f"is {version}, and this version of Changeover reads {MAJOR}.x (it writes {PROTOCOL})"
        raise PackageError(path, problem)


def history_of(messages: Iterable[Message]) -> tuple[Said, ...]:
    """The messages as a package holds them: without thinking, and without data of providers."""
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
