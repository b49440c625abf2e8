"""The fold of runs: begin, model replies, rules, limits, cancellation, end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.facts import ONE_REQUEST, Mode
from changeover.facts import State as HandoffState
from changeover.faults import FunctionFault, ModelFault, ResultFault, WorkerFault
from changeover.guards.limits import BUDGETS
from changeover.handoffs.context import merge_variables
from changeover.ids import call_of, handoff_id, split_child, task_id
from changeover.messages import Assistant, Note, User
from changeover.relay.events import (
    CancelRequested,
    ContentChecked,
    FellBack,
    FunctionFailed,
    FunctionReturned,
    LimitReached,
    ModelFailed,
    ModelReplied,
    RepairAsked,
    ResultJudged,
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
    Unreadable,
    UserSpoke,
    VariantChosen,
)
from changeover.relay.fold import workflow
from changeover.relay.fold.handoffs import IN_WORK, author_of, handed_to_delegate, sender_of, trail_to
from changeover.relay.fold.rollback import return_failed
from changeover.relay.run import Acting, Broken, Outcome, Replied, Run, Stopping, Task, Thinking, new_run
from changeover.relay.turn import Directed, Offered, Turn, function_turn, model_turn, rule_turn
from changeover.tools.command import Directive, Errand

if TYPE_CHECKING:
    from changeover.relay.state import State


def open_up(state: State, event: Started) -> None:
    state.root, state.depth, state.team = event.root or state.id, event.depth, event.team


def hear(state: State, event: UserSpoke) -> None:
    state.inbox[state.position] = event
    if state.called_off:
        call_off_waiting(state, CancelRequested())


def hear_meanwhile(state: State, run: Run, event: UserSpoke) -> None:
    state.inbox[state.position] = event


def begin(state: State, event: RunStarted) -> None:
    id = next(iter(state.inbox), None)
    if id is None or id != event.run:
        return
    spoken = state.inbox.pop(id)
    if spoken.package is not None:
        return _offer(state, id, spoken, event)
    if event.name:
        state.names[event.agent] = event.name
    if event.agent != state.agent:
        # An agent that starts without a handoff reads the whole record.
        state.agent, state.handed = event.agent, None
        state.see(state.record)
        state.path.append(event.agent)
    state.return_to, state.task, state.leg, state.undoes = "", state.position, -1, False
    state.variables = merge_variables(state.variables, spoken.context, "merge")
    if spoken.given is not None:
        _receive(state, spoken)
    else:
        state.limits = {}
    if event.withdrawn:
        state.add(Note(event.notice, "changeover"))
    state.add(User(spoken.text, author_of(spoken), spoken.files))
    run = new_run(state.id, id, spoken, state.at, len(state.handoffs), Thinking(str(state.position)))
    run.agents.add(event.agent)
    run.edition = event.edition
    if spoken.given is not None:
        run.trail = trail_to(state, spoken.given, spoken.text)
    claimed = spoken.given.ticket if spoken.given else ""
    run.ticket = handoff_id(state.id, state.position) if event.queued else claimed
    handoff = handoff_id(*split_child(state.id)) if spoken.given else None
    most = spoken.given.max_iterations if spoken.given else 0
    state.work = Task(
        state.position, run.ref, event.agent, spoken.text, handoff, "pending" if event.queued else "running", most
    )
    state.run = run
    return None


def _offer(state: State, id: int, spoken: UserSpoke, event: RunStarted) -> None:
    """Begin a run in which code offers a package. The active agent changes only if a transfer is accepted."""
    sender = event.agent
    # Only the raw fields that are needed: validating the whole package would be the slowest step here.
    package = spoken.package or {}
    metadata, context = package.get("metadata", {}), package.get("context", {})
    state.return_to, state.task, state.limits = "", state.position, {}
    state.leg, state.undoes = -1, False
    state.variables = merge_variables(state.variables, spoken.context, "merge")
    if artifacts := context.get("artifacts"):
        state.artifacts = {**state.artifacts, **artifacts}
    if progress := context.get("workflow_state"):
        state.workflow_state = {**state.workflow_state, **progress}
    if metadata.get("mode") == Mode.TRANSFER:
        state.add(User(spoken.text, spoken.user or sender))
    state.run = new_run(state.id, id, spoken, state.at, len(state.handoffs), _code_turn(state, spoken, sender))
    state.run.edition = event.edition
    state.work = Task(state.position, state.run.ref, sender, spoken.text)


def _code_turn(state: State, spoken: UserSpoke, sender: str) -> Acting:
    """The turn of code that offers a package."""
    metadata = (spoken.package or {}).get("metadata", {})
    receiver = metadata.get("receiver", "")
    if metadata.get("mode") == Mode.TRANSFER:
        directive = Directive(goto=receiver, message=metadata.get("reason", ""))
    else:
        directive = Directive(sends=(Errand(receiver, {}, spoken.text),))
    return Acting(function_turn(str(state.position), sender, directive, code=True))


def _receive(state: State, spoken: UserSpoke) -> None:
    """Set up the state of a delegate from the task that it was given."""
    given = spoken.given
    assert given is not None
    state.path[:0] = given.path
    state.handed = handed_to_delegate(given, spoken, state.path)
    state.artifacts, state.workflow_state = given.artifacts, given.workflow_state
    state.variants = {**given.variants, **state.variants}
    if given.briefing:
        state.add(Note(given.briefing, given.sender))
    if given.chapters:
        state.chapters, state.covered = given.chapters, len(state.thread)


def take_up(state: State, event: RunResumed) -> None:
    outcome = state.outcomes.get(event.run)
    if outcome is None or state.last is not outcome or not (outcome.fault or outcome.run.flow):
        return
    del state.outcomes[event.run]
    run = state.run = outcome.run
    run.strikes, run.struck, run.verdict, run.repairs, run.worn_out = 0, None, None, 0, False
    run.last_word, run.last_turn = False, ""
    run.waiting.rest(outcome.at, state.at)
    run.phase, state.work.status = Thinking(str(state.position)), "running"
    if isinstance(outcome.fault, ResultFault):
        state.add(Note(outcome.fault.reason, "changeover"))  # the next attempt reads why
    state.limits = {}
    for index in range(len(state.handoffs) - 1, run.first - 1, -1):
        if (record := state.handoffs[index]).task_id == task_id(state.id, state.task):
            if record.state is HandoffState.FAILED:  # no longer failed: the receiver goes on
                state.handoffs[index], state.leg = replace(record, state=IN_WORK), index
            break
    if run.flow is not None:
        workflow.resume(state, run, run.flow, event.step)
    elif run.spoken.package is not None and not run.trail:
        # No receiver has accepted: code retries the offer.
        run.phase = _code_turn(state, run.spoken, sender_of(run.spoken.package))


def leave_idle(state: State, event: Unreadable) -> None:
    state.unreadable = event.tag


def leave(state: State, run: Run, event: Unreadable) -> None:
    state.unreadable = event.tag


def reply(state: State, run: Run, event: ModelReplied) -> None:
    if not isinstance(run.phase, Thinking):
        return
    state.work.begin()
    run.spend(event.agent, event.usage or ONE_REQUEST)
    if event.instructions:
        state.written[event.instructions] = state.position
    if state.limits and not BUDGETS.isdisjoint(state.limits):
        run.last_word = run.phase.due != run.under_way
    state.model_calls[event.agent] = state.model_calls.get(event.agent, 0) + 1
    state.add(Assistant(event.agent, event.text, event.thinking, event.calls, event.extra))
    if event.calls:
        run.phase = Acting(model_turn(state.position, event.agent, event.text, event.calls))
    else:
        run.phase = Replied(event.text, state.position, checked=event.checked)
    run.checked = state.task  # its input was checked, if it had to be


def check(state: State, run: Run, event: ContentChecked) -> None:
    denied = event.verdict == "deny"
    if event.direction == "output" and isinstance(run.phase, Replied):
        # A refusal is the answer although it does not meet the expectations, so it counts as judged.
        run.phase = replace(run.phase, checked=None, judged=run.phase.judged or denied)
    elif event.direction == "input" and isinstance(run.phase, Thinking):
        state.work.begin()
        run.checked = state.task
        state.rewrite(run, event.replaced)
        run.phase = Thinking(str(state.position))
        if denied:
            state.add(Assistant(event.agent, event.reason))
            run.phase = Replied(event.reason, state.position, judged=True)


def retry_or_break(state: State, run: Run, event: ModelFailed) -> None:
    if not isinstance(run.phase, Thinking):
        return
    state.work.begin()
    state.model_calls[event.agent] = state.model_calls.get(event.agent, 0) + 1
    if event.retry_at is None:
        run.phase = Broken(ModelFault(event.agent, event.reason))
    else:
        run.count_retry(event.agent)
        run.phase = Thinking(str(state.position), run.phase.attempt + 1, event.retry_at)


def give_back(state: State, run: Run, event: FunctionReturned) -> None:
    if not isinstance(run.phase, Thinking):
        return
    state.work.begin()
    state.returned, run.verdict = (), None
    if event.directive is None:
        run.by = event.by
        state.add(Assistant(event.agent, event.text))
        run.phase = Replied(event.text, state.position)
    else:
        before = state.travelling
        state.carry(before, [event.directive])
        if state.travelling != before:
            run.gain()
        run.worn_out = False  # if it was, a person has decided where the task goes
        run.phase = Acting(function_turn(run.phase.due, event.agent, event.directive))


def give_up(state: State, run: Run, event: FunctionFailed) -> None:
    run.verdict = None
    state.work.begin()
    if isinstance(run.phase, Thinking):
        run.by = event.by
        fault = WorkerFault if event.by else FunctionFault
        run.phase = Broken(fault(event.agent, event.reason))


def judge(state: State, run: Run, event: ResultJudged) -> None:
    if isinstance(run.phase, Replied):
        run.phase = replace(run.phase, judged=True, problem=event.problem)
    elif isinstance(run.phase, Acting) and (call := run.phase.turn.calls.get(call_of(event.call))):
        turn = run.phase.turn
        turn.idle[call.id] = call
        if isinstance(call.phase, Offered):
            call.phase = replace(call.phase, problem=event.problem)
        else:
            turn.judged = event.problem


def repair(state: State, run: Run, event: RepairAsked) -> None:
    if isinstance(run.phase, Replied):
        run.repairs, run.by = run.repairs + 1, ""
        state.add(Note(event.problem, "changeover"))
        run.phase = Thinking(str(state.position), problem=event.problem)
    elif (found := run.find(event.call, Offered)) and isinstance(offered := found[1].phase, Offered):
        found[0].move(found[1], replace(offered, verdict=None, problem=None, repair=event.problem))


def limit(state: State, run: Run, event: TierChosen) -> None:
    run.limits, run.tier = event.limits, event.tier
    if event.usage is not None:
        run.charge(state.agent, event.usage)


def try_out(state: State, run: Run, event: VariantChosen) -> None:
    # A new dict each time: readers of the old one must not see changes.
    state.variants = {event.experiment: event.variant, **state.variants}


def fall_back(state: State, run: Run, event: FellBack) -> None:
    run.fell_back = run.told = True
    if event.agent and state.leg >= 0:
        return_failed(state, run, event)
    elif isinstance(run.phase, Thinking):
        run.strikes = 0
        state.add(Note(f"{event.reason}; go on by yourself", "changeover"))


def reach_limit(state: State, run: Run, event: LimitReached) -> None:
    state.limits[event.limit] = event
    if event.limit == "max_handoffs":
        state.granted = run.handoffs + event.left
    elif event.limit == "timeout" and isinstance(run.phase, Thinking):
        run.under_way = run.phase.due


def reach_limit_idle(state: State, event: LimitReached) -> None:
    state.limits[event.limit] = event
    if event.limit == "max_handoffs":
        state.granted = event.left


def call_off(state: State, run: Run, event: CancelRequested) -> None:
    call_off_waiting(state, event)
    if event.run not in (0, run.id):
        return
    if event.after_turn and (under_way := _turn_under_way(state, run)):
        run.last_turn = run.last_turn or under_way
        return
    state.returning = None  # a cancelled run does not go back to a sender
    if not isinstance(run.phase, Stopping):
        run.by = event.by
        _stop(run, Stopping(None, run.phase.turn if isinstance(run.phase, Acting) else None))


REPLIED = "replied"
"""Stands for a turn whose model has replied."""


def _turn_under_way(state: State, run: Run) -> str:
    """The model call that is under way, or REPLIED; empty if no turn is under way."""
    match run.phase:
        case Thinking(due=due):
            # Work that waits in a queue has not begun.
            return "" if run.ticket and state.work.status == "pending" else due
        case Acting() | Replied():
            return REPLIED
        case _:
            return ""


def call_off_waiting(state: State, event: CancelRequested) -> None:
    """End the runs in the inbox that have not begun."""
    for id in [id for id in state.inbox if event.run in (0, id)]:
        spoken = state.inbox.pop(id)
        run = new_run(state.id, id, spoken, state.at, len(state.handoffs), Replied(""))
        run.by = event.by
        who = spoken.agent or state.agent
        name = state.names.get(who, who)
        end = Outcome(run, who, "", [], None, state.at, state.travelling, None, cancelled=True, name=name)
        state.outcomes[id] = end
    state.called_off = state.depth > 0 and state.run is None and not state.outcomes


def stop(state: State, run: Run, event: RunStopped) -> None:
    if not isinstance(run.phase, Stopping):
        _stop(run, Stopping(event.fault, run.phase.turn if isinstance(run.phase, Acting) else None))


def _stop(run: Run, phase: Stopping) -> None:
    if run.flow is not None:
        run.flow.stop()
    if phase.turn:
        phase.turn.withdraw()
    run.phase = phase


def complete(state: State, run: Run, event: RunCompleted) -> None:
    match run.phase:
        case Acting() if run.flow is not None:
            workflow.complete(state, run, run.flow, event.output)
        case Replied(text=text):
            state.end(run, text, None)
        case Acting(turn=turn):
            _end_here(state, run, turn)
        case _:
            return


def _end_here(state: State, run: Run, turn: Turn) -> None:
    """End the run with the output of a call."""
    for call in turn.asked:
        if isinstance(phase := call.phase, Directed) and phase.directive.end:
            output = phase.directive.output
            turn.answer(call, phase.text or "the run ends here")
            state.add(*turn.results(), *([Assistant(phase.agent, output)] if output else []))
            run.phase = Replied(output)
            state.end(run, output, None, phase.agent)
            return


def fail(state: State, run: Run, event: RunFailed) -> None:
    state.end(run, "", event.fault)


def cancel(state: State, run: Run, event: RunCancelled) -> None:
    state.end(run, "", None, cancelled=True)


def fire(state: State, run: Run, event: RuleFired) -> None:
    if event.goto or event.end:
        _lead(state, run, event)
    elif found := run.find(event.call):
        call = found[1]
        call.ruled = (*call.ruled, (event.rule, event.receiver))


def _lead(state: State, run: Run, event: RuleFired) -> None:
    """Let a rule hand over or answer before the agent's model is asked."""
    if not isinstance(run.phase, Thinking):
        return
    run.fired |= {event.rule}
    if event.end:
        state.add(Assistant(event.agent, event.end))
        run.phase = Replied(event.end, state.position)
    else:
        directive = Directive(goto=event.goto, message=event.message)
        run.phase = Acting(rule_turn(str(state.position), event.agent, directive, event.rule))


def misjudge(state: State, run: Run, event: RuleFailed) -> None:
    run.misjudged |= {event.rule}
