"""Commands: the effects that a state has outstanding. They are derived and never stored, so may hold references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from changeover.agent.specialist import Wish
from changeover.facts import ApprovalRequest, Expected, Ticket
from changeover.guards.approval import Approval
from changeover.guards.checks import Check
from changeover.guards.limits import Choice, Limits
from changeover.handoffs.briefing import Brief, Briefing
from changeover.handoffs.callback import Acceptance, Rollback
from changeover.handoffs.strategies import ContextStrategy, Handover
from changeover.ids import split_handoff
from changeover.messages import Call, Message, View
from changeover.relay.events import (
    ContextPacked,
    Event,
    FollowUpDone,
    FollowUpFailed,
    HandoffOffered,
    RollbackDone,
    RollbackFailed,
    Started,
    UserSpoke,
)
from changeover.tools.run_context import RunContext


class CallModel(Struct, frozen=True, gc=False):
    """Ask the active agent's model for its next reply."""

    id: str
    task: int
    context: RunContext
    thread: View[Message]
    turn: int
    """Number of calls of this agent's model before this one, in this conversation."""
    attempt: int = 1
    not_before: float = 0.0
    """Time before which the engine does not perform it."""
    handoffs: bool = True
    """True if the model may hand off now."""
    last: bool = False
    """True if the limits allow no further reply: the model gets no tools, and has to answer."""
    fetches: bool = False
    """True if the agent can fetch earlier messages."""
    variants: Mapping[str, str] = {}
    """Variants of this tree, by experiment."""
    checks: Sequence[Check] = ()
    """The checks that the agent declares."""
    unchecked: tuple[str, ...] = ()
    """Texts that the model would read, and that were not checked yet."""
    written: Mapping[str, int] = {}
    """Instructions that functions wrote for earlier calls, each with the position of the event that has the text."""


class CallFunction(Struct, frozen=True, gc=False):
    """Call the active Function member."""

    id: str
    task: int
    context: RunContext


class RunTool(Struct, frozen=True, gc=False):
    """Run one tool call."""

    id: str
    task: int
    context: RunContext
    call: Call
    at_most_once: bool = False
    begun: bool = False
    """True if its intent is recorded: a process began it, and its outcome may be unknown."""
    read_only: bool = False


class SeekApproval(Struct, frozen=True, gc=False):
    """Find out whether a call needs approval, and request it."""

    id: str
    task: int
    context: RunContext
    call: Call
    approval: Approval
    receiver: str = ""
    message: str = ""
    """Receiver and message of a handoff; empty for a tool."""
    rule: str = ""
    """The rule that demands it, if one does."""


class JudgeResult(Struct, frozen=True, gc=False):
    """Check the answer of a receiver against its expectations."""

    id: str
    task: int
    text: str
    expected: Expected
    """The expectations. They name the sender and its tool, whose declaration also has the functions that judge."""
    call: str = ""
    """The call that gave the answer, if a call ends the run."""


class FindReceiver(Struct, frozen=True, gc=False):
    """Find a receiver for a task."""

    id: str
    task: int
    conversation: str
    sender: str
    wish: Wish
    among: tuple[str, ...] = ()
    """Agents that may be chosen; any but the sender if empty."""
    brokered: bool = False
    """True if all candidates are asked in turn, busy or not."""


class JudgeTask(Struct, frozen=True, gc=False):
    """Ask the helper model for the tier of a run's task."""

    id: str
    task: int
    conversation: str
    run: int
    text: str
    limits: Limits
    found: Choice
    """The tier that the words of the task suggest."""


