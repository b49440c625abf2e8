"""Events of a conversation, its runs and its rules; Recordable is the parent class of every event."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from changeover.facts import Expected, Mode, NoTakers, Usage
from changeover.faults import Fault, LimitName
from changeover.guards.checks import Direction
from changeover.guards.limits import Limits, Tier
from changeover.handoffs.strategies import Chapter
from changeover.ids import DEFAULT_TEAM
from changeover.messages import Call, File
from changeover.tools.command import Directive


class Recordable(Struct, frozen=True, omit_defaults=True, gc=False, tag_field="event"):
    """Parent of all events: a frozen struct with a tag in the log."""


class Started(Recordable, frozen=True, tag="started"):
    """A conversation began; it is a root if `root` is empty."""

    root: str = ""
    """Id of the conversation at the top of the tree; empty if this is it."""
    parent: str = ""
    """Id of the conversation that delegated this one."""
    depth: int = 0
    """Number of conversations above this one."""
    team: str = DEFAULT_TEAM
    """The team that works on it."""


class Renamed(Recordable, frozen=True, tag="renamed"):
    """A person gave the conversation another title; by default it is the beginning of the first message."""

    title: str
    """The new title."""
    by: str = ""


class Hop(Struct, frozen=True, omit_defaults=True, gc=False):
    """A handoff on the way to a delegate."""

    sender: str
    receiver: str
    message: str
    mode: Mode = Mode.DELEGATE


class Given(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a delegate is given beside its task."""

    sender: str
    task: int
    """The sender's own task."""
    tool: str = ""
    """Tool with which the sender delegated."""
    instructions: str = ""
    """What the declaration of the delegate adds to the receiver's instructions."""
    briefing: str = ""
    """What the receiver reads of the sender's conversation."""
    max_iterations: int = 0
    path: tuple[str, ...] = ()
    """All agents from the root's first one to this one."""
    tokens: int = 0
    """Tokens that the tree had spent by then."""
    elapsed: float = 0.0
    """Seconds that the run of the root had taken by then."""
    retries: int = 0
    """Model calls that the tree had retried by then."""
    artifacts: dict[str, str | None] = {}
    workflow_state: dict[str, Any] = {}
    expected: Expected | None = None
    ticket: str = ""
    """Ticket under which a worker claimed it, if one did."""
    chapters: tuple[Chapter, ...] = ()
    """Chapters that the briefing holds."""
    include: tuple[str, ...] = ()
    """Selectors of the context variables that the delegate sees; all if empty."""
    exclude: tuple[str, ...] = ()
    """Selectors of the context variables that the delegate does not see."""
    variants: dict[str, str] = {}
    """Variants that the tree has so far, by experiment."""
    trail: tuple[Hop, ...] = ()
    """The handoffs that led to this one, oldest first, as far back as nothing happened in between."""
    edition: int = 0
    """The edition with which the sender's run began; the delegate works with the same."""


class UserSpoke(Recordable, frozen=True, tag="user_spoke"):
    """A user wrote a message, or an agent gave a task; it waits in the inbox until its run can begin."""

    text: str
    user: str = ""
    """The user, if the caller names one."""
    agent: str = ""
    """The agent that is to read it; by default the active one."""
    context: dict[str, Any] = field(default_factory=dict)
    """Context variables that the caller gives."""
    limits: Limits | None = None
    """Limits for this run, if the caller gives any."""
    correlation_id: str = ""
    """The caller's own id for it."""
    given: Given | None = None
    """The context of the task, if an agent delegated it."""
    files: tuple[File, ...] = ()
    package: dict[str, Any] | None = None
    """The package as JSON, if code makes an offer."""
    queued: bool = False
    """True if the offer waits for a worker that claims it."""
    no_takers: NoTakers | None = None
    """What a broker does if no agent accepts; None if the caller names the receiver."""
    trace: str = ""
    """The place in a trace at which the run begins, as in the header `traceparent`; empty if it is not traced."""
    inputs: Any = None
    """The inputs of a workflow, if they are more than the text."""


