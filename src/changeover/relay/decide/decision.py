"""The next decision of a conversation: `decide`, and `settle`, which applies decisions that need no effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from changeover.agent.agent import Function, Person
from changeover.agent.roster import Roster
from changeover.errors import CircuitsOpen, Exhausted
from changeover.faults import AgentFault, RefusalFault
from changeover.guards.approval import Edit, Reject, Respond
from changeover.guards.checks import Check
from changeover.guards.guard import Tripped
from changeover.guards.limits import BUDGETS, Limits, classify
from changeover.handoffs.strategies import refs_of
from changeover.ids import Mark, Topic, call_of, command_id, is_callback, split_handoff, topic_id, topic_of
from changeover.messages import Note, View
from changeover.relay.budget import spent_up, with_limit
from changeover.relay.commands import AwaitApproval, CallFunction, CallModel, Command, JudgeTask, Record
from changeover.relay.decide import answers, delegates, fallback, rollback, rules, workflow
from changeover.relay.decide.limits import fail, overdue
from changeover.relay.decide.turn import act
from changeover.relay.decide.variants import record_first
from changeover.relay.events import (
    ApprovalRequested,
    CircuitFound,
    ContentChecked,
    Event,
    FellBack,
    FunctionReturned,
    HandoffOffered,
    LimitReached,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    Started,
    TierChosen,
    UserSpoke,
)
from changeover.relay.fold.handoffs import sender_of
from changeover.relay.ports.declarations import EditionMoved
from changeover.relay.run import TURNING, Acting, Awaiting, Broken, Phase, Replied, Run, Stopping, Thinking
from changeover.relay.state import State, context_of
from changeover.relay.turn import Asked, Begun, Declined, Delegated, Directed, Fresh, Offered, OpenCall, Turn
from changeover.tools.command import Directive


def _ask_person(state: State, run: Run, phase: Thinking, roster: Roster) -> Record:
    """The request to the active person, or what follows from the decision."""
    verdict = run.verdict
    if verdict is None:
        sender, kind = state.handed.sender if state.handed else "", _kind(run)
        about = {"reason": fallback.WORN_OUT} if run.worn_out else state.variables
        id, who = topic_id(phase.due, kind), (sender, "", about, state.agent)
        message = answers.asked_for(run.spoken.text, phase.problem)
        return Record(ApprovalRequested(id, state.task, *who, message, kind=kind))
    match verdict.decision:
        case Respond(text=text):
            return Record(FunctionReturned(state.agent, state.task, text, by=verdict.by))
        case Edit(receiver=receiver):
            return Record(FunctionReturned(state.agent, state.task, "", Directive(goto=receiver), verdict.by))
        case Reject(note=note):
            return _give_back(state, run, note, verdict.by, roster)
        case _:
            return _give_back(state, run, "", verdict.by, roster)


def _kind(run: Run) -> Literal["task", "escalation"]:
    return "escalation" if run.worn_out else "task"


def _give_back(state: State, run: Run, note: str, by: str, roster: Roster) -> Record:
    """Return the task to the agent that handed it over; without one, the run fails."""
    sender = state.handed.sender if state.handed else ""
    delegated = state.leg < 0 and run.spoken.given is not None  # the sender waits in the parent conversation
    if sender in roster.seats and sender != state.agent and not delegated:
        return Record(FunctionReturned(state.agent, state.task, "", Directive(goto=sender, message=note), by))
    return Record(RunFailed(run.id, RefusalFault(state.agent, note or f"declined{f' by {by}' if by else ''}")))


def _choose_tier(state: State, run: Run, limits: Limits, roster: Roster) -> Record | Sequence[Command]:
    """Find the tier of a run that has just begun, by its words or by asking the helper model."""
    found = classify(run.spoken.text, roster.capabilities)
    if limits.auto == "judge":
        return [JudgeTask(topic_id(run.id, Topic.TIER), state.task, state.id, run.id, run.spoken.text, limits, found)]
    return Record(TierChosen(run.id, found.tier, found.reason, limits.as_tier(found.tier)))


def _awaits_tier(state: State, command: str) -> bool:
    """True if the tier of the run is still to be found by this command."""
    return state.run is not None and command == topic_id(state.run.id, Topic.TIER) and not state.run.tier


def decide(state: State, roster: Roster) -> Record | Sequence[Command]:
    """The next decision that needs no effect or, if there is none, every command that is outstanding.

    A command for a call of a turn is given out once for each `State`, so that a turn with many calls does not list all
    of them with every outcome. A process that lost a command folds the log again.
    """
    run = state.run
    if state.unreadable:
        return ()  # a newer version wrote it, and goes on with it
    decision = _roll_back(state, run, roster) if _rolls_back(state) else _next(state, run, roster)
    if (state.undoes or roster.fallback) and isinstance(decision, Record):
        decision = _unless_undone(state, run, decision, roster)
    return record_first(state, decision, roster) if roster.trials else decision


def _rolls_back(state: State) -> bool:
    """True if a handoff is being rolled back, or functions of declarations are still to be called."""
    return bool(state.callbacks or state.returning or state.undoing.failed)


def _unless_undone(state: State, run: Run | None, decision: Record, roster: Roster) -> Record:
    """The decision. If it would fail the run, a rollback or a sender that goes on alone may take its place."""
    if state.undoes and run is not None:
        decision = rollback.before_failure(state, run, decision)
    return fallback.unless_sender_goes_on(state, decision, roster) if roster.fallback else decision


def _next(state: State, run: Run | None, roster: Roster) -> Record | Sequence[Command]:
    if run is None:
        return _next_run(state, roster)
    limits = run.limits or roster.limits
    if (limits.auto or "timeout" in state.limits) and not (isinstance(run.phase, Broken | Stopping) or run.undoes):
        if limits.auto:
            return _choose_tier(state, run, limits, roster)
        if limits.on_limit == "raise":
            return overdue(state, run)
    return PHASES[type(run.phase)](state, run, run.phase, roster)


def _roll_back(state: State, run: Run | None, roster: Roster) -> Record | Sequence[Command]:
    """What is due while a handoff is rolled back, beside everything else."""
    if state.undoing.failed:
        return rollback.by_policy(state)
    if (done := rollback.settled(state, roster)) is not None:
        return done
    if state.returning is not None and (run is None or not rollback.busy(run)):
        return rollback.returned(state, state.returning, roster)
    following = _next(state, run, roster)
    return following if isinstance(following, Record) else [*following, *state.callbacks.values()]


def first_agent(state: State, spoken: UserSpoke, roster: Roster) -> str:
    """The id of the agent with which the run of a message begins."""
    agent = spoken.agent or state.return_to or state.agent
    if (agent not in roster.seats or agent in roster.absent) and not spoken.agent:
        return roster.start  # there is no active agent, or it has left the team
    return agent


def _next_run(state: State, roster: Roster) -> Record | Sequence[Command]:
    return Record(_start(state, *next(iter(state.inbox.items())), roster)) if state.inbox else ()


def _start(state: State, run: int, spoken: UserSpoke, roster: Roster) -> RunStarted:
    """The start of the run of a message; `run` is the position of the message."""
    if spoken.package is not None:
        return RunStarted(run, sender_of(spoken.package), code=True, edition=roster.edition)
    agent = first_agent(state, spoken, roster)
    claimed = spoken.given is not None and spoken.given.ticket
    queued, name = roster.pulls(agent) and not claimed, roster.names.get(agent, "")
    told = _withdrawn(state, roster) if roster.withdrawn else ()
    return RunStarted(run, agent, queued=queued, name=name, edition=roster.edition, withdrawn=told)


def _with_start(state: State, roster: Roster, events: Iterable[Event]) -> list[Event]:
    """The events with the start of a run, if they are a message that begins one at once. No run is under way."""
    batch = list(events)
    if not batch or type(spoken := batch[-1]) is not UserSpoke:
        return batch
    opened = len(batch) == 1 or (len(batch) == 2 and type(batch[0]) is Started)
    if opened and not (state.inbox or state.called_off or state.unreadable or _rolls_back(state)):
        batch.append(_start(state, state.position + len(batch) - 1, spoken, roster))
    return batch


def _withdrawn(state: State, roster: Roster) -> tuple[str, ...]:
    """What the store has withdrawn since the last run of the conversation began."""
    last = state.last
    return tuple(name for name, at in roster.withdrawn.items() if last is not None and at > last.run.edition)


def begins_with(state: State, events: Iterable[Event]) -> int | None:
    """The edition with which the next decision is made: that of the run under way or, if none begins, of the last one.
    None for the newest, because a new run begins."""
    if state.run is not None:
        return state.run.edition
    for spoken in (*state.inbox.values(), *events):
        if isinstance(spoken, UserSpoke):
            return None if spoken.given is None else spoken.given.edition
    return state.last.run.edition if state.last is not None else None


def _think(state: State, run: Run, phase: Thinking, roster: Roster) -> Record | Sequence[Command]:
    seat = roster.seats.get(state.agent) or roster.steps.get(state.agent)
    limits = run.limits or roster.limits
    if run.last_turn and run.last_turn != phase.due:
        return Record(RunCancelled(run.id))
    if run.struck is not None and limits.on_limit == "raise":
        return fail(run, run.struck)
    if seat is None:
        return _begin_workflow(state, run, roster)
    if run.worn_out or isinstance(seat, Person):
        return _ask_person(state, run, phase, roster)
    if isinstance(seat, Function):
        return [CallFunction(phase.due, state.task, context_of(state, run, phase.due))]
    if roster.fallback and not run.fell_back and (why := fallback.let_down(state, run, seat, roster)):
        return Record(FellBack(state.task, why))
    if run.strikes > roster.second_chances:
        return fail(run, fallback.fault_of(state, run, seat, roster))
    return _ask_model(state, run, phase, limits, seat.agent.checks, roster)


def _begin_workflow(state: State, run: Run, roster: Roster) -> Record:
    """Begin the workflow that the run is for; without one, the active agent has left the team."""
    found = roster.workflows.get(state.agent)
    return workflow.begin(state, found) if found else fail(run, AgentFault(state.agent, tuple(roster.seats)))


def _ask_model(
    state: State, run: Run, phase: Thinking, limits: Limits, checks: Sequence[Check], roster: Roster
) -> Record | Sequence[Command]:
    last = _is_last_call(state, run, limits)
    if isinstance(last, Record):
        return last
    if roster.leads and (led := rules.lead(state, run, phase, roster)) is not None:
        return led
    return [
        CallModel(
            phase.due,
            state.task,
            context_of(state, run, phase.due),
            View(state.thread),
            state.model_calls.get(state.agent, 0),
            phase.attempt,
            phase.not_before,
            limits.max_handoffs > 0 and not run.told and roster.hands_off(state.root, state.agent),
            last,
            bool(state.chapters) and bool(refs_of(state.chapters)),
            state.variants,
            checks,
            _news(state, run) if checks and run.checked != state.task else (),
            state.written,
        )
    ]


def _news(state: State, run: Run) -> tuple[str, ...]:
    """What is new to the agent that begins to work: the request, the sender's message, and a briefing."""
    handed, notes = state.handed, [each.text for each in state.thread[-2:] if isinstance(each, Note)]
    texts = (run.spoken.text, handed.message if handed else "", *notes)
    return tuple(dict.fromkeys(text for text in texts if text))


