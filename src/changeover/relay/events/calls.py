"""Events of the calls of a turn: tools started and finished, calls refused, approvals requested and decided."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from changeover.facts import RequestKind
from changeover.guards.approval import Decision, OnExpiry
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
    unknown: bool = False
    """It was begun in an earlier life, and whether it took effect cannot be known."""
    dropped: tuple[str, ...] = ()
    directive: Directive | None = None


class CallRefused(Recordable, frozen=True, tag="call_refused"):
    """A call was not carried out, and the model is told why."""

    call: str
    task: int
    reason: str
    why: Literal["arguments", "tool", "receiver", "command", "ignored", "limit", "declined", "result", "guard"]
    receiver: str = ""


class ApprovalRequested(Recordable, frozen=True, tag="approval_requested"):
    """A person has to decide how this call goes on, or answer in an agent's stead."""

    call: str
    task: int
    agent: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    receiver: str = ""
    message: str = ""
    expires_at: float | None = None
    on_expiry: OnExpiry = "reject"
    kind: RequestKind = "approval"
    roles: tuple[str, ...] = ()
    """Who decides has to have one of these; without any, anybody may."""
    rule: str = ""
    """The rule that wants it, if it is one."""


class ApprovalWaived(Recordable, frozen=True, tag="approval_waived"):
    """Nobody has to be asked about this call."""

    call: str
    task: int
    rule: str = ""
    """The rule that wanted it, if it was one."""


class ApprovalDecided(Recordable, frozen=True, tag="approval_decided"):
    """Somebody decided, or nobody did in time."""

    call: str
    digest: str
    """Of the request that was shown: it holds for no other."""
    decision: Decision
    by: str = ""
    expired: bool = False
    roles: tuple[str, ...] = ()
    """As what that one decided, if it had to be somebody in particular."""