class RunStarted(Recordable, frozen=True, tag="run_started"):
    """An agent began to work on a message; the position of this event is the id of the agent's task."""

    run: int
    agent: str
    code: bool = False
    """True if code makes an offer; the active agent then stays the same."""
    queued: bool = False
    """True if workers claim the agent's work."""
    name: str = ""
    """Display name of the agent, if it has one."""
    edition: int = 0
    """The edition of the store's declarations that the run works with; 0 if code alone declares the team."""
    withdrawn: tuple[str, ...] = ()
    """What the store has ceased to declare since the last run, such as "agent 'billing'"; the model is told."""

    @property
    def notice(self) -> str:
        """The text that tells the model and people what was withdrawn."""
        return f"no longer available: {', '.join(self.withdrawn)}"


class Checked(Struct, frozen=True, omit_defaults=True, gc=False):
    """The outcome of checks of an answer, before it was recorded."""

    verdict: Literal["deny", "replace"]
    """The checks refused the answer, or replaced it."""
    reason: str = ""


class ModelReplied(Recordable, frozen=True, tag="model_replied"):
    """A model answered, with text, calls, or both."""

    agent: str
    task: int
    text: str = ""
    thinking: str = ""
    """The model's thinking, if its provider shows it."""
    calls: tuple[Call, ...] = ()
    """The calls of tools and handoffs, in order."""
    usage: Usage | None = None
    """None for one request without known figures."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Opaque data that the model's provider needs back."""
    checked: Checked | None = None
    """The outcome of checks of the answer; None if they allowed it, or there are none."""
    began: float = 0.0
    """When the model was called; 0 in old logs."""
    instructions: str = ""
    """The instructions that a function wrote for this call, if no earlier event of the conversation has the text."""
    instructions_at: int = 0
    """Position of the event that has that text, if an earlier one has it."""


class ContentChecked(Recordable, frozen=True, tag="content_checked"):
    """A check refused or replaced what the agent's model would have read, or its answer."""

    agent: str
    task: int
    direction: Direction
    """Input is what the model reads, output is its answer."""
    verdict: Literal["deny", "replace"]
    """The check refused the text, or replaced it."""
    reason: str = ""
    """The words of a refusal, which are the answer."""
    replaced: dict[str, str] = field(default_factory=dict)
    """The text that the model reads in place of each one that was refused or replaced."""

    @property
    def words(self) -> str:
        """The effect of the check as a text."""
        what = f"what {self.agent} was told" if self.direction == "input" else f"the answer of {self.agent}"
        return f"a check refused {what}: {self.reason}" if self.verdict == "deny" else f"a check changed {what}"


class ModelFailed(Recordable, frozen=True, tag="model_failed"):
    """One attempt at a model call failed; without `retry_at` it was the last."""

    agent: str
    task: int
    reason: str
    retry_at: float | None = None


class FunctionReturned(Recordable, frozen=True, tag="function_returned"):
    """A Function or Person member answered, or named the next agent."""

    agent: str
    task: int
    text: str = ""
    directive: Directive | None = None
    by: str = ""
    """The person or worker that answered, if one did."""


class FunctionFailed(Recordable, frozen=True, tag="function_failed"):
    """A Function member raised, or a worker gave up."""

    agent: str
    task: int
    reason: str
    by: str = ""
    """The worker, if one failed."""


class LimitReached(Recordable, frozen=True, tag="limit_reached"):
    """The tree has reached a limit; `left` is what it had left for this conversation."""

    limit: LimitName
    """Name of the limit."""
    figure: int | float
    """Value of the limit."""
    left: int = 0
    """What was left of it for this conversation."""
    spent: int | float | None = None
    """What was consumed, where that may exceed the figure; None if it is unknown."""
    agents: tuple[str, ...] = ()
    """The agents of the tree, if the limit is their number."""


