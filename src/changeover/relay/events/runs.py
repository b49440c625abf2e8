"""Events of a conversation and its runs, of the rules that lead them, and Recordable, the base of every event."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from changeover.facts import Expected, NoTakers, Usage
from changeover.faults import Fault, LimitName
from changeover.guards.limits import Limits, Tier
from changeover.handoffs.strategies import Chapter
from changeover.messages import Call, File
from changeover.tools.command import Directive


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
    ticket: str = ""
    """Under which it was claimed, if the delegate is served by claims."""
    chapters: tuple[Chapter, ...] = ()
    """What the briefing tells of, if it was packed."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """What is shown of the context variables, and what is not."""
    variants: dict[str, str] = {}
    """Which were chosen by then, by experiment."""


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
    queued: bool = False
    """That waits until somebody claims it."""
    no_takers: NoTakers | None = None
    """What becomes of that if nobody takes it, where whoever can do it is to be found; None if a receiver is named."""


class RunStarted(Recordable, frozen=True, tag="run_started"):
    """An agent took up what the user said; its own position is the id of the agent's task."""

    run: int
    agent: str
    code: bool = False
    """It is code that hands something over: whoever of the team was active still is."""
    queued: bool = False
    """The agent is served by claims."""


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
    """Who answered, if it was a person or a worker."""


class FunctionFailed(Recordable, frozen=True, tag="function_failed"):
    """A Function member raised, or a worker gave up."""

    agent: str
    task: int
    reason: str
    by: str = ""
    """The worker, if it was one."""


class LimitReached(Recordable, frozen=True, tag="limit_reached"):
    """The whole tree of the run has spent what it may; so much of it was left for what was wanted here."""

    limit: LimitName
    figure: int | float
    left: int = 0
    spent: int | float | None = None
    """How much of it, where that may be more than the figure; None also if nobody knows."""
    agents: tuple[str, ...] = ()
    """Everybody who works in the tree, if there may be no more of them."""


class TierChosen(Recordable, frozen=True, tag="tier_chosen"):
    """What kind of task the run was found to be, and what it may take for that."""

    run: int
    tier: Tier
    reason: str
    limits: Limits
    by: Literal["words", "judge"] = "words"
    usage: Usage | None = None
    """What it took to ask the judge."""


class VariantChosen(Recordable, frozen=True, tag="variant_chosen"):
    """An experiment matters here for the first time: from now on the conversation, and all below it, has this one."""

    experiment: str
    variant: str
    task: int
    agent: str = ""
    """Whom it is about."""


class FellBack(Recordable, frozen=True, tag="fell_back"):
    """A handoff could not be made, and the agent goes on alone: the run can hand off no more."""

    task: int
    reason: str


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


class RuleFired(Recordable, frozen=True, tag="rule_fired"):
    """A rule held: the agent hands over to whom it names, or what the agent wanted to hand over is judged by it."""

    rule: str
    agent: str
    task: int
    goto: str = ""
    message: str = ""
    """For that receiver."""
    call: str = ""
    """The call that it judges, if it does not go anywhere itself."""
    receiver: str = ""
    """To whom that call would lead."""
    reason: str = ""
    """Why it must not; if there is none, a person is asked."""

    @property
    def words(self) -> str:
        """What came of it, for people."""
        if self.goto:
            return f"by the rule {self.rule!r}, {self.agent} hands over to {self.goto}"
        judged = f"refuses it: {self.reason}" if self.reason else "wants a person asked"
        return f"the rule {self.rule!r} {judged}"


class RuleFailed(Recordable, frozen=True, tag="rule_failed"):
    """A rule could not say whether it holds: it leads nowhere, or nothing is handed over that it should judge."""

    rule: str
    agent: str
    task: int
    reason: str

    @property
    def words(self) -> str:
        """What is wrong with it, for people."""
        return f"the rule {self.rule!r} could not be judged: {self.reason}"
