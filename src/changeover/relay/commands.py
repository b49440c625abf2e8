"""Commands: what a state has outstanding. Derived from the state and never stored, so they may hold references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from changeover.agent.specialist import Wish
from changeover.facts import ApprovalRequest, Expected, Rollback, Ticket
from changeover.guards.approval import Approval
from changeover.guards.limits import Choice, Limits
from changeover.handoffs.briefing import Brief, Briefing
from changeover.handoffs.strategies import ContextStrategy, Handover
from changeover.messages import Call, Message, View
from changeover.relay.events import ContextPacked, Event, HandoffOffered, Started, UserSpoke
from changeover.tools.run_context import RunContext


class CallModel(Struct, frozen=True, gc=False):
    """Ask the active agent's model for its next reply."""

    id: str
    task: int
    context: RunContext
    thread: View[Message]
    turn: int
    """How often this agent's model was called in this conversation before."""
    attempt: int = 1
    not_before: float = 0.0
    """The engine waits until then before it performs this."""
    handoffs: bool = True
    """Whether the model may hand off now."""
    last: bool = False
    """Whether this is the last reply the run may take: no tools, an answer."""
    fetches: bool = False
    """Whether there is something that the agent may fetch."""
    variants: Mapping[str, str] = {}
    """Which are tried here, by experiment."""


class CallFunction(Struct, frozen=True, gc=False):
    """Call the Function member that is active."""

    id: str
    task: int
    context: RunContext


class RunTool(Struct, frozen=True, gc=False):
    """Carry out one call of a tool."""

    id: str
    task: int
    context: RunContext
    call: Call
    at_most_once: bool = False
    begun: bool = False
    """Its intent is recorded: somebody began it, perhaps in an earlier life."""


class SeekApproval(Struct, frozen=True, gc=False):
    """Find out whether a person has to be asked about a call, and if so, ask."""

    id: str
    task: int
    context: RunContext
    call: Call
    approval: Approval
    receiver: str = ""
    message: str = ""
    """Of a handoff; a tool has neither."""
    rule: str = ""
    """The rule that wants it, if it is one."""


class JudgeResult(Struct, frozen=True, gc=False):
    """Hold the answer of a receiver against what is expected of it."""

    id: str
    task: int
    text: str
    expected: Expected
    sender: str
    tool: str
    """By whose tool it was handed over: its declaration says what is expected, functions included."""
    call: str = ""
    """The call that gave it, if it was one that ends the run."""


class FindReceiver(Struct, frozen=True, gc=False):
    """Find who fits a task."""

    id: str
    task: int
    conversation: str
    sender: str
    wish: Wish
    among: tuple[str, ...] = ()
    """Who may be chosen; anybody but the sender, if nobody is named."""
    brokered: bool = False
    """All who can do it are asked in turn, busy or not."""


class JudgeTask(Struct, frozen=True, gc=False):
    """Ask the helper model what kind of task a run has."""

    id: str
    task: int
    conversation: str
    run: int
    text: str
    limits: Limits
    found: Choice
    """What its words say."""


class CleanUp(Struct, frozen=True, gc=False):
    """Call what cleans up after a handoff that was rolled back."""

    id: str
    rollback: Rollback
    attempt: int = 1
    not_before: float = 0.0


class AwaitApproval(Struct, frozen=True, gc=False):
    """Wait for a person's decision, or until nobody can decide any more."""

    id: str
    task: int
    request: ApprovalRequest


class AskReceiver(Struct, frozen=True, gc=False):
    """Ask the receiver of a handoff whether it takes the task."""

    id: str
    task: int
    context: RunContext
    """The sender's."""
    offer: HandoffOffered
    thread: View[Message]
    deadline: float | None = None
    package: dict[str, Any] | None = None
    """What code hands over, if it is code that offers."""
    packed: ContextPacked | None = None
    """What the receiver gets of the thread, if that had to be made."""


class PackContext(Struct, frozen=True, gc=False):
    """Make what the receiver of an offer gets of the sender's context."""

    id: str
    task: int
    conversation: str
    offer: HandoffOffered
    strategy: ContextStrategy
    handover: Handover
    brief: Brief
    """What the receiver is told beside what is made of that."""
    briefing: Briefing
    covered: int
    """How many messages of the sender's thread are covered when it is done."""
    turn: int
    """How often the helper model was asked in this conversation before."""
    fallback: int
    """How many tokens the receiver gets if it cannot be made."""


class FetchContext(Struct, frozen=True, gc=False):
    """Bring what an agent wants to read of what was said before it took over."""

    id: str
    task: int
    root: str
    call: Call


class AwaitClaim(Struct, frozen=True, gc=False):
    """Wait until somebody claims the ticket: what an engine makes of a command that only whoever holds it performs."""

    id: str
    task: int
    ticket: Ticket


class RunChild(Struct, frozen=True, gc=False):
    """Let a delegate work in a conversation of its own, and bring back what comes of it."""

    id: str
    task: int
    child: str
    opening: Started
    spoken: UserSpoke
    receiver: str
    deadline: float | None = None
    queued: bool = False
    """The delegate is served by claims."""


class CancelChild(Struct, frozen=True, gc=False):
    """Call a delegate back."""

    id: str
    task: int
    call: str
    child: str
    opening: Started
    receiver: str
    reason: str = "cancelled"


class Record(Struct, frozen=True, gc=False):
    """A decision that needs no effect: an event to append at once. It never leaves `settle`."""

    event: Event


Effect = (
    CallModel
    | CallFunction
    | RunTool
    | SeekApproval
    | FindReceiver
    | JudgeTask
    | JudgeResult
    | PackContext
    | FetchContext
    | CleanUp
)
"""What `perform` carries out, the same for every engine."""

Command = Effect | AwaitApproval | AskReceiver | AwaitClaim | RunChild | CancelChild
"""The rest is each engine's own: it knows how to wait, and where other conversations live."""