class TierChosen(Recordable, frozen=True, tag="tier_chosen"):
    """The tier of the run's task was chosen; the limits of the tier hold for the run."""

    run: int
    tier: Tier
    """The tier: simple, medium or complex."""
    reason: str
    limits: Limits
    """The limits of that tier."""
    by: Literal["words", "judge"] = "words"
    """The words of the task decided, or a model."""
    usage: Usage | None = None
    """Usage of the judge's model call."""


class VariantChosen(Recordable, frozen=True, tag="variant_chosen"):
    """The variant of an experiment was chosen for this conversation and all below it."""

    experiment: str
    """Name of the experiment."""
    variant: str
    """Name of the variant."""
    task: int
    agent: str = ""
    """The agent that the experiment is about."""


class FellBack(Recordable, frozen=True, tag="fell_back"):
    """A handoff could not be made, or its receiver failed: the sender goes on alone, and the run hands off no more."""

    task: int
    reason: str
    call: str = ""
    """The transfer whose receiver failed, if one did."""
    agent: str = ""
    """The sender of that transfer, which has the task again from this position on."""
    queued: bool = False
    """True if workers claim that agent's work."""
    fault: Fault | None = None
    """Why the receiver failed."""


class CancelRequested(Recordable, frozen=True, tag="cancel_requested"):
    """A caller asked to cancel a run."""

    run: int = 0
    """The run to cancel; 0 means all runs."""
    by: str = ""
    reason: str = ""
    after_turn: bool = False
    """True if the turn under way is finished first."""


class RunCompleted(Recordable, frozen=True, tag="run_completed"):
    """The run is complete: its answer is the output of the call that ended it, else the agent's last text."""

    run: int
    output: str | None = None
    """The answer, if a call ended the run; None if it is the agent's last text."""


class RunFailed(Recordable, frozen=True, tag="run_failed"):
    """The run cannot go on; the conversation can."""

    run: int
    fault: Fault


class RunStopped(Recordable, frozen=True, tag="run_stopped"):
    """The run fails as soon as its delegates are called back."""

    run: int
    fault: Fault


class RunCancelled(Recordable, frozen=True, tag="run_cancelled"):
    """The run was cancelled."""

    run: int


class RunResumed(Recordable, frozen=True, tag="run_resumed"):
    """A failed run retries its failed step; a workflow also goes on after a cancellation."""

    run: int
    step: str = ""
    """The step of a workflow that is carried out again, with all that follow it; empty for all that are not done."""


class RuleFired(Recordable, frozen=True, tag="rule_fired"):
    """The condition of a rule holds: the rule hands over to its receiver, ends the run, or judges a handoff."""

    rule: str
    agent: str
    task: int
    goto: str = ""
    """The agent that the rule hands over to."""
    message: str = ""
    """The message for that receiver."""
    call: str = ""
    """The call that it judges, if it does not hand over itself."""
    receiver: str = ""
    """The receiver of that call."""
    reason: str = ""
    """Why the rule denies the call; a person is asked if empty."""
    end: str = ""
    """The answer with which the rule ends the run."""

    @property
    def words(self) -> str:
        """The effect of the rule as a text."""
        if self.goto:
            return f"by the rule {self.rule!r}, {self.agent} hands over to {self.goto}"
        if self.end:
            return f"by the rule {self.rule!r}, the run ends here"
        judged = f"refuses it: {self.reason}" if self.reason else "wants a person asked"
        return f"the rule {self.rule!r} {judged}"


class RuleFailed(Recordable, frozen=True, tag="rule_failed"):
    """The condition of a rule raised: the rule does not hand over, and what it should judge is denied."""

    rule: str
    agent: str
    task: int
    reason: str

    @property
    def words(self) -> str:
        """The failure as a text."""
        return f"the rule {self.rule!r} could not be judged: {self.reason}"
