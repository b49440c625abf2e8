"""Events of a handoff: offered, answered, packed, claimed, returned, rolled back, and its result judged."""

from __future__ import annotations

from typing import Any

from msgspec import field

from changeover.facts import Expected, Mode, Spent, Usage
from changeover.faults import Fault
from changeover.handoffs.context import Merge
from changeover.handoffs.strategies import ALL, FALLBACK, Chapter, Full, MessageOnly
from changeover.messages import Message
from changeover.relay.events.runs import Recordable

SHOWN = {Full.name: ALL, MessageOnly.name: 0}


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
    queued: bool = False
    """It waits until somebody claims it for the receiver."""
    priority: int = 0
    timeout: float | None = None
    """How long a delegate may take from the moment in which it is claimed, if it has to be."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """What is shown of the context, and what is not, whatever the strategy."""
    packs: bool = False
    """What the receiver gets has to be made first, by its strategy; then it can be accepted."""
    before: int = 0
    """How many tokens the sender's context has, as far as it was said."""
    after: int = 0
    """How many the receiver gets of it, unless that has to be made first."""
    capability: str = ""
    """What the receiver was looked for by, if it was not named."""
    brokered: bool = False
    """Others could take it too: a condition of the receiver is weighed when all of them were asked."""
    needs_context: tuple[str, ...] = ()
    needs_permission: tuple[str, ...] = ()
    """On what condition the receiver would take it, as it said before, so that it is not asked again."""
    reason: str = ""
    """Why somebody else should do it, in the sender's words, where these are not the message."""
    required: tuple[str, ...] = ()
    """What the receiver has to be able to do."""

    @property
    def is_whole(self) -> bool:
        """Whether the receiver of a transfer reads the sender's thread unchanged."""
        return self.strategy == Full.name and not self.include and not self.exclude and not self.packs

    @property
    def shown(self) -> int:
        """Number of last messages that the receiver sees as they are; negative for all."""
        if self.packs:
            return FALLBACK  # what it gets if its context could not be made
        # An offer of the whole thread stores no number, nor do old logs.
        return SHOWN.get(self.strategy, self.recent)


class ReceiverChosen(Recordable, frozen=True, tag="receiver_chosen"):
    """It was found who fits a task; without a receiver nobody does."""

    call: str
    task: int
    receiver: str = ""
    step: str = ""
    """What decided: exact, text or judge."""
    why: str = ""
    score: float = 0.0
    capability: str = ""
    alternatives: tuple[str, ...] = ()
    """Who is asked if the receiver does not want it."""
    queued: bool = False
    """The receiver is busy, and it waits until somebody claims it."""
    usage: Usage | None = None
    """What it took to ask the judge."""


class ContextPacked(Recordable, frozen=True, tag="context_packed"):
    """What the receiver of an offer gets of the sender's context was made, by this strategy."""

    call: str
    task: int
    strategy: str
    after: int = 0
    """How many tokens that has."""
    briefing: str = ""
    """What the receiver is told, in place of what was said."""
    messages: tuple[Message, ...] = ()
    """What it sees, if the strategy says so itself."""
    chapter: Chapter | None = None
    """What was made of what was said since the chapter before."""
    covered: int = 0
    """How many messages of the sender's thread all chapters cover now."""
    retold: bool = False
    """The briefing tells of all chapters, this one and those before."""
    error: str = ""
    """Why it could not be made; then the receiver gets the last messages instead."""
    usage: Usage | None = None
    """What it cost, if a model was asked."""


class HandoffAccepted(Recordable, frozen=True, tag="handoff_accepted"):
    """The receiver took the task. Of a transfer, the sender's task ended and a new one began at this position; a
    delegate works in a conversation of its own, and what comes of it is returned."""

    call: str
    task: int
    receiver: str
    mode: Mode = Mode.TRANSFER
    by: str = ""
    """Who accepted, if it was a person or a worker."""
    deadline: float | None = None
    """Until when a delegate has to be back."""
    estimate: float | None = None
    """In how many seconds the receiver thinks to be done."""
    answered: bool = False
    """Whether a person took it with the answer ready, so that a delegate has nothing left to work on."""


class HandoffRejected(Recordable, frozen=True, tag="handoff_rejected"):
    """The receiver does not take the task; it is still its sender's."""

    call: str
    task: int
    receiver: str
    reason: str
    suggested: str = ""
    """Who would be better, as the receiver says."""
    by: str = ""
    worn_out: bool = False
    """Workers took it again and again, and none of them answered."""


class CircuitFound(Recordable, frozen=True, tag="circuit_found"):
    """The store says that nothing is handed to this receiver now, so that it does not take this offer."""

    call: str
    task: int
    receiver: str
    failures: int = 0
    """In a row."""
    until: float | None = None
    """When it is tried again; None if that is for a person to say."""


class AlternativeRefused(Recordable, frozen=True, tag="alternative_refused"):
    """After a receiver declined, another was to be asked, and a guard or a rule does not let it be."""

    call: str
    """The handoff that was declined."""
    task: int
    receiver: str
    reason: str


class HandoffConditional(Recordable, frozen=True, tag="handoff_conditional"):
    """The receiver would take the task if it had more context, or a permission."""

    call: str
    task: int
    receiver: str
    needs_context: tuple[str, ...] = ()
    needs_permission: tuple[str, ...] = ()
    put_off: bool = False
    """Others are asked first; the offer is over."""

    @property
    def words(self) -> str:
        """What the receiver lacks."""
        if self.needs_context:
            return f"it has to know {', '.join(self.needs_context)}"
        return f"it needs permission for {', '.join(self.needs_permission)}"


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
    artifacts: dict[str, str | None] = field(default_factory=dict)
    workflow_state: dict[str, Any] = field(default_factory=dict)


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
    agent: str = ""
    """Who is active from now on: the sender or, if that was code, whoever was before."""
    queued: bool = False
    """That one is served by claims."""


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
    call: str = ""
    """The call that gave it, if it was one that ends the run."""


class RepairAsked(Recordable, frozen=True, tag="repair_asked"):
    """The receiver is told what is wrong with its answer, and answers once more."""

    task: int
    problem: str


class TicketTaken(Recordable, frozen=True, tag="ticket_taken"):
    """A worker took up what an agent owes. That a handoff was taken first is said by its acceptance."""

    ticket: str
    by: str


class TicketLapsed(Recordable, frozen=True, tag="ticket_lapsed"):
    """Whoever had taken it does not work on it any more: anybody may take it."""

    ticket: str
    reason: str
    by: str = ""
    """The worker that gave it back, if it said so itself."""
    worn_out: bool = False
    """That happened so often that a person is asked."""
