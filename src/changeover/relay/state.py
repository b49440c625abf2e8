"""State: the fold of one conversation's log. `apply` is total, O(1), and reads no policy, clock or configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from changeover.facts import DelegateResult, Handed, HandoffRecord
from changeover.facts import State as HandoffState
from changeover.faults import Fault, LimitName
from changeover.handoffs.callback import Acceptance, Rollback
from changeover.handoffs.context import merge_variables
from changeover.handoffs.protocol import Signal, concluded
from changeover.handoffs.strategies import Chapter
from changeover.handoffs.tokens import weight
from changeover.ids import at_span, parent_of, task_id
from changeover.messages import File, Message, User, with_texts
from changeover.relay import events
from changeover.relay.commands import CallBack
from changeover.relay.events import Entry, Event, LimitReached, RollbackRequested, Unreadable, UserSpoke
from changeover.relay.fold import answers, approvals, calls, handoffs, rollback, runs, workflow
from changeover.relay.run import TURNING, Outcome, Replied, Run, Stopping, Task, Thinking
from changeover.relay.turn import OpenCall, Travelling, Turn
from changeover.tools.command import Directive
from changeover.tools.run_context import RunContext

COMPLETE, FAIL, RETURN, FAILED = Signal.COMPLETE, Signal.FAIL, Signal.RETURN, HandoffState.FAILED


class Scale(Struct, eq=False, gc=False):
    """Counts the tokens of a list that only grows, with a cache of what was counted."""

    _thread: list[Message] | None = None
    _length: int = 0
    _tokens: int = 0

    def weigh(self, thread: list[Message]) -> int:
        """Number of tokens of all messages; only new ones are counted."""
        if thread is not self._thread:
            self._thread, self._length, self._tokens = thread, 0, 0
        if new := thread[self._length :]:
            self._tokens += weight(*new)
            self._length = len(thread)
        return self._tokens


class Undoing(Struct, gc=False):
    """Facts about handoffs that rollbacks need."""

    failed: dict[str, str] = {}
    """Handoffs that failed or timed out, and that their declaration rolls back: their partial results by call."""
    dropped: dict[str, dict[str, Any]] = {}
    """Context variables that transfers with merge="replace" dropped, by call."""


class State(Struct, eq=False, gc=False):
    """The state of one conversation: everything a decision may depend on."""

    id: str
    root: str = ""
    """The conversation at the top of its tree: itself, until its opening is folded."""
    team: str = ""
    """The team that works on it; empty until its opening is folded."""
    depth: int = 0
    """Number of conversations above it."""
    position: int = 0
    """Number of events that were applied."""
    seq: int = 0
    """The sequence number of the last event in the root's tree."""
    at: float = 0.0
    """The time of the last entry."""
    unreadable: str = ""
    """The tag of an event that only a newer version understands."""
    agent: str = ""
    """The active agent."""
    task: int = 0
    """Position of the event that gave the active agent its task."""
    return_to: str = ""
    """The agent that gets the next message, if it is not the active one."""
    record: list[Message] = []
    """All messages, in order."""
    thread: list[Message] = []
    """What the active agent's model reads: the record, or the view that a handoff made. It only grows."""
    chapters: tuple[Chapter, ...] = ()
    """Chapters that stand for the first `covered` messages of the thread."""
    covered: int = 0
    summaries: int = 0
    """Number of calls of the helper model."""
    scale: Scale = field(default_factory=Scale)
    inbox: dict[int, UserSpoke] = {}
    """Messages whose run has not begun, by position."""
    called_off: bool = False
    """True if this is the conversation of a delegate that was cancelled before its task arrived."""
    run: Run | None = None
    """The run under way."""
    work: Task = field(default_factory=Task)
    """The task that the active agent has, or had last."""
    variables: dict[str, Any] = {}
    artifacts: dict[str, str | None] = {}
    workflow_state: dict[str, Any] = {}
    handed: Handed | None = None
    """The handoff on which the active agent works."""
    handoffs: list[HandoffRecord] = []
    leg: int = -1
    """Index of the handoff that the active agent works under; negative without one."""
    undoes: bool = False
    """True if the declaration of that handoff rolls it back when the agent fails."""
    returned: tuple[DelegateResult, ...] = ()
    """Results of the branches that a Function member sent out last."""
    undoing: Undoing = field(default_factory=Undoing)
    returning: RollbackRequested | None = None
    """The requested rollback of a transfer."""
    callbacks: dict[str, CallBack] = {}
    """Functions of declarations that have to be called, by the key that all attempts share."""
    path: list[str] = []
    """The active agents, in order."""
    names: dict[str, str] = {}
    """Display names by agent, of those that have one."""
    model_calls: dict[str, int] = {}
    """Number of model calls by agent."""
    outcomes: dict[int, Outcome] = {}
    """The runs that have ended, by id."""
    limits: dict[LimitName, LimitReached] = {}
    """Limits of the whole tree that this conversation has reached."""
    granted: int = 0
    """Number of handoffs that the tree grants this run, if max_handoffs is reached."""
    variants: dict[str, str] = {}
    """Variants of this tree by experiment, as far as they were needed here."""
    written: dict[str, int] = {}
    """Instructions that functions wrote for model calls, each with the position of the event that has the text."""

    def __post_init__(self) -> None:
        self.root, self.thread = self.id, self.record

    @property
    def last(self) -> Outcome | None:
        """The outcome of the last run."""
        return next(reversed(self.outcomes.values()), None)

    @property
    def parent(self) -> str:
        """The conversation that delegated to this one; empty for a root."""
        return parent_of(self.id)

    @property
    def travelling(self) -> Travelling:
        return self.variables, self.artifacts, self.workflow_state

    def fold(self, entries: Iterable[Entry]) -> State:
        for entry in entries:
            self.at, self.seq = entry.at, entry.seq + len(entry.events) - 1
            for event in entry.events:
                self.apply(event)
        return self

    @property
    def alone(self) -> bool:
        """True if no worker claims work here, and no other conversation shares the budget, as in most conversations."""
        run = self.run
        return not (self.depth or (run is not None and (run.delegates or run.queued or run.ticket)))

    def apply(self, event: Event | Unreadable) -> None:
        """Apply one event. An event that does not fit the state changes only the position."""
        if (run := self.run) is None:
            IDLE[type(event)](self, event)
        else:
            WORKING[type(event)](self, run, event)
        self.position += 1

    def add(self, *messages: Message) -> None:
        """Append messages to the record and the thread."""
        self.record.extend(messages)
        if self.thread is not self.record:
            self.thread.extend(messages)

    def see(self, thread: list[Message], covered: int = 0) -> None:
        """Replace the active agent's thread; its first `covered` messages stand for the chapters."""
        self.thread, self.covered = thread, covered
        if not covered:
            self.chapters = ()

    def rewrite(self, run: Run, replaced: Mapping[str, str]) -> None:
        """Replace texts in all that is new to the active agent: the request, the handoff, and the messages since the
        request with the one before it, which may be a briefing."""
        run.spoken = replace(run.spoken, text=replaced.get(run.spoken.text, run.spoken.text))
        if self.handed is not None:
            self.handed = replace(self.handed, message=replaced.get(self.handed.message, self.handed.message))
        for messages in [self.record] if self.thread is self.record else [self.record, self.thread]:
            said = (index for index in range(len(messages) - 1, -1, -1) if isinstance(messages[index], User))
            for index in range(max(0, next(said, 0) - 1), len(messages)):
                messages[index] = with_texts(messages[index], replaced)
        self.scale = Scale()

    def answer(
        self, run: Run, turn: Turn, call: OpenCall, text: str, ok: bool = True, files: tuple[File, ...] = ()
    ) -> None:
        """Answer one call; when the turn has all its answers, the agent's reply is due."""
        turn.answer(call, text, ok, files, self.at)
        if call.branch_of:
            calls.gather(self, run, turn, turn.calls[call.branch_of])
        elif turn.unanswered == 0:
            self.close(run, turn)

    def close(self, run: Run, turn: Turn) -> None:
        """Close a turn whose calls are all answered."""
        self.add(*turn.results())
        if not turn.rule:  # of calls that the model does not know
            run.strikes = run.strikes + 1 if turn.faulty else 0
        if isinstance(run.phase, Stopping):
            return
        if turn.code:  # the caller has its results or the refusals
            run.phase = Replied(self.returned[0].response if self.returned else "", self.position)
        else:
            run.phase = Thinking(str(self.position))

    def update(self, turn: Turn, call: OpenCall, directive: Directive) -> None:
        """Merge the updates of a call into the shared context; they apply in call order, whichever call ends first."""
        if not (directive.context or directive.artifacts or directive.workflow_state):
            return
        base = turn.base = turn.base or self.travelling
        turn.updates[call.place] = merged(turn.updates.get(call.place), directive)
        if call.place >= turn.latest:
            turn.latest = call.place
            self.carry(self.travelling, [directive])
        else:
            self.carry(base, [turn.updates[place] for place in sorted(turn.updates)])

    def owe(self, about: Rollback | Acceptance) -> None:
        """Note that a function of the handoff's declaration has to be called about this, and retried until it
        succeeds."""
        due = CallBack(about)
        self.callbacks[due.key] = due

    def carry(self, before: Travelling, directives: list[Directive]) -> None:
        """Set the shared context to `before` with these updates."""
        variables, artifacts, workflow_state = before
        for directive in directives:
            variables = merge_variables(variables, directive.context, "merge")
            artifacts = {**artifacts, **directive.artifacts} if directive.artifacts else artifacts
            if directive.workflow_state:
                workflow_state = {**workflow_state, **directive.workflow_state}
        self.variables, self.artifacts, self.workflow_state = variables, artifacts, workflow_state

    def end(self, run: Run, output: str, fault: Fault | None, agent: str = "", cancelled: bool = False) -> None:
        """End the run."""
        run.waiting.give_up(self.at)
        if isinstance(run.phase, TURNING) and run.phase.turn:
            self.add(*run.phase.turn.results())
            self.handoffs += answers.open_offers(self, run, RETURN, "cancelled" if cancelled else "the run failed")
        if run.flow is not None:
            run.flow.end()
        signal = RETURN if cancelled else FAIL if fault else COMPLETE
        self.work.status = "cancelled" if cancelled else "failed" if fault else "completed"
        self.end_leg(signal)
        chain = self.handoffs[run.first :]
        who = agent or self.agent
        self.outcomes[run.id] = Outcome(
            run,
            who,
            output,
            chain,
            fault,
            self.at,
            self.travelling,
            self.handed,
            cancelled,
            self.returned,
            name=self.names.get(who, who),
            shares=run.own_shares(),
        )
        self.run, self.leg, self.undoes, self.returned = None, -1, False, ()

    def end_leg(self, signal: Signal) -> None:
        """End the work under the last transfer of this run."""
        if self.leg >= 0:
            record = self.handoffs[self.leg]
            if record.state is not FAILED or signal is RETURN:  # a failed one is being rolled back
                self.handoffs[self.leg] = replace(record, state=concluded(record.state, signal))