def _is_last_call(state: State, run: Run, limits: Limits) -> bool | Record:
    """True if this is the last model call that the limits allow; a Record if a limit is reached or forbids the call."""
    turns = run.turns + run.below.turns
    budgeted = limits.max_tokens is not None or limits.max_cost is not None
    if turns < limits.max_turns - 1 and not (budgeted or state.limits or state.work.max_iterations):
        return False  # most calls: no limit is near
    tell = limits.on_limit == "tell"
    if (fault := spent_up(state, run, limits)) is None:
        return tell and turns == limits.max_turns - 1
    if not tell or fault.limit not in BUDGETS or run.last_word:
        return fail(run, fault)
    return fault.limit in state.limits or Record(LimitReached(fault.limit, fault.figure, 0, fault.spent))


def _act(state: State, run: Run, phase: Acting, roster: Roster) -> Record | Sequence[Command]:
    turn = phase.turn
    if run.worn_out and (due := fallback.given_up(state, turn)) is not None:
        return due
    offered = turn.offered
    if offered is None or turn.unanswered > 1:
        return act(state, run, turn, roster)
    return answers.go_on(state, run, turn, offered, roster)


def _await(state: State, run: Run, phase: Awaiting, roster: Roster) -> Sequence[Command]:
    return [AwaitApproval(command_id(phase.request.call, Mark.DECISION), state.task, phase.request)]


