"""What is due in a turn: tools in call order, reads and delegates at once; then a branch, a transfer or the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from changeover.agent.agent import Function, Person
from changeover.agent.moves import TRANSFERS, DelegateTo, Intent, Move, UseTool, closed
from changeover.agent.roster import Roster, Seat
from changeover.agent.specialist import ToSpecialist
from changeover.facts import Mode
from changeover.faults import AgentFault
from changeover.handoffs.strategies import FETCH, refs_of
from changeover.ids import Mark, call_id, command_id
from changeover.relay.budget import handoffs_left
from changeover.relay.commands import AwaitApproval, Command, FetchContext, Record, RunTool, SeekApproval
from changeover.relay.decide import broker, delegates, workflow
from changeover.relay.decide.answers import acceptance, accepts_at_once, answer, end
from changeover.relay.decide.limits import fail, over_limit
from changeover.relay.decide.offer import Proposal, demanded, from_call, propose
from changeover.relay.events import CallRefused, HandoffOffered, ToolFinished
from changeover.relay.run import Run
from changeover.relay.state import State, context_of
from changeover.relay.turn import (
    DONE,
    Asked,
    Begun,
    Declined,
    Delegated,
    Directed,
    Fanned,
    Fresh,
    Offered,
    OpenCall,
    Turn,
    handoff_of,
)
from changeover.tools.command import Directive

DIRECTED = (Directed, Fanned)
"""A tuple, here and below, because a union would be built again with every isinstance()."""


def lead(state: State, run: Run, turn: Turn, leading: Sequence[OpenCall], roster: Roster) -> Record | Sequence[Command]:
    """What is due for the calls that lead elsewhere, in call order."""
    first = leading[0]
    if run.brokers(turn) and (due := broker.find(state, run, turn, first)) is not None:
        return due
    for call in leading:
        if isinstance(call.phase, DIRECTED) and call.phase.directive.sends:
            sent = call.phase.sent if isinstance(call.phase, Fanned) else 0
            return _offer_branch(state, run, turn, call, sent, roster)
    if turn.offered is not None:
        handoff = handoff_of(turn.offered)
        receiver = handoff.offer.receiver if handoff else "another"
        return _ignore(state, first, f"this conversation already goes to {receiver}")
    if isinstance(first.phase, Directed):
        if first.phase.directive.end:
            if len(leading) > 1:
                return _ignore(state, leading[1], "the run ends here")
            return end(state, run, turn, first, first.phase.directive.output)
        return _offer_goto(state, run, turn, first, first.phase.directive, roster)
    return _offer_transfer(state, run, turn, first, roster)


def _ignore(state: State, call: OpenCall, why: str) -> Record:
    """Refuse a call that leads elsewhere, because an earlier one does."""
    done = call.phase.text if isinstance(call.phase, Directed) else ""
    if call.result is not None:  # the result of a delegate stays as it is
        return Record(CallRefused(call.id, state.task, done, "ignored"))
    reason = f"{done} (ignored: {why})" if done else f"ignored: {why}"
    return Record(CallRefused(call.id, state.task, reason, "ignored"))


def _offer_branch(
    state: State, run: Run, turn: Turn, call: OpenCall, index: int, roster: Roster
) -> Record | Sequence[Command]:
    """Offer one branch of a Command to its receiver."""
    assert isinstance(call.phase, DIRECTED)
    errand = call.phase.directive.sends[index]
    move = roster.move_of(turn.agent, call.call.name)
    intent = Intent(errand.receiver, errand.task, errand.context, Mode.DELEGATE)
    proposal = Proposal(turn, call, move, intent, "branch", call_id(call.id, index), guarded=not turn.code)
    due = propose(state, run, proposal, roster)
    return due if isinstance(due, Record) else [due]


def _offer_goto(
    state: State, run: Run, turn: Turn, call: OpenCall, directive: Directive, roster: Roster
) -> Record | Sequence[Command]:
    """Offer the conversation to the receiver that a Command names."""
    move, intent = roster.move_of(turn.agent, call.call.name), Intent(directive.goto, directive.message)
    proposal = Proposal(turn, call, move, intent, "command", call.id, guarded=not turn.code)
    return _answered(state, turn, propose(state, run, proposal, roster), roster)


def _offer_transfer(state: State, run: Run, turn: Turn, call: OpenCall, roster: Roster) -> Record | Sequence[Command]:
    """Offer the conversation as a model's handoff tool asks for it."""
    # Checked before the arguments: a model without handoffs left is told so, even if its arguments are wrong.
    if handoffs_left(state, run, run.limits or roster.limits) <= 0:
        return over_limit(state, run, (call.id, ""), "max_handoffs", roster)
    move = roster.move_of(turn.agent, call.call.name)
    assert isinstance(move, TRANSFERS)
    return _answered(state, turn, from_call(state, run, (turn, call), move, roster), roster)


