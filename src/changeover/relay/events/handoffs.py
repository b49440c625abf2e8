"""Events of a handoff: offered, packed, answered, claimed, returned, checked, rolled back."""

from __future__ import annotations

from typing import Any

from msgspec import field

from changeover.agent.handoff import Policy
from changeover.facts import Expected, Mode, Spent, Usage
from changeover.faults import Circuit, Fault
from changeover.handoffs.context import Merge
from changeover.handoffs.strategies import ALL, FALLBACK, Chapter, Full, MessageOnly
from changeover.messages import Message
from changeover.relay.events.runs import Recordable

ENGINE = "changeover"
"""The actor of what no agent, worker or person does: a deadline, a lapsed lease, a limit, an open circuit."""
SHOWN = {Full.name: ALL, MessageOnly.name: 0}


class HandoffOffered(Recordable, frozen=True, tag="handoff_offered"):
    """A sender offered a task to a receiver."""

    call: str
    task: int
    sender: str
    receiver: str
    message: str = ""
    mode: Mode = Mode.TRANSFER
    variables: dict[str, Any] = field(default_factory=dict)
    """Variables that travel with the handoff."""
    instructions: str = ""
    """What the declaration adds to the receiver's instructions."""
    strategy: str = "full"
    merge: Merge = "merge"
    """How the variables join the context: merged, or in place of it."""
    return_to: str = ""
    """The agent that gets the user's next message; by default the receiver."""
    dropped: tuple[str, ...] = ()
    about: str = ""
    """Background for a delegate, in the sender's words."""
    final: bool = False
    """True if the delegate's answer is the run's answer."""
    max_iterations: int = 0
    recent: int = 5
    """Number of last messages that the strategy shows; negative for all."""
    deadline: float | None = None
    """Time until which a transfer has to be accepted, or a delegate to return."""
    alternatives: tuple[str, ...] = ()
    """Receivers that are asked in turn if this one declines."""
    attempt: int = 1
    """Number of this attempt at the task, from 1."""
    retry_of: str = ""
    """The declined handoff of the same task that this one follows."""
    declined_by: tuple[str, ...] = ()
    """Receivers that declined it before, and are not asked again."""
    expected: Expected | None = None
    queued: bool = False
    """True if it waits for a worker that claims it."""
    priority: int = 0
    """Priority in the queue; the highest is claimed first."""
    timeout: float | None = None
    """Seconds that a queued delegate may take from its claim on."""
    include: tuple[str, ...] = ()
    """Selectors of the context that the receiver sees; all if empty."""
    exclude: tuple[str, ...] = ()
    """Selectors of the context that the receiver does not see."""
    packs: bool = False
    """True if the strategy has to make the receiver's context before the offer can be accepted."""
    before: int = 0
    """Number of tokens of the sender's messages."""
    after: int = 0
    """Number of tokens that the receiver gets, unless its context has to be made first."""
    capability: str = ""
    """Capability by which the receiver was found, if it was not named."""
    brokered: bool = False
    """True if other candidates are left: a condition of this receiver counts only after all were asked."""
    needs_context: tuple[str, ...] = ()
    """Context variables that the receiver lacked before."""
    needs_permission: tuple[str, ...] = ()
    """Permissions that the receiver wanted before, so that it is not asked again."""
    reason: str = ""
    """Why another agent should do it, where the message does not say so."""
    required: tuple[str, ...] = ()
    """Capabilities that the receiver must have."""
    sender_name: str = ""
    """Display name of the sender, if it has one."""
    receiver_name: str = ""
    """Display name of the receiver, if it has one."""
    policy: Policy | None = None
    """The rollbacks and the callback that its declaration asks for; None if it asks for none."""

    @property
    def is_whole(self) -> bool:
        """True if the receiver of a transfer reads the sender's thread unchanged."""
        return self.strategy == Full.name and not self.include and not self.exclude and not self.packs

    @property
    def shown(self) -> int:
        """Number of last messages that the receiver sees as they are; negative for all."""
        if self.packs:
            return FALLBACK  # what it gets if its context could not be made
        # An offer of the whole thread stores no number, nor do old logs.
        return SHOWN.get(self.strategy, self.recent)


