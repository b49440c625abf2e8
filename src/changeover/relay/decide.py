"""What a conversation does next. Pure: the same state and roster give the same commands. The only reader of policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from changeover.agent.agent import Function, Person
from changeover.agent.roster import Roster, Seat
from changeover.facts import AgentFault, Fault, LimitFault, ModelFault, ReceiverFault, RefusalFault
from changeover.handoffs.chapters import can_fetch
from changeover.messages import View
from changeover.relay.commands import AwaitApproval, CallFunction, CallModel, Command, Record
from changeover.relay.context import context_of
from changeover.relay.deciding import answering, delegates, expecting, people, rolling
from changeover.relay.deciding.turns import act
from changeover.relay.events import FellBack, RunCancelled, RunCompleted, RunFailed, RunStarted
from changeover.relay.naming import call_of
from changeover.relay.run import Acting, Awaiting, Broken, Phase, Replied, Run, Stopping, Thinking
from changeover.relay.state import State
from changeover.relay.turn import Asked, Begun, Delegated, Directed, Fresh, Offered, OpenCall

CODE = "code"
"""Who hands over what a program offers, unless the package says so."""


def decide(state: State, roster: Roster) -> Record | Sequence[Command]:
    """The next decision that needs no effect or, if there is none, every command that is outstanding.

    A command for a call of a turn is given once for each `State`: of a turn with many calls, those that are in work
    are not listed again with every outcome. Who has lost one folds the log anew and is given all.
    """
    run = state.run
    if state.unreadable:
        return ()  # whoever wrote it knows what to do
    if state.rollbacks or state.returning is not None:
        return _tidy(state, run, roster)
    return _next(state, run, roster)


def _next(state: State, run: Run | None, roster: Roster) -> Record | Sequence[Command]:
    if run is None:
        return _next_run(state, roster)
    return PHASES[type(run.phase)](state, run, run.phase, roster)


def _tidy(state: State, run: Run | None, roster: Roster) -> Record | Sequence[Command]:
    """What is due while a handoff is being undone, beside everything else."""
    if (done := rolling.settled(state, roster)) is not None:
        return done
    if state.returning is not None and (run is None or not rolling.busy(run)):
        return rolling.returned(state, state.returning, roster)
    following = _next(state, run, roster)
    return following if isinstance(following, Record) else [*following, *state.rollbacks.values()]


def awaits(state: State, command: str) -> bool:
    """Whether the outcome of this command is still wanted; O(1), where `decide` would list them all."""
    if "<" in command:
        return any(wanted.id == command for wanted in state.rollbacks.values())
    match state.run.phase if state.run else None:
        case Thinking(due=due):
            return due == command
        case Acting(turn=turn):
            call = turn.calls.get(call_of(command))
            if call is not None and command.endswith("=result"):
                person = isinstance(call.phase, Offered) and call.phase.problem is None
                return person or (turn.judged is None and isinstance(call.phase, Directed))
            return call is not None and _wanted(call, command)
        case Replied(at=at):
            return f"{at}=result" == command
        case Awaiting(request=request):
            return f"{request.call}!" == command
        case Stopping(turn=turn) if turn and command.endswith("~"):
            return isinstance(turn.calls[call_of(command)].phase, Delegated)
        case _:
            return False


def _wanted(call: OpenCall, command: str) -> bool:
    phase = call.phase
    match command[-1]:
        case "?":
            return isinstance(phase, Fresh)
        case "!":
            return isinstance(phase, Asked) and f"{phase.request.call}!" == command
        case "^":
            return isinstance(phase, Offered) and f"{phase.offer.call}^" == command
        case "%":
            mine = isinstance(phase, Offered) and f"{phase.offer.call}%" == command
            return mine and isinstance(phase, Offered) and phase.packed is None
        case "~":
            return isinstance(phase, Delegated) and phase.recalled is not None
        case _:
            mine = isinstance(phase, Delegated) and phase.offer.call == command and phase.recalled is None
            return mine or isinstance(phase, Fresh | Begun)


def _next_run(state: State, roster: Roster) -> Record | Sequence[Command]:
    if not state.inbox:
        return ()
    run, spoken = state.inbox[0]
    if spoken.package is not None:
        return Record(RunStarted(run, spoken.package.get("metadata", {}).get("sender") or CODE, code=True))
    agent = spoken.agent or state.return_to or state.agent
    if agent not in roster.seats and not spoken.agent:
        agent = roster.start  # nobody yet, or somebody who has left the team since
    claimed = spoken.given is not None and spoken.given.ticket
    return Record(RunStarted(run, agent, queued=roster.pulls(agent) and not claimed))


def _think(state: State, run: Run, phase: Thinking, roster: Roster) -> Record | Sequence[Command]:
    seat = roster.seats.get(state.agent)
    limits = run.spoken.limits or roster.limits
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
    turns, given = run.turns + run.below.turns, run.spoken.given
    if (turns >= limits.max_turns or given or state.limits) and (
        fault := _limit_of_turns(state, run, limits.max_turns)
    ):
        return _fail(run, fault)
    return [
        CallModel(
            phase.due,
            state.task,
            context_of(state, run, phase.due),
            View(state.thread),
            state.model_calls.get(state.agent, 0),
            phase.attempt,
            phase.not_before,
            limits.max_handoffs > 0 and not run.told,
            limits.on_limit == "tell" and turns == limits.max_turns - 1,
            bool(state.chapters) and can_fetch(state.chapters),
        )
    ]


def _limit_of_turns(state: State, run: Run, max_turns: int) -> LimitFault | None:
    given = run.spoken.given
    if given is not None and given.max_iterations and run.turns >= given.max_iterations:
        return LimitFault("max_iterations", given.max_iterations)
    reached = "max_turns" in state.limits or run.turns + run.below.turns >= max_turns
    return LimitFault("max_turns", max_turns) if reached else None


def _act(state: State, run: Run, phase: Acting, roster: Roster) -> Record | Sequence[Command]:
    turn = phase.turn
    offered = turn.offered
    if offered is None or turn.unanswered > 1:
        return act(state, run, turn, roster)
    return answering.go_on(state, run, turn, offered, roster)


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
        possible = seat.transfers if mistake.why == "receiver" else tuple(roster.seats)
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