def merged(before: Directive | None, new: Directive) -> Directive:
    """Two updates of one call as one."""
    if before is None:
        return new
    return Directive(
        context={**before.context, **new.context},
        artifacts={**before.artifacts, **new.artifacts},
        workflow_state={**before.workflow_state, **new.workflow_state},
    )


def _nothing(state: State, run: Run, event: Event) -> None:
    """Ignore an event that does not fit a run under way."""


WORKING: dict[type[Event | Unreadable], Callable[[State, Run, Any], None]] = {
    events.UserSpoke: runs.hear_meanwhile,
    events.ModelReplied: runs.reply,
    events.ModelFailed: runs.retry_or_break,
    events.ContentChecked: runs.check,
    events.FunctionReturned: runs.give_back,
    events.FunctionFailed: runs.give_up,
    events.ToolStarted: calls.intend,
    events.ToolFinished: calls.finish,
    events.SkillLoaded: calls.load_skill,
    events.CallRefused: calls.refuse,
    events.ApprovalRequested: approvals.ask,
    events.ApprovalWaived: approvals.waive,
    events.ApprovalDecided: approvals.rule,
    events.HandoffOffered: handoffs.offer,
    events.ReceiverChosen: calls.choose,
    events.ContextPacked: handoffs.pack,
    events.HandoffAccepted: handoffs.accept,
    events.HandoffReturned: handoffs.take_back,
    events.HandoffRejected: answers.reject,
    events.CircuitFound: answers.trip,
    events.AlternativeRefused: answers.pass_over,
    events.HandoffConditional: answers.condition,
    events.HandoffExpired: answers.expire,
    events.RollbackRequested: rollback.request,
    events.HandoffRolledBack: rollback.roll_back,
    events.RollbackFailed: lambda state, run, event: rollback.try_again(state, event),
    events.RollbackDone: lambda state, run, event: rollback.finish(state, event),
    events.FollowUpFailed: lambda state, run, event: rollback.try_again(state, event),
    events.FollowUpDone: lambda state, run, event: rollback.finish(state, event),
    events.TicketTaken: answers.take,
    events.TicketLapsed: answers.lapse,
    events.ResultJudged: runs.judge,
    events.RepairAsked: runs.repair,
    events.LimitReached: runs.reach_limit,
    events.TierChosen: runs.limit,
    events.VariantChosen: runs.try_out,
    events.FellBack: runs.fall_back,
    events.RuleFired: runs.fire,
    events.RuleFailed: runs.misjudge,
    events.WorkflowBegan: workflow.begin,
    events.StepSpread: workflow.spread,
    events.StepBegan: workflow.begin_step,
    events.StepSkipped: workflow.skip_step,
    events.StepFailed: workflow.fail_step,
    events.RollbackBegan: workflow.roll_back,
    events.CancelRequested: runs.call_off,
    events.RunStopped: runs.stop,
    events.RunCompleted: runs.complete,
    events.RunFailed: runs.fail,
    events.RunCancelled: runs.cancel,
    events.RunStarted: _nothing,
    events.RunResumed: _nothing,
    events.Started: _nothing,
    events.Renamed: _nothing,
    Unreadable: runs.leave,
}
"""What each event does during a run; a table, because the fold is the hottest path."""

