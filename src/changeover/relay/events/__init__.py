"""Events: the only thing that is ever stored. An event stays readable forever; fields are only added.

Ids are positions. A run is the position of the UserSpoke that began it, a task the position of the event that gave
it to an agent, a call `<position of the reply>.<index>`: they need no generator, and a restart finds the same ones.
A handoff is named after its call; when the call is offered to others, `+1`, `+2` follow.
"""

from __future__ import annotations

from msgspec import Struct

from changeover.relay.events.calls import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWaived,
    CallRefused,
    SkillLoaded,
    ToolFinished,
    ToolStarted,
)
from changeover.relay.events.handoffs import (
    ENGINE,
    AlternativeRefused,
    CircuitFound,
    ContextPacked,
    FollowUpDone,
    FollowUpFailed,
    HandoffAccepted,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    HandoffRolledBack,
    ReceiverChosen,
    RepairAsked,
    ResultJudged,
    RollbackDone,
    RollbackFailed,
    RollbackRequested,
    TicketLapsed,
    TicketTaken,
)
from changeover.relay.events.runs import (
    CancelRequested,
    Checked,
    ContentChecked,
    FellBack,
    FunctionFailed,
    FunctionReturned,
    Given,
    Hop,
    LimitReached,
    ModelFailed,
    ModelReplied,
    Renamed,
    RuleFailed,
    RuleFired,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    RunStopped,
    Started,
    TierChosen,
    UserSpoke,
    VariantChosen,
)
from changeover.relay.events.workflows import (
    RollbackBegan,
    StepBegan,
    StepFailed,
    StepSkipped,
    StepSpread,
    WorkflowBegan,
)

__all__ = [
    "ENGINE",
    "SCHEMA",
    "AlternativeRefused",
    "ApprovalDecided",
    "ApprovalRequested",
    "ApprovalWaived",
    "CallRefused",
    "CancelRequested",
    "Checked",
    "CircuitFound",
    "ContentChecked",
    "ContextPacked",
    "Entry",
    "Event",
    "FellBack",
    "FollowUpDone",
    "FollowUpFailed",
    "FunctionFailed",
    "FunctionReturned",
    "Given",
    "HandoffAccepted",
    "HandoffConditional",
    "HandoffExpired",
    "HandoffOffered",
    "HandoffRejected",
    "HandoffReturned",
    "HandoffRolledBack",
    "Hop",
    "LimitReached",
    "ModelFailed",
    "ModelReplied",
    "ReceiverChosen",
    "Renamed",
    "RepairAsked",
    "ResultJudged",
    "RollbackBegan",
    "RollbackDone",
    "RollbackFailed",
    "RollbackRequested",
    "RuleFailed",
    "RuleFired",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunResumed",
    "RunStarted",
    "RunStopped",
    "SkillLoaded",
    "Started",
    "StepBegan",
    "StepFailed",
    "StepSkipped",
    "StepSpread",
    "TicketLapsed",
    "TicketTaken",
    "TierChosen",
    "ToolFinished",
    "ToolStarted",
    "Unreadable",
    "UserSpoke",
    "VariantChosen",
    "WorkflowBegan",
]

SCHEMA = 1
"""Version of this vocabulary, stored with every entry."""


class Unreadable(Struct, frozen=True, gc=False):
    """An event that a newer version wrote, kept as it is; this version does not work on its conversation."""

    tag: str
    raw: bytes


Event = (
    ModelReplied
    | HandoffOffered
    | ContextPacked
    | FellBack
    | RuleFired
    | RuleFailed
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
    | CircuitFound
    | AlternativeRefused
    | HandoffConditional
    | HandoffExpired
    | ResultJudged
    | RepairAsked
    | RollbackRequested
    | HandoffRolledBack
    | RollbackFailed
    | ReceiverChosen
    | RollbackDone
    | TicketTaken
    | TierChosen
    | TicketLapsed
    | VariantChosen
    | ContentChecked
    | SkillLoaded
    | FollowUpFailed
    | FollowUpDone
    | Renamed
    | WorkflowBegan
    | StepSpread
    | StepBegan
    | StepSkipped
    | StepFailed
    | RollbackBegan
)
"""Every event that this version can write."""


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
    """Sequence number of its first event in the root's tree, assigned by the log."""
    schema: int = SCHEMA

    @property
    def opening(self) -> Started:
        """The opening of its conversation; only for the first entry of a log."""
        first = self.events[0]
        return first if isinstance(first, Started) else Started()
