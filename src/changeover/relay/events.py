"""What happened: the only thing that is ever stored. An event once written is readable for ever; fields are only added.

Ids are positions. A run is the position of the UserSpoke that began it, a task the position of the event that gave
it to an agent, a call `<position of the reply>.<index>`; so nobody has to make them up, and a restart finds the same.
A handoff is named after its call; when the call is offered to others, `+1`, `+2` follow.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from changeover.facts import Expected, Fault, LimitName, Mode, RequestKind, Spent, Usage
from changeover.guards.approval import Decision, OnExpiry
from changeover.guards.limits import Limits
from changeover.handoffs.context import Merge
from changeover.messages import Call, File
from changeover.tools.command import Directive

SCHEMA = 1
"""The version of this vocabulary; every entry says by which it was written."""


class Recordable(Struct, frozen=True, omit_defaults=True, gc=False, tag_field="event"):
    """What every event has in common: its name in the log."""


class Started(Recordable, frozen=True, tag="started"):
    """A conversation began; without a `root` it is one itself."""

    root: str = ""
    parent: str = ""
    depth: int = 0


class Given(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a delegate is given beside its task."""

    sender: str
    task: int
    """The sender's own task."""
    tool: str = ""
    instructions: str = ""
    briefing: str = ""
    max_iterations: int = 0
    path: tuple[str, ...] = ()
    """Every agent on the way from the root's first to this one."""
    tokens: int = 0
    elapsed: float = 0.0
    retries: int = 0
    artifacts: dict[str, str | None] = {}
    workflow_state: dict[str, Any] = {}
    expected: Expected | None = None


class UserSpoke(Recordable, frozen=True, tag="user_spoke"):
    """A user said something, or an agent gave a task; it waits until its run can begin."""

    text: str
    user: str = ""
    agent: str = ""
    context: dict[str, Any] = field(default_factory=dict)
    limits: Limits | None = None
    correlation_id: str = ""
    given: Given | None = None
    """With what an agent gave it, if it was an agent."""
    files: tuple[File, ...] = ()
    package: dict[str, Any] | None = None
    """What code hands over, in its JSON form, if it was code that asks somebody of the team."""


class RunStarted(Recordable, frozen=True, tag="run_started"):
    """An agent took up what the user said; its own position is the id of the agent's task."""

    run: int
    agent: str


class ModelReplied(Recordable, frozen=True, tag="model_replied"):
    """A model answered, with text, calls, or both."""

    agent: str
    task: int
    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None
    """None for one request of which nothing more is known."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What the model's provider needs back with it; not ours to read."""


class ModelFailed(Recordable, frozen=True, tag="model_failed"):
    """One attempt at a model call failed; without `retry_at` it was the last."""

    agent: str
    task: int
    reason: str
    retry_at: float | None = None


class FunctionReturned(Recordable, frozen=True, tag="function_returned"):
    """A Function or Person member gave its answer, or said where to go."""

    agent: str
    task: int
    text: str = ""
    directive: Directive | None = None
    by: str = ""
    """Who answered, if it was a person."""


class FunctionFailed(Recordable, frozen=True, tag="function_failed"):
    """A Function member raised."""

    agent: str
    task: int
    reason: str


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
    why: Literal["arguments", "tool", "receiver", "command", "ignored", "limit", "declined"]
    receiver: str = ""


class HandoffOffered(Recordable, frozen=True, tag="handoff_offered"):
    """A sender asked that a receiver take over."""

    call: str
    task: int
    sender: str
    receiver: str
    message: str = ""
    mode: Mode = Mode.TRANSFER
    variables: dict[str, Any] = field(default_factory=dict)
    instructions: str = ""
    strategy: str = "full"
    merge: Merge = "merge"
    return_to: str = ""
    dropped: tuple[str, ...] = ()
    about: str = ""
    """What a delegate should know, in the sender's words."""
    final: bool = False
    """A delegate whose answer is the run's answer."""
    max_iterations: int = 0
    recent: int = 5
    """How many of the last messages a delegate is told; all, if it is negative."""
    deadline: float | None = None
    """Until when a transfer has to be accepted, and a delegate be back."""
    alternatives: tuple[str, ...] = ()
    """Who is asked when the receiver does not want it."""
    attempt: int = 1
    retry_of: str = ""
    """The handoff of the same task that was declined before."""
    declined_by: tuple[str, ...] = ()
    """Who did not want it, and is not asked again."""
    expected: Expected | None = None


class HandoffAccepted(Recordable, frozen=True, tag="handoff_accepted"):
    """The receiver took the task. Of a transfer, the sender's task ended and a new one began at this position; a
    delegate works in a conversation of its own, and what comes of it is returned."""

    call: str
    task: int
    receiver: str
    mode: Mode = Mode.TRANSFER
    by: str = ""
    """Who accepted, if it was a person."""
    deadline: float | None = None
    """Until when a delegate has to be back."""
    estimate: float | None = None
    """In how many seconds the receiver thinks to be done."""


class HandoffRejected(Recordable, frozen=True, tag="handoff_rejected"):
    """The receiver does not take the task; it is still its sender's."""

    call: str
    task: int
    receiver: str
    reason: str
    suggested: str = ""
    """Who would be better, as the receiver says."""
    by: str = ""


class HandoffConditional(Recordable, frozen=True, tag="handoff_conditional"):
    """The receiver would take the task if it had more context, or a permission."""

    call: str
    task: int
    receiver: str
    needs_context: tuple[str, ...] = ()
    needs_permission: tuple[str, ...] = ()