def _complete(state: State, run: Run, phase: Replied, roster: Roster) -> Record | Sequence[Command]:
    if (checked := phase.checked) is not None:
        return Record(ContentChecked(state.agent, state.task, "output", checked.verdict, checked.reason))
    expected = run.wishes or run.spoken.given is not None
    if expected and (due := answers.judge(state, run, phase, roster)) is not None:
        return due
    return Record(RunCompleted(run.id), ends=not (state.inbox or _rolls_back(state)))


def _break(state: State, run: Run, phase: Broken, roster: Roster) -> Record:
    return Record(RunFailed(run.id, phase.fault))


def _stop(state: State, run: Run, phase: Stopping, roster: Roster) -> Record | Sequence[Command]:
    """Cancel the delegates that still work for this run; then it ends."""
    if phase.turn is not None and phase.turn.delegated:
        return [
            delegates.call_back(state, offer)
            for call in phase.turn.ready.values()
            if isinstance(call.phase, Delegated) and (offer := call.phase.offer)
        ]
    if (due := workflow.roll_back(run, phase)) is not None:
        return due
    return Record(RunCancelled(run.id) if phase.fault is None else RunFailed(run.id, phase.fault))


PHASES: dict[type[Phase], Callable[[State, Run, Any, Roster], Record | Sequence[Command]]] = {
    Thinking: _think,
    Awaiting: _await,
    Acting: _act,
    Replied: _complete,
    Broken: _break,
    Stopping: _stop,
}
"""The function that decides in each phase of a run."""


