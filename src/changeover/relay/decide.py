"""What a conversation does next. Pure: the same state and roster give the same commands. The only reader of policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from changeover.agent.agent import Function
from changeover.agent.moves import BadArguments, Intent, NoSuchReceiver, Transfer, TransferToAny, UseTool
from changeover.agent.roster import Roster, Seat
from changeover.facts import AgentFault, Fault, LimitFault, ModelFault, ReceiverFault
from changeover.guards.limits import Limits
from changeover.handoffs.context import strip_metadata
from changeover.messages import View
from changeover.relay.commands import CallFunction, CallModel, Command, Record, RunTool
from changeover.relay.events import (
    CallRefused,
    HandoffAccepted,
    HandoffOffered,
    RunCompleted,
    RunFailed,
    RunStarted,
    ToolFinished,
)
from changeover.relay.run import Acting, Broken, Replied, Run, Thinking
from changeover.relay.state import State
from changeover.relay.turn import Begun, Fresh, Offered, OpenCall, Turn
from changeover.tools.context import RunContext


def decide(state: State, roster: Roster) -> Record | Sequence[Command]:
    """The next decision that needs no effect or, if there is none, every command that is outstanding."""
    run = state.run
    if state.unreadable:
        return ()  # whoever wrote it knows what to do
    if run is None:
        return _next_run(state, roster)
    phase = run.phase
    match phase:
        case Thinking():
            return _think(state, run, phase, roster)
        case Acting():
            turn = phase.turn
            if turn.offered is not None and turn.unanswered == 1:
                return _accept(state, turn.offered)
            return _act(state, run, turn, roster)
        case Replied():
            return Record(RunCompleted(run.id))
        case Broken():
            return Record(RunFailed(run.id, phase.fault))
        case _:
            assert_never(phase)


def awaits(state: State, command: str) -> bool:
    """Whether the outcome of this command is still wanted; O(1), where `decide` would list them all."""
    match state.run.phase if state.run else None:
        case Thinking(due=due):
            return due == command
        case Acting(turn=turn):
            call = turn.calls.get(command)
            return call is not None and isinstance(call.phase, (Fresh, Begun))
        case _:
            return False


def _next_run(state: State, roster: Roster) -> Record | Sequence[Command]:
    if not state.inbox:
        return ()
    run, spoken = state.inbox[0]
    agent = spoken.agent or state.return_to or state.agent
    if agent not in roster.seats and not spoken.agent:
        agent = roster.start  # nobody yet, or somebody who has left the team since
    return Record(RunStarted(run, agent))


def _think(state: State, run: Run, phase: Thinking, roster: Roster) -> Record | Sequence[Command]:
    seat = roster.seats.get(state.agent)
    if seat is None:
        return _fail(run, AgentFault(state.agent, tuple(roster.seats)))
    if isinstance(seat, Function):
        return [CallFunction(phase.due, state.task, context_of(state, run, phase.due))]
    if run.strikes > roster.second_chances:
        return _fail(run, _fault_of(state, run, seat))
    limits = run.spoken.limits or roster.limits
    if run.turns >= limits.max_turns:
        return _fail(run, LimitFault("max_turns", limits.max_turns))
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
            limits.on_limit == "tell" and run.turns == limits.max_turns - 1,
        )
    ]


def _act(state: State, run: Run, turn: Turn, roster: Roster) -> Record | Sequence[Command]:
    """Tools in the order of their calls, reads at once; transfers after everything else."""
    seat = roster.seats.get(turn.agent)
    if not isinstance(seat, Seat):
        return _fail(run, AgentFault(turn.agent, tuple(roster.seats)))
    tools: list[tuple[OpenCall, UseTool]] = []
    transfers: list[tuple[OpenCall, TransferToAny | Transfer]] = []
    for call in turn.outstanding():
        move = seat.moves.get(call.call.name)
        if call is turn.offered:
            continue  # whatever its name has come to mean since
        if isinstance(move, UseTool):
            tools.append((call, move))
        elif move is None or isinstance(call.phase, Begun):
            return _refuse_unknown(state, call, seat)
        else:
            transfers.append((call, move))
    if tools:
        return _use_tools(state, run, tools, seat.agent.parallel_tools)
    if turn.offered is not None:
        return _ignore(state, transfers[0][0], turn.offered)
    return _offer(state, run, turn, *transfers[0], roster)


def _use_tools(state: State, run: Run, tools: list[tuple[OpenCall, UseTool]], at_once: bool) -> Sequence[Command]:
    """The first, and every other that need not wait for it."""
    return [
        _use_tool(state, run, call, move)
        for index, (call, move) in enumerate(tools)
        if index == 0 or move.tool.read_only or at_once
    ]


def _use_tool(state: State, run: Run, call: OpenCall, move: UseTool) -> RunTool:
    return RunTool(
        call.id,
        state.task,
        context_of(state, run, call.id),
        call.call,
        move.tool.at_most_once,
        isinstance(call.phase, Begun),
    )


def _refuse_unknown(state: State, call: OpenCall, seat: Seat) -> Record:
    if isinstance(call.phase, Begun):
        return Record(ToolFinished(call.id, state.task, "", ok=False, unknown=True))
    names = ", ".join(seat.moves) or "none"
    reason = f"there is no tool called {call.call.name!r}; your tools: {names}"
    return Record(CallRefused(call.id, state.task, reason, "tool"))


def _accept(state: State, offered: OpenCall) -> Record:
    assert isinstance(offered.phase, Offered)
    return Record(HandoffAccepted(offered.id, state.task, offered.phase.offer.receiver))


def _ignore(state: State, call: OpenCall, offered: OpenCall) -> Record:
    """The first transfer that can be made is made; any further one is not."""
    assert isinstance(offered.phase, Offered)
    reason = f"ignored: this conversation already goes to {offered.phase.offer.receiver}"
    return Record(CallRefused(call.id, state.task, reason, "ignored"))


def _offer(
    state: State, run: Run, turn: Turn, call: OpenCall, move: TransferToAny | Transfer, roster: Roster
) -> Record:
    limits = run.spoken.limits or roster.limits
    if run.handoffs >= limits.max_handoffs:
        return _over_limit(state, run, call, limits)
    args, dropped = strip_metadata(call.call.args)
    asked = BadArguments(_not_json(call)) if call.call.malformed else move.read(args, turn.text)
    match asked:
        case Intent():
            return Record(
                HandoffOffered(
                    call.id,
                    state.task,
                    sender=state.agent,
                    receiver=asked.receiver,
                    message=asked.message,
                    variables=asked.variables,
                    instructions=asked.instructions,
                    strategy=roster.strategy_for(state.agent, asked.receiver, asked.strategy).name,
                    merge=asked.merge,
                    return_to=asked.return_to,
                    dropped=dropped,
                )
            )
        case NoSuchReceiver():
            reason = f"no agent is called {asked.receiver!r}; you can hand off to: {', '.join(asked.available)}"
            return Record(CallRefused(call.id, state.task, reason, "receiver", asked.receiver))
        case BadArguments():
            reason = f"the arguments of {call.call.name} do not fit: {asked.reason}"
            return Record(CallRefused(call.id, state.task, reason, "arguments"))
        case _:
            assert_never(asked)


def _over_limit(state: State, run: Run, call: OpenCall, limits: Limits) -> Record:
    if limits.on_limit == "tell":
        reason = f"refused: the run has made all its {limits.max_handoffs} handoffs; answer the user yourself"
        return Record(CallRefused(call.id, state.task, reason, "limit"))
    return _fail(run, LimitFault("max_handoffs", limits.max_handoffs))


def _fault_of(state: State, run: Run, seat: Seat) -> Fault:
    """What to say of a model that kept getting its calls wrong."""
    mistake = run.mistake
    if mistake is not None and mistake.why == "receiver":
        return ReceiverFault(state.agent, mistake.receiver, seat.transfers)
    return ModelFault(state.agent, mistake.reason if mistake else "its calls could not be carried out")


def _fail(run: Run, fault: Fault) -> Record:
    return Record(RunFailed(run.id, fault))


def _not_json(call: OpenCall) -> str:
    return f"they must be one JSON object, not {call.call.malformed[:200]!r}"


def context_of(state: State, run: Run, command: str) -> RunContext:
    """The run as whoever performs this command may see it."""
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
    )