class HandoffExpired(Recordable, frozen=True, tag="handoff_expired"):
    """The receiver did not answer, or did not finish, in time; what it did until then is withdrawn."""

    call: str
    task: int
    receiver: str
    reason: str
    spent: Spent = Spent()


class HandoffReturned(Recordable, frozen=True, tag="handoff_returned"):
    """A delegate came back, with what it was asked for or without."""

    call: str
    task: int
    receiver: str
    success: bool
    response: str = ""
    author: str = ""
    """Who gave the response, if the receiver handed on."""
    error: str = ""
    fault: Fault | None = None
    cancelled: bool = False
    declined: bool = False
    """Nobody took it."""
    iterations: int = 0
    tool_calls: int = 0
    duration: float = 0.0
    spent: Spent = Spent()
    artifacts: dict[str, str | None] = {}
    workflow_state: dict[str, Any] = {}


class RollbackRequested(Recordable, frozen=True, tag="rollback_requested"):
    """Somebody wants a handoff undone: its task is to go back to its sender."""

    call: str
    reason: str = ""
    by: str = ""


class HandoffRolledBack(Recordable, frozen=True, tag="handoff_rolled_back"):
    """A transfer was undone, and those that followed it: the sender has the task again from this position on."""

    call: str
    sender: str
    receiver: str
    reason: str = ""
    by: str = ""
    partial: str = ""
    """What the receiver had said last."""
    undone: tuple[str, ...] = ()
    """All transfers that were, this one first."""


class RollbackFailed(Recordable, frozen=True, tag="rollback_failed"):
    """What cleans up after a handoff that was rolled back did not succeed, and is tried again."""

    call: str
    reason: str
    retry_at: float


class RollbackDone(Recordable, frozen=True, tag="rollback_done"):
    """Nothing is left to clean up after a handoff that was rolled back."""

    call: str


class ResultJudged(Recordable, frozen=True, tag="result_judged"):
    """The answer of a receiver was held against what is expected of it."""

    task: int
    problem: str = ""
    """What is wrong with it; nothing if it fits."""


class RepairAsked(Recordable, frozen=True, tag="repair_asked"):
    """The receiver is told what is wrong with its answer, and answers once more."""

    task: int
    problem: str


class ApprovalRequested(Recordable, frozen=True, tag="approval_requested"):
    """A person has to decide how this call goes on, or answer in an agent's stead."""

    call: str
    task: int
    agent: str
    tool: str
    arguments: dict[str, Any] = {}
    receiver: str = ""
    message: str = ""
    expires_at: float | None = None
    on_expiry: OnExpiry = "reject"
    kind: RequestKind = "approval"


class ApprovalWaived(Recordable, frozen=True, tag="approval_waived"):
    """Nobody has to be asked about this call."""

    call: str
    task: int


class ApprovalDecided(Recordable, frozen=True, tag="approval_decided"):
    """Somebody decided, or nobody did in time."""

    call: str
    digest: str
    """Of the request that was shown: it holds for no other."""
    decision: Decision
    by: str = ""
    expired: bool = False


class LimitReached(Recordable, frozen=True, tag="limit_reached"):
    """The whole tree of the run has spent what it may; so much of it was left for what was wanted here."""

    limit: LimitName
    figure: int
    left: int = 0


class CancelRequested(Recordable, frozen=True, tag="cancel_requested"):
    """Somebody wants this run to end as it is; 0 means all that were asked for."""

    run: int = 0
    by: str = ""
    reason: str = ""


class RunCompleted(Recordable, frozen=True, tag="run_completed"):
    """The active agent's last text is the answer, or what a call said that ends the run."""

    run: int
    output: str | None = None


class RunFailed(Recordable, frozen=True, tag="run_failed"):
    """The run cannot go on; the conversation can."""

    run: int
    fault: Fault


class RunStopped(Recordable, frozen=True, tag="run_stopped"):
    """The run will fail, as soon as its delegates are called back."""

    run: int
    fault: Fault


class RunCancelled(Recordable, frozen=True, tag="run_cancelled"):
    """The run ended because somebody wanted it to."""

    run: int


class RunResumed(Recordable, frozen=True, tag="run_resumed"):
    """A run that had failed tries its failed step again."""

    run: int


class Unreadable(Struct, frozen=True, gc=False):
    """An event that a newer version wrote, kept as it is: whoever meets it leaves the conversation alone."""

    tag: str
    raw: bytes


Event = (
    ModelReplied
    | HandoffOffered
    | HandoffAccepted
    | ToolFinished
    | RunStarted
    | RunCompleted
    | UserSpoke
    | CallRefused
    | Started
    | ModelFailed
    | FunctionReturned
    | FunctionFailed
    | ToolStarted
    | RunFailed
    | RunResumed
    | HandoffReturned
    | ApprovalRequested
    | ApprovalWaived
    | ApprovalDecided
    | LimitReached
    | CancelRequested
    | RunStopped
    | RunCancelled
    | HandoffRejected
    | HandoffConditional
    | HandoffExpired
    | ResultJudged
    | RepairAsked
    | RollbackRequested
    | HandoffRolledBack
    | RollbackFailed
    | RollbackDone
)
"""What this version can write."""


class Entry(Struct, gc=False):
    """One append: the outcome of one command or one input, and the decisions that follow from it at once."""

    conversation: str
    root: str
    position: int
    cause: str
    """The id of the command whose outcome this is, or the key of an input; recorded once per conversation."""
    at: float
    events: tuple[Event | Unreadable, ...]
    seq: int = 0
    """Where its first event stands among all events of the root's tree; the log counts."""
    schema: int = SCHEMA
