"""Events of the calls of a turn: tools started and finished, calls refused, approvals requested and decided."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from changeover.facts import RequestKind
from changeover.guards.approval import Decision, OnExpiry
from changeover.messages import File
from changeover.relay.events.runs import Recordable
from changeover.tools.command import Directive


class ToolStarted(Recordable, frozen=True, tag="tool_started"):
    """The intent of an at-most-once tool: from here on its effect may have happened."""

    call: str
    task: int


class ToolFinished(Recordable, frozen=True, tag="tool_finished"):
    """A tool gave a result, or an error that the model can act on."""

    call: str
    task: int
    text: str
    ok: bool = True
    """False if the text is an error."""
    unknown: bool = False
    """True if it began before a crash, so that its effect is unknown."""
    dropped: tuple[str, ...] = ()
    directive: Directive | None = None
    read_only: bool = False
    """True if the tool is declared to change nothing."""
    files: tuple[File, ...] = ()
    began: float = 0.0
    """When the tool was called; 0 in old logs, and if it is unknown."""


class SkillLoaded(Recordable, frozen=True, tag="skill_loaded"):
    """An agent loaded a skill: the result of its call is the text of the instructions."""

    call: str
    task: int
    skill: str
    """Name of the skill."""
    text: str
    """The instructions of the skill."""


class CallRefused(Recordable, frozen=True, tag="call_refused"):
    """A call was not carried out, and the model is told why."""

    call: str
    task: int
    reason: str
    why: Literal["arguments", "tool", "receiver", "command", "ignored", "limit", "declined", "result", "guard", "step"]
    """The kind of reason."""
    receiver: str = ""
    cycle: tuple[str, ...] = ()
    """The agents that hand the task round, if that is why."""
    limit: str = ""
    """The name of the limit, if that is why; empty in old logs."""


class ApprovalRequested(Recordable, frozen=True, tag="approval_requested"):
    """A person has to decide about a call, or to answer in place of an agent."""

    call: str
    task: int
    agent: str
    tool: str
    """The tool that would be called."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """The arguments of the call."""
    receiver: str = ""
    message: str = ""
    expires_at: float | None = None
    """When the request expires; None for never."""
    on_expiry: OnExpiry = "reject"
    """The decision that holds when it expires."""
    kind: RequestKind = "approval"
    """What is asked: an approval, a permission, an escalation or a task."""
    roles: tuple[str, ...] = ()
    """The person who decides must have one of these roles; any person may decide if empty."""
    rule: str = ""
    """The rule that demands it, if one does."""


class ApprovalWaived(Recordable, frozen=True, tag="approval_waived"):
    """A call needs no approval after all."""

    call: str
    task: int
    rule: str = ""
    """The rule that demanded it, if one did."""
    receiver: str | None = None
    """The receiver of the call, "" for a tool; None in older logs."""


class ApprovalDecided(Recordable, frozen=True, tag="approval_decided"):
    """A person decided, or the request expired."""

    call: str
    digest: str
    """Digest of the request that the person saw; the decision holds for no other."""
    decision: Decision
    """The decision."""
    by: str = ""
    expired: bool = False
    """True if the request expired before a person decided."""
    roles: tuple[str, ...] = ()
    """Roles of the person, if the request demands some."""