def _answered(state: State, turn: Turn, due: Record | SeekApproval, roster: Roster) -> Record | Sequence[Command]:
    """What is due for a transfer: an offer comes with its acceptance, if that follows at once."""
    if not isinstance(due, Record):
        return [due]
    offer = due.event
    # Nothing is accepted while another call of the turn is open.
    if type(offer) is HandoffOffered and turn.unanswered == 1 and not offer.packs and accepts_at_once(offer, roster):
        return Record(offer, acceptance(state, offer))
    return due


Moves = Mapping[str, Move]
LEADING = frozenset({Directed, Fanned})


def act(state: State, run: Run, turn: Turn, roster: Roster) -> Record | Sequence[Command]:
    """The next decision in this turn or, if there is none, every command that was not given out yet."""
    seat = roster.seats.get(turn.agent)
    if (run.struck is not None or type(seat) is not Seat) and (failed := _failed(run, turn, seat, roster)) is not None:
        return failed
    if turn.flow is not None and (due := workflow.advance(state, run, turn.flow, roster)) is not None:
        return due
    moves = _moves(state, seat, roster) if isinstance(seat, Seat) else {}
    sorted_out = _sort_out(state, run, turn, moves, roster)
    if isinstance(sorted_out, Record):
        return sorted_out
    commands, leading = sorted_out
    if turn.sending is not None:
        return lead(state, run, turn, [turn.sending], roster)
    if turn.ready:
        # Not earlier: they would be built again with each decision.
        commands += [_command(state, run, turn, call, roster) for call in turn.ready.values()]
    if commands or not leading or turn.unanswered > len(leading) + (turn.offered is not None):
        return commands
    return lead(state, run, turn, sorted(leading, key=_place) if len(leading) > 1 else leading, roster)


def _failed(run: Run, turn: Turn, seat: Seat | Function | Person | None, roster: Roster) -> Record | None:
    """The failure of the run, if its agent has left the team, or a delegate has reached a limit of the whole run."""
    if not (turn.code or turn.flow) and (seat is None or not (turn.quiet or isinstance(seat, Seat))):
        return fail(run, AgentFault(turn.agent, tuple(roster.seats)))
    if run.struck is not None and not run.undoes and (run.limits or roster.limits).on_limit == "raise":
        return fail(run, run.struck)
    return None


def _sort_out(
    state: State, run: Run, turn: Turn, moves: Moves, roster: Roster
) -> Record | tuple[list[Command], list[OpenCall]]:
    """The first decision; or the commands that can start now, and the calls that lead elsewhere."""
    commands: list[Command] = []
    leading: list[OpenCall] = []
    for call in turn.idle.values():
        if _leads(call, moves):
            leading.append(call)
            continue
        due = _due(state, run, turn, call, roster)
        if isinstance(due, Record):
            return due
        if due is not None:
            commands.append(due)
    return commands, leading


def _moves(state: State, seat: Seat, roster: Roster) -> Moves:
    """The moves open to an agent here; without handoffs where they are switched off."""
    return seat.moves if roster.hands_off(state.root, seat.agent.id) else seat.tools