NO_CIRCUITS: Mapping[str, Tripped] = {}


def settle(
    state: State,
    roster: Roster,
    at: float,
    events: Iterable[Event],
    tripped: Mapping[str, Tripped] = NO_CIRCUITS,
    apply: Callable[[Event], None] | None = None,
) -> tuple[list[Event], Sequence[Command]]:
    """Apply the events and all decisions that need no effect; return what to append and what is left to perform.

    `tripped` holds the open circuits that the store found, by the calls of their offers. `apply` takes the place of
    `state.apply` for a caller that also reads each event.
    """
    state.at = at
    apply = apply or state.apply
    batch = list(events) if state.run is not None else _with_start(state, roster, events)
    for event in batch:
        apply(event)
    # One decision at a time: each may change the next one.
    while isinstance(decision := decide(state, roster), Record):
        event, then = decision.event, decision.then
        if tripped and type(event) is HandoffOffered and (found := tripped.get(event.call)):
            # Right after its offer: any other place would shift the ids that the store checked.
            then = CircuitFound(event.call, event.task, found.receiver, found.failures, found.until, found.opened_at)
        apply(event)
        batch.append(event)
        if then is not None:
            apply(then)
            batch.append(then)
        if decision.ends:
            return batch, ()
        if roster.following is not None and state.run is None:
            roster = roster.following
    if decision and state.run is not None:
        _give_out(state.run, decision)
    return batch, decision


def _give_out(run: Run, commands: Sequence[Command]) -> None:
    """Note that the commands of the current turn are given out."""
    if isinstance(run.phase, TURNING) and (turn := run.phase.turn):
        for command in commands:
            turn.give_out(call_of(command.id))


def after_refusal(
    events: Sequence[Event], tripped: Mapping[str, Tripped], refusal: Exhausted | CircuitsOpen | EditionMoved
) -> tuple[Sequence[Event], Mapping[str, Tripped]]:
    """The arguments for another `settle` after the log refused an append: events with the exhausted limit, and the open
    circuits by the calls of their offers."""
    if isinstance(refusal, Exhausted):
        return with_limit(events, refusal), NO_CIRCUITS  # other ids may follow, so circuits are checked again
    if isinstance(refusal, EditionMoved):
        return events, NO_CIRCUITS
    found = {
        split_handoff(handoff)[1]: Tripped(who, failures, until, since)
        for handoff, who, failures, until, since in refusal.offers
    }
    return events, {**tripped, **found}


def awaits(state: State, command: str) -> bool:
    """True if this command is outstanding."""
    phase = state.run.phase if state.run else None
    if type(phase) is Thinking and phase.due == command:
        return True  # most commands
    if is_callback(command):
        return any(wanted.id == command for wanted in state.callbacks.values())
    if topic_of(command) == Topic.TIER:
        return _awaits_tier(state, command)
    match phase:
        case Acting(turn=turn):
            return _in_turn(turn, command)
        case Replied(at=at):
            return topic_id(at, Topic.RESULT) == command
        case Awaiting(request=request):
            return command_id(request.call, Mark.DECISION) == command
        case Stopping(turn=turn) if turn and command.endswith(Mark.RECALL):
            return isinstance(turn.calls[call_of(command)].phase, Delegated)
        case _:
            return False


def _in_turn(turn: Turn, command: str) -> bool:
    call = turn.calls.get(call_of(command))
    if call is not None and topic_of(command) in (Topic.RESULT, Topic.REPAIR):
        return isinstance(call.phase, Offered) and call.phase.problem is None
    if call is not None and topic_of(command) == Topic.END:
        return isinstance(call.phase, Directed) and turn.judged is None
    return call is not None and _wanted(call, command)


def _wanted(call: OpenCall, command: str) -> bool:
    phase = call.phase
    match command[-1]:
        case Mark.CHECK:
            return isinstance(phase, Fresh | Directed)
        case Mark.SEARCH:
            return isinstance(phase, Fresh | Directed | Declined) and call.chosen is None
        case Mark.DECISION:
            return isinstance(phase, Asked) and command_id(phase.request.call, Mark.DECISION) == command
        case Mark.QUESTION:
            return isinstance(phase, Offered) and command_id(phase.offer.call, Mark.QUESTION) == command
        case Mark.PACK:
            mine = isinstance(phase, Offered) and command_id(phase.offer.call, Mark.PACK) == command
            return mine and isinstance(phase, Offered) and phase.packed is None
        case Mark.RECALL:
            return isinstance(phase, Delegated) and phase.recalled is not None
        case _:
            mine = isinstance(phase, Delegated) and phase.offer.call == command and phase.recalled is None
            return mine or isinstance(phase, Fresh | Begun)