class ReceiverChosen(Recordable, frozen=True, tag="receiver_chosen"):
    """A search for a receiver ended; without a receiver, no agent fits."""

    call: str
    task: int
    receiver: str = ""
    """The agent that was found; empty if no agent fits."""
    step: str = ""
    """The step that decided: exact, text or judge."""
    why: str = ""
    """Why it was chosen."""
    score: float = 0.0
    """Score of the fit; higher is better."""
    capability: str = ""
    """Capability that was asked for, if one was."""
    alternatives: tuple[str, ...] = ()
    """Agents that are asked in turn if the receiver declines."""
    queued: bool = False
    """True if the receiver is busy, so that the task waits for a claim."""
    usage: Usage | None = None
    """Usage of the judge's model call."""


class ContextPacked(Recordable, frozen=True, tag="context_packed"):
    """The strategy made the context of an offer's receiver."""

    call: str
    task: int
    strategy: str
    after: int = 0
    """Number of tokens that the receiver gets."""
    briefing: str = ""
    """The text that the receiver reads in place of the messages."""
    messages: tuple[Message, ...] = ()
    """The messages that the receiver reads, if the strategy made some."""
    chapter: Chapter | None = None
    """The new chapter, of the messages since the last one."""
    covered: int = 0
    """Number of messages of the sender's thread that the chapters cover now."""
    retold: bool = False
    """True if the briefing holds all chapters, this one and those before."""
    error: str = ""
    """Why packing failed; the receiver gets the last messages instead."""
    usage: Usage | None = None
    """Usage of the model call, if there was one."""
    left_out: Chapter | None = None
    """Parts of the briefing that did not fit into the receiver's context window."""


class HandoffAccepted(Recordable, frozen=True, tag="handoff_accepted"):
    """The receiver accepted the task. A transfer ends the sender's task and begins a new one at this position; a
    delegate works in a child conversation and returns its result."""

    call: str
    task: int
    receiver: str
    mode: Mode = Mode.TRANSFER
    by: str = ""
    """The person or worker that accepted, else the receiver; empty in old logs."""
    deadline: float | None = None
    """Time until which a delegate has to return."""
    estimate: float | None = None
    """Seconds that the receiver expects to need."""
    answered: bool = False
    """True if a person accepted with the answer ready, so that a delegate has nothing left to do."""


class HandoffRejected(Recordable, frozen=True, tag="handoff_rejected"):
    """The receiver rejected the task; the sender still has it."""

    call: str
    task: int
    receiver: str
    reason: str
    suggested: str = ""
    """The receiver that the rejecting one suggests."""
    by: str = ""
    """The person or worker that rejected it, else the receiver, or ENGINE if none was asked; empty in old logs."""
    worn_out: bool = False
    """True if workers claimed it too often without an answer."""
    own: bool = False
    """True if the receiver itself said no, and is not asked the same again; otherwise it was only busy or absent."""


class CircuitFound(Recordable, frozen=True, tag="circuit_found"):
    """The store found the receiver's circuit open, so the offer is rejected."""

    call: str
    task: int
    receiver: str
    failures: int = 0
    """Number of failures in a row."""
    until: float | None = None
    """When the receiver is tried again; None if a person has to reset the circuit."""
    opened_at: float = 0.0
    """When the circuit opened."""

    @property
    def circuit(self) -> Circuit:
        """The circuit, as far as it is recorded."""
        known = (self.opened_at, self.until)
        return Circuit(self.receiver, self.failures, 0, *known, forced=self.until is None)


class AlternativeRefused(Recordable, frozen=True, tag="alternative_refused"):
    """After a refusal, a limit, a guard or a rule did not allow the next receiver."""

    call: str
    """The handoff that was declined."""
    task: int
    receiver: str
    reason: str


class HandoffConditional(Recordable, frozen=True, tag="handoff_conditional"):
    """The receiver accepts only with more context, or with a permission."""

    call: str
    task: int
    receiver: str
    needs_context: tuple[str, ...] = ()
    """Context variables that the receiver lacks."""
    needs_permission: tuple[str, ...] = ()
    """Permissions that the receiver wants from a person."""
    put_off: bool = False
    """True if other candidates are asked first, so that this offer is over."""
    misfits: tuple[str, ...] = ()
    """Faults of needed context variables that are there, but of another type."""
    by: str = ""
    """The worker that answered, else the receiver; empty in old logs."""

    @property
    def words(self) -> str:
        """The condition as a text."""
        if self.needs_context:
            known = f"it has to know {', '.join(self.needs_context)}"
            return f"{known} ({'; '.join(self.misfits)})" if self.misfits else known
        return f"it needs permission for {', '.join(self.needs_permission)}"


