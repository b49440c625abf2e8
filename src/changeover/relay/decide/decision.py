"""What a conversation does next. Pure: the same state and roster give the same commands. The only reader of policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from changeover.agent.agent import Function, Person
from changeover.agent.roster import Roster, Seat
from changeover.faults import AgentFault, Fault, ModelFault, ReceiverFault, RefusalFault
from changeover.guards.limits import BUDGETS, Limits
from changeover.handoffs.chapters import can_fetch
from changeover.messages import View
from changeover.relay.commands import AwaitApproval, CallFunction, CallModel, Command, Record
from changeover.relay.context import context_of
from changeover.relay.decide import answers, delegates, rollback
from changeover.relay.decide.limits import overdue
from changeover.relay.decide.turn import act
from changeover.relay.deciding import expecting, people, ruling, tiering, trying
from changeover.relay.events import FellBack, LimitReached, RunCancelled, RunCompleted, RunFailed, RunStarted
from changeover.relay.limiting import spent_up
from changeover.relay.passing import sender_of
from changeover.relay.run import Acting, Awaiting, Broken, Phase, Replied, Run, Stopping, Thinking
from changeover.relay.state import State
from changeover.relay.turn import Delegated


def decide(state: State, roster: Roster) -> Record | Sequence[Command]:
    """The next decision that needs no effect or, if there is none, every command that is outstanding.

    A command for a call of a turn is given once for each `State`: of a turn with many calls, those that are in work
    are not listed again with every outcome. Who has lost one folds the log anew and is given all.
    """
    run = state.run
    if state.unreadable:
        return ()  # whoever wrote it knows what to do
    tidy = state.rollbacks or state.returning is not None
    decision = _tidy(state, run, roster) if tidy else _next(state, run, roster)
    return trying.told_first(state, decision, roster) if roster.trials else decision


def _next(state: State, run: Run | None, roster: Roster) -> Record | Sequence[Command]:
    if run is None:
        return _next_run(state, roster)
    limits = run.limits or roster.limits
    if (limits.auto or "timeout" in state.limits) and not isinstance(run.phase, Broken | Stopping):
        if limits.auto:
            return tiering.choose(state, run, limits, roster)
        if limits.on_limit == "raise":
            return overdue(state, run)
    return PHASES[type(run.phase)](state, run, run.phase, roster)


def _tidy(state: State, run: Run | None, roster: Roster) -> Record | Sequence[Command]:
    """What is due while a handoff is being undone, beside everything else."""
    if (done := rollback.settled(state, roster)) is not None:
        return done
    if state.returning is not None and (run is None or not rollback.busy(run)):
        return rollback.returned(state, state.returning, roster)
    following = _next(state, run, roster)
    return following if isinstance(following, Record) else [*following, *state.rollbacks.values()]


def _next_run(state: State, roster: Roster) -> Record | Sequence[Command]:
    if not state.inbox:
        return ()
    run, spoken = state.inbox[0]
    if spoken.package is not None:
        return Record(RunStarted(run, sender_of(spoken.package), code=True))
    agent = spoken.agent or state.return_to or state.agent
    if (agent not in roster.seats or agent in roster.absent) and not spoken.agent:
        agent = roster.start  # nobody yet, or somebody who has left the team since
    claimed = spoken.given is not None and spoken.given.ticket
    return Record(RunStarted(run, agent, queued=roster.pulls(agent) and not claimed))


def _think(state: State, run: Run, phase: Thinking, roster: Roster) -> Record | Sequence[Command]:
    seat = roster.seats.get(state.agent)
    limits = run.limits or roster.limits
    if run.struck is not None and limits.on_limit == "raise":
        return _fail(run, run.struck)
    if seat is None:
        return _fail(run, AgentFault(state.agent, tuple(roster.seats)))
    if run.worn_out or isinstance(seat, Person):
        return people.think(state, run, phase, roster)
    if isinstance(seat, Function):
        return [CallFunction(phase.due, state.task, context_of(state, run, phase.due))]
    if run.strikes > roster.second_chances:
        mistaken = _fault_of(state, run, seat, roster)
        if roster.fallback and isinstance(mistaken, ReceiverFault) and not run.fell_back:
            return Record(FellBack(state.task, f"nobody is called {mistaken.receiver!r}"))
        return _fail(run, mistaken)
    return _ask_model(state, run, phase, limits, roster)


def _ask_model(state: State, run: Run, phase: Thinking, limits: Limits, roster: Roster) -> Record | Sequence[Command]:
    last = _last_word(state, run, limits)
    if isinstance(last, Record):
        return last
    if roster.gotos and (led := ruling.lead(state, run, phase, roster)) is not None:
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
            bool(state.chapters) and can_fetch(state.chapters),
            state.variants,
        )
    ]


def _last_word(state: State, run: Run, limits: Limits) -> bool | Record:
    """Whether the model may be asked only once more; or that it may not be asked at all."""
    tell, turns = limits.on_limit == "tell", run.turns + run.below.turns
    budgeted = limits.max_tokens is not None or limits.max_cost is not None
    near = turns >= limits.max_turns or budgeted or state.limits or run.spoken.given is not None
    if not near or (fault := spent_up(state, run, limits)) is None:
        return tell and turns == limits.max_turns - 1
    if not tell or fault.limit not in BUDGETS or run.last_word:
        return _fail(run, fault)
    return fault.limit in state.limits or Record(LimitReached(fault.limit, fault.figure, 0, fault.spent))


def _act(state: State, run: Run, phase: Acting, roster: Roster) -> Record | Sequence[Command]:
    turn = phase.turn
    offered = turn.offered
    if offered is None or turn.unanswered > 1:
        return act(state, run, turn, roster)
    return answers.go_on(state, run, turn, offered, roster)


def _await(state: State, run: Run, phase: Awaiting, roster: Roster) -> Sequence[Command]:
    return [AwaitApproval(f"{phase.request.call}!", state.task, phase.request)]


def _complete(state: State, run: Run, phase: Replied, roster: Roster) -> Record | Sequence[Command]:
    if state.handed is None and run.spoken.given is None:  # so nobody expects anything of it but the user
        return Record(RunCompleted(run.id))
    return expecting.judge(state, run, phase, roster) or Record(RunCompleted(run.id))


def _break(state: State, run: Run, phase: Broken, roster: Roster) -> Record:
    return Record(RunFailed(run.id, phase.fault))


def _stop(state: State, run: Run, phase: Stopping, roster: Roster) -> Record | Sequence[Command]:
    """Call back whoever still works for this run; then it ends."""
    if phase.turn is not None and phase.turn.delegated:
        return [
            delegates.call_back(state, offer)
            for call in phase.turn.ready.values()
            if isinstance(call.phase, Delegated) and (offer := call.phase.offer)
        ]
    return Record(RunCancelled(run.id) if phase.fault is None else RunFailed(run.id, phase.fault))


def _fault_of(state: State, run: Run, seat: Seat, roster: Roster) -> Fault:
    """What to say of a model that kept getting its calls wrong."""
    mistake = run.mistake
    if mistake is not None and mistake.why == "guard":
        return RefusalFault(state.agent, mistake.reason)
    if mistake is not None and mistake.why in ("receiver", "command"):
        # A model can hand off where its tools lead, code to anybody.
        possible = seat.transfers if mistake.why == "receiver" else roster.present
        return ReceiverFault(state.agent, mistake.receiver, possible)
    return ModelFault(state.agent, mistake.reason if mistake else "its calls could not be carried out")


def _fail(run: Run, fault: Fault) -> Record:
    return Record(RunFailed(run.id, fault))


PHASES: dict[type[Phase], Callable[[State, Run, Any, Roster], Record | Sequence[Command]]] = {
    Thinking: _think,
    Awaiting: _await,
    Acting: _act,
    Replied: _complete,
    Broken: _break,
    Stopping: _stop,
}
"""What comes next in each phase of a run."""