def _place(call: OpenCall) -> tuple[int, int]:
    return call.place


def _leads(call: OpenCall, moves: Moves) -> bool:
    """True if a call leads elsewhere, and so comes after every other call of the turn."""
    phase = type(call.phase)
    return isinstance(moves.get(call.call.name), TRANSFERS) if phase is Fresh else phase in LEADING


def _due(state: State, run: Run, turn: Turn, call: OpenCall, roster: Roster) -> Record | Command | None:
    """What is due for one call; None if it has to wait."""
    phase = call.phase
    match phase:
        case Fresh() | Begun():
            return _begin(state, run, turn, call, roster)
        case Offered() | Declined():
            return None if call is turn.offered else answer(state, run, turn, call, roster)
        case _:
            return None


def _command(state: State, run: Run, turn: Turn, call: OpenCall, roster: Roster) -> Command:
    """The command of a call that waits for a person or a delegate."""
    phase = call.phase
    if isinstance(phase, Asked):
        return AwaitApproval(command_id(phase.request.call, Mark.DECISION), state.task, phase.request)
    assert isinstance(phase, Delegated)
    if phase.recalled is not None:
        return delegates.call_back(state, phase.offer, phase.recalled)
    return delegates.run_child(state, run, turn, call, phase, roster)


def _begin(state: State, run: Run, turn: Turn, call: OpenCall, roster: Roster) -> Record | Command | None:
    if turn.flow is not None:
        return workflow.offer_step(state, run, turn, call, roster)
    seat = roster.seats[turn.agent]
    assert isinstance(seat, Seat)
    moves = _moves(state, seat, roster)
    move = moves.get(call.call.name)
    if isinstance(move, UseTool):
        return _use_tool(state, run, turn, call, move, seat)
    if move is None and call.call.name == FETCH and refs_of(state.chapters):
        return FetchContext(call.id, state.task, state.root, call.call, refs_of(state.chapters))
    if move is None or isinstance(call.phase, Begun):
        return _refuse_unknown(state, call, moves)
    if isinstance(move, ToSpecialist):
        return broker.seek(state, run, turn, call, move, roster)
    assert isinstance(move, DelegateTo)  # transfers come at the end of the turn
    return from_call(state, run, (turn, call), move, roster)


def _use_tool(
    state: State, run: Run, turn: Turn, call: OpenCall, move: UseTool, seat: Seat
) -> Record | RunTool | SeekApproval | None:
    begun = isinstance(call.phase, Begun)
    when = None if begun else move.declared.when
    if when is not None and (why := closed(when, context_of(state, run, call.id))):
        reason = f"{call.call.name} cannot be called: {why}"
        return Record(CallRefused(call.id, state.task, reason, "tool"))
    if not begun and (approval := demanded(call, move.approval, "")) is not None:
        id = call.request_id("")
        return SeekApproval(command_id(id, Mark.CHECK), state.task, context_of(state, run, id), call.call, approval)
    if not (move.declared.read_only or seat.agent.parallel_tools or call is _first(turn, seat)):
        return None
    return RunTool(
        call.id,
        state.task,
        context_of(state, run, call.id),
        call.call,
        move.declared.at_most_once,
        begun,
        bool(move.declared.read_only),
    )


def _first(turn: Turn, seat: Seat) -> OpenCall | None:
    """The first call that is not done, without transfers: they come last."""
    for index in range(turn.frontier, len(turn.asked)):
        call = turn.asked[index]
        if not isinstance(call.phase, DONE) and not isinstance(seat.moves.get(call.call.name), TRANSFERS):
            return call
    return None


def _refuse_unknown(state: State, call: OpenCall, moves: Moves) -> Record:
    if isinstance(call.phase, Begun):
        return Record(ToolFinished(call.id, state.task, "", ok=False, unknown=True))
    names = ", ".join(moves) or "none"
    reason = f"there is no tool called {call.call.name!r}; your tools: {names}"
    return Record(CallRefused(call.id, state.task, reason, "tool"))