class CallBack(Struct, frozen=True, gc=False):
    """Call the function that the declaration of a handoff names for its acceptance or its rollback."""

    about: Rollback | Acceptance
    attempt: int = 1
    not_before: float = 0.0

    @property
    def id(self) -> str:
        return f"{self.key}{self.attempt}"

    @property
    def key(self) -> str:
        """The part of the id that all attempts share."""
        return split_handoff(self.about.idempotency_key)[1]

    @property
    def call(self) -> str:
        """The call of the handoff."""
        return split_handoff(self.about.handoff.id)[1]

    def again(self, at: float) -> CallBack:
        """The next attempt, at this time."""
        return CallBack(self.about, self.attempt + 1, at)

    def done(self) -> RollbackDone | FollowUpDone:
        """The event of a call that returned, or whose function is no longer declared."""
        return RollbackDone(self.call) if isinstance(self.about, Rollback) else FollowUpDone(self.call)

    def failed(self, reason: str, retry_at: float) -> RollbackFailed | FollowUpFailed:
        """The event of a call that failed."""
        kind = RollbackFailed if isinstance(self.about, Rollback) else FollowUpFailed
        return kind(self.call, reason, retry_at)


class AwaitApproval(Struct, frozen=True, gc=False):
    """Wait for a person's decision, or until the request expires."""

    id: str
    task: int
    request: ApprovalRequest


class AskReceiver(Struct, frozen=True, gc=False):
    """Ask the receiver of a handoff whether it accepts."""

    id: str
    task: int
    context: RunContext
    """The sender's context."""
    offer: HandoffOffered
    thread: View[Message]
    deadline: float | None = None
    package: dict[str, Any] | None = None
    """The package, if code makes the offer."""
    packed: ContextPacked | None = None
    """The receiver's context, if it had to be made."""


class PackContext(Struct, frozen=True, gc=False):
    """Make the context of an offer's receiver by its strategy."""

    id: str
    task: int
    conversation: str
    offer: HandoffOffered
    strategy: ContextStrategy
    handover: Handover
    brief: Brief
    """What the receiver is told beside the packed context."""
    briefing: Briefing
    covered: int
    """Number of messages of the sender's thread that the chapters cover afterwards."""
    turn: int
    """Number of calls of the helper model before this one, in this conversation."""
    fallback: int
    """Number of tokens that the receiver gets if packing fails."""
    room: int | None = None
    """Number of tokens that the briefing may take; None for no limit."""


class FetchContext(Struct, frozen=True, gc=False):
    """Read stored messages from before an agent took over."""

    id: str
    task: int
    root: str
    call: Call
    refs: tuple[str, ...]
    """Addresses of all that the agent can read, oldest first."""


class AwaitClaim(Struct, frozen=True, gc=False):
    """Wait until a worker claims the ticket: stands for a command that only the holder of the claim performs."""

    id: str
    task: int
    ticket: Ticket


class RunChild(Struct, frozen=True, gc=False):
    """Run a delegate in a child conversation and bring back its result."""

    id: str
    task: int
    child: str
    opening: Started
    spoken: UserSpoke
    receiver: str
    deadline: float | None = None
    queued: bool = False
    """True if workers claim the delegate's work."""
    not_before: float = 0.0
    """Time before which the engine does not open it."""


class CancelChild(Struct, frozen=True, gc=False):
    """Cancel a delegate."""

    id: str
    task: int
    call: str
    child: str
    opening: Started
    receiver: str
    reason: str = "cancelled"
    by: str = ""
    """The agent, caller or engine that cancels it."""


class Record(Struct, frozen=True, gc=False):
    """A decision that needs no effect: an event to append at once. It never leaves `settle`."""

    event: Event
    then: Event | None = None
    """The event that follows in any case, because nothing can come between the two. A decision on the state after
    `event` would be the same."""
    ends: bool = False
    """True if nothing is outstanding after it, so that no further decision is needed."""


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
    | CallBack
)
"""Effects that `perform` carries out, the same for every engine."""

Command = Effect | AwaitApproval | AskReceiver | AwaitClaim | RunChild | CancelChild
"""All commands. Each engine carries out those that are no Effect itself: it knows how to wait, and where other
conversations are."""