IDLE: dict[type[Event | Unreadable], Callable[[State, Any], None]] = {
    **dict.fromkeys(WORKING, lambda state, event: None),
    events.Started: runs.open_up,
    events.UserSpoke: runs.hear,
    events.RunStarted: runs.begin,
    events.RunResumed: runs.take_up,
    events.RollbackRequested: rollback.request_idle,
    events.HandoffRolledBack: rollback.roll_back_idle,
    events.RollbackFailed: rollback.try_again,
    events.RollbackDone: rollback.finish,
    events.FollowUpFailed: rollback.try_again,
    events.FollowUpDone: rollback.finish,
    events.LimitReached: runs.reach_limit_idle,
    events.CancelRequested: runs.call_off_waiting,
    Unreadable: runs.leave_idle,
}
"""What each event does between runs."""


def context_of(state: State, run: Run, command: str) -> RunContext:
    """The context that tools, Function members and instructions get."""
    spoken = run.spoken
    return RunContext(
        state.id,
        run.ref,
        state.agent,
        command,
        spoken.text,
        spoken.user,
        spoken.correlation_id,
        state.variables,
        state.handed,
        state.artifacts,
        state.workflow_state,
        state.returned,
        at_span(spoken.trace, task_id(state.id, state.task)) if spoken.trace else "",
    )