class HandoffExpired(Recordable, frozen=True, tag="handoff_expired"):
    """The receiver did not answer or finish in time; its work until then is dropped."""

    call: str
    task: int
    receiver: str
    reason: str
    spent: Spent = Spent()
    partial: str = ""
    """The last words of a delegate that was not done."""
    by: str = ""
    """ENGINE; empty in old logs."""


class HandoffReturned(Recordable, frozen=True, tag="handoff_returned"):
    """A delegate returned, with a result or without one."""

    call: str
    task: int
    receiver: str
    success: bool
    """True if it brings a result."""
    response: str = ""
    """The result."""
    author: str = ""
    """The agent that gave the response, if the receiver handed the task on."""
    error: str = ""
    """Why there is no result."""
    fault: Fault | None = None
    cancelled: bool = False
    """True if it was cancelled."""
    declined: bool = False
    """True if no receiver accepted."""
    iterations: int = 0
    """Number of its model replies."""
    tool_calls: int = 0
    """Number of its tool calls."""
    duration: float = 0.0
    """Seconds from acceptance to return."""
    spent: Spent = Spent()
    artifacts: dict[str, str | None] = field(default_factory=dict)
    workflow_state: dict[str, Any] = field(default_factory=dict)
    partial: str = ""
    """The last words of a delegate that failed."""
    by: str = ""
    """The agent, worker or person that gave the response, failed, or called the delegate back; empty in old logs."""


class RollbackRequested(Recordable, frozen=True, tag="rollback_requested"):
    """A caller asked to roll a handoff back: its task shall go back to its sender."""

    call: str
    reason: str = ""
    by: str = ""
    cleans: bool = False
    """True if the sender gets the task back without a HandoffRolledBack, and cleanup follows: after a delegate, or
    after a transfer that was not answered in time. In older logs no cleanup followed for these."""
    fault: Fault | None = None
    """The failure of a transfer's receiver, if its declaration rolls it back for that."""


class HandoffRolledBack(Recordable, frozen=True, tag="handoff_rolled_back"):
    """A transfer and those after it were rolled back; the sender has the task again from this position on."""

    call: str
    sender: str
    receiver: str
    reason: str = ""
    by: str = ""
    partial: str = ""
    """The receiver's last words."""
    undone: tuple[str, ...] = ()
    """All transfers that were rolled back, this one first."""
    agent: str = ""
    """The agent that is active now: the sender or, if code was the sender, the agent before it."""
    queued: bool = False
    """True if workers claim that agent's work."""
    restored: dict[str, Any] = field(default_factory=dict)
    """Context variables that the transfers had dropped; those that were set again since stay as they are."""


class RollbackFailed(Recordable, frozen=True, tag="rollback_failed"):
    """The cleanup after a rollback failed, and is retried."""

    call: str
    reason: str
    retry_at: float


class RollbackDone(Recordable, frozen=True, tag="rollback_done"):
    """The cleanup after a rollback is done."""

    call: str


class FollowUpFailed(Recordable, frozen=True, tag="follow_up_failed"):
    """The on_accepted function of a handoff failed, and is retried."""

    call: str
    reason: str
    retry_at: float


class FollowUpDone(Recordable, frozen=True, tag="follow_up_done"):
    """The on_accepted function of a handoff has returned."""

    call: str


class ResultJudged(Recordable, frozen=True, tag="result_judged"):
    """A receiver's answer was checked against its expectations."""

    task: int
    problem: str = ""
    """Why it does not meet them; empty if it does."""
    call: str = ""
    """The call that gave the answer, if a call ends the run."""


class RepairAsked(Recordable, frozen=True, tag="repair_asked"):
    """The receiver is asked to correct its answer."""

    task: int
    problem: str
    """Why the answer does not meet the expectations."""
    call: str = ""
    """The handoff, if a person answered it as a delegate."""


class TicketTaken(Recordable, frozen=True, tag="ticket_taken"):
    """A worker claimed an agent's work again. The first claim of a handoff is recorded as its acceptance."""

    ticket: str
    """Id of the ticket."""
    by: str


class TicketLapsed(Recordable, frozen=True, tag="ticket_lapsed"):
    """The worker that claimed it has stopped; any worker may claim it."""

    ticket: str
    """Id of the ticket."""
    reason: str
    by: str = ""
    """The worker, if it returned the ticket itself, else ENGINE; empty in old logs."""
    worn_out: bool = False
    """True if that happened too often, so that a person is asked."""
