"""What is due in a turn: tools in call order, reads and delegates at once, then the branch, transfer or end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from changeover.agent.handoff import TIMEOUT
from changeover.agent.moves import (
    BadArguments,
    DelegateTo,
    Intent,
    Move,
    NoSuchReceiver,
    Transfer,
    TransferToAny,
    UseTool,
)
from changeover.agent.roster import Roster, Seat
from changeover.agent.specialist import ToSpecialist
from changeover.faults import AgentFault, ReceiverFault
from changeover.handoffs.context import strip_forged
from changeover.handoffs.strategies import FETCH, can_fetch
from changeover.ids import Mark, call_id, command_id
from changeover.relay.budget import handoffs_left
from changeover.relay.commands import AwaitApproval, Command, FetchContext, Record, RunTool, SeekApproval
from changeover.relay.decide import broker, delegates
from changeover.relay.decide.answers import answer, end
from changeover.relay.decide.delegates import not_json, send
from changeover.relay.decide.limits import alone, fail, forbidden, may_hand_off, over_limit
from changeover.relay.decide.offer import Asker, following, packed, receiver_in, strategy_in, travelling, until
from changeover.relay.decide.rules import guarded
from changeover.relay.events import CallRefused, HandoffOffered, ToolFinished
from changeover.relay.fold.handoffs import undone_words
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
TRANSFERS = (Transfer, TransferToAny)
"""Tuples, here and below: a union would be made anew with every question."""


def lead(state: State, run: Run, turn: Turn, leading: Sequence[OpenCall], roster: Roster) -> Record | Sequence[Command]:
    """What is due for those that lead elsewhere, in call order."""
    first = leading[0]
    if run.brokers(turn) and (due := broker.find(state, run, turn, first)) is not None:
        return due
    for call in leading:
        if isinstance(call.phase, DIRECTED) and call.phase.directive.sends:
            sent = call.phase.sent if isinstance(call.phase, Fanned) else 0
            return send(state, run, turn, call_id(call.id, sent), call.phase.directive.sends[sent], roster)
    if turn.offered is not None:
        handoff = handoff_of(turn.offered)
        receiver = handoff.offer.receiver if handoff else "another"
        return _ignore(state, first, f"this conversation already goes to {receiver}")
    if isinstance(first.phase, Directed):
        if first.phase.directive.end:
            if len(leading) > 1:
                return _ignore(state, leading[1], "the run ends here")
            return end(state, run, turn, first, first.phase.directive.output)
        return _offer_by_command(state, run, turn, first, first.phase.directive, roster)
    return _offer(state, run, turn, first, roster)


def _ignore(state: State, call: OpenCall, why: str) -> Record:
    """The first that can lead does; any further one does not."""
    done = call.phase.text if isinstance(call.phase, Directed) else ""
    if call.result is not None:  # of a delegate, which came back all the same
        return Record(CallRefused(call.id, state.task, done, "ignored"))
    reason = f"{done} (ignored: {why})" if done else f"ignored: {why}"
    return Record(CallRefused(call.id, state.task, reason, "ignored"))


def _offer_by_command(
    state: State, run: Run, turn: Turn, call: OpenCall, directive: Directive, roster: Roster
) -> Record | Sequence[Command]:
    """Offer the conversation to whom a Command names, or to whom a person gave it then."""
    if call.edit and call.edit.receiver:
        directive = replace(directive, goto=call.edit.receiver)
    if not may_hand_off(state, turn, roster):
        return alone(state, run, turn, (call.id, directive.goto))
    # Code that offers something hears from whoever is absent as from anybody who does not take it.
    if directive.goto not in (roster.seats if turn.code else roster.present):
        if turn.deaf:
            return fail(run, ReceiverFault(state.agent, directive.goto, roster.present))
        reason = f"{roster.missing(directive.goto)}; this team has: {', '.join(roster.present)}"
        return Record(CallRefused(call.id, state.task, reason, "command", directive.goto))
    receiver = _goal(state, turn, call, directive.goto, roster)
    if isinstance(receiver, Record):
        return receiver
    if refusal := forbidden(state, run, (call.id, receiver), roster):
        return refusal
    offer = HandoffOffered(call.id, state.task, sender=turn.agent, receiver=receiver, message=directive.message)
    if run.spoken.package is not None and turn.code:
        offer = packed(state, offer, run.spoken, call.chosen, roster)
    else:
        offer = following(state, run, call, until(state, offer, TIMEOUT, roster))
    strategy = strategy_in(state, receiver, roster.strategy_for(state.agent, receiver, None), roster)
    offer = travelling(state, run, (turn, call), offer, strategy, roster)
    return Record(offer) if turn.code else _checked(state, run, (turn, call), offer, roster)


def _goal(state: State, turn: Turn, call: OpenCall, wanted: str, roster: Roster) -> str | Record:
    """Who is handed to: whom a person named, else whoever is tried in place of the one that is wanted. Code gets whom
    it asked for."""
    if call.edit and call.edit.receiver:
        return call.edit.receiver
    return wanted if turn.code else receiver_in(state, turn.agent, wanted, roster)


def _checked(state: State, run: Run, asker: Asker, offer: HandoffOffered, roster: Roster) -> Record | Sequence[Command]:
    due = guarded(state, run, asker, offer, roster)
    return due if isinstance(due, Record) else [due]


def _offer(state: State, run: Run, turn: Turn, call: OpenCall, roster: Roster) -> Record | Sequence[Command]:
    seat = roster.seats[turn.agent]
    assert isinstance(seat, Seat)
    move = seat.moves[call.call.name]
    assert isinstance(move, TRANSFERS)
    limits = run.limits or roster.limits
    if handoffs_left(state, run, limits) <= 0:
        return over_limit(state, run, (call.id, ""), "max_handoffs", roster)
    args, dropped = strip_forged(call.call.args)
    asked = _read(call, args, turn.text, seat, roster)
    if not isinstance(asked, Intent):
        return _misread(state, call, asked, roster)
    receiver = _goal(state, turn, call, asked.receiver, roster)
    if isinstance(receiver, Record):
        return receiver
    if not call.cleared and (approval := move.approval) is not None:
        context = context_of(state, run, call.id)
        return [
            SeekApproval(
                command_id(call.id, Mark.CHECK), state.task, context, call.call, approval, receiver, asked.message
            )
        ]
    if limits.max_agents is not None and (refusal := forbidden(state, run, (call.id, receiver), roster)):
        return refusal
    offer = until(state, _offered(state, call, receiver, asked, dropped), asked.timeout, roster)
    if run.declined:
        offer = following(state, run, call, offer)
    declared = roster.strategy_for(state.agent, receiver, asked.strategy)
    strategy = strategy_in(state, receiver, declared, roster)
    offer = travelling(state, run, (turn, call), offer, strategy, roster)
    return _checked(state, run, (turn, call), offer, roster)


def _misread(state: State, call: OpenCall, asked: NoSuchReceiver | BadArguments, roster: Roster) -> Record:
    """The model is told what was wrong with what it asked for."""
    match asked:
        case NoSuchReceiver():
            names = ", ".join(asked.available) or "nobody"
            reason = f"{roster.missing(asked.receiver)}; you can hand off to: {names}"
            return Record(CallRefused(call.id, state.task, reason, "receiver", asked.receiver))
        case BadArguments():
            reason = f"the arguments of {call.call.name} do not fit: {asked.reason}"
            return Record(CallRefused(call.id, state.task, reason, "arguments"))
        case _:
            assert_never(asked)


def _read(
    call: OpenCall, args: dict[str, Any], text: str, seat: Seat, roster: Roster
) -> Intent | NoSuchReceiver | BadArguments:
    """What the model asked for, if it can be."""
    if call.call.malformed:
        return BadArguments(not_json(call.call))
    move = seat.moves[call.call.name]
    assert isinstance(move, TRANSFERS)
    asked = move.read(args, text)
    if isinstance(asked, Intent) and asked.receiver in roster.absent and not (call.edit and call.edit.receiver):
        return NoSuchReceiver(asked.receiver, seat.transfers)
    return asked


def _offered(state: State, call: OpenCall, receiver: str, asked: Intent, dropped: tuple[str, ...]) -> HandoffOffered:
    return HandoffOffered(
        call.id,
        state.task,
        sender=state.agent,
        receiver=receiver,
        message=asked.message,
        variables=asked.variables,
        instructions=asked.instructions,
        merge=asked.merge,
        return_to=asked.return_to,
        dropped=dropped,
        alternatives=asked.alternatives,
        expected=asked.expected,
    )


Moves = dict[str, Move]
LEADING = frozenset({Directed, Fanned})
TRANSFER_KINDS = frozenset({TransferToAny, Transfer})


def act(state: State, run: Run, turn: Turn, roster: Roster) -> Record | Sequence[Command]:
    """The next decision in this turn or, if there is none, every command that was not given yet."""
    seat = roster.seats.get(turn.agent)
    if not turn.code and (seat is None or not (turn.quiet or isinstance(seat, Seat))):
        return fail(run, AgentFault(turn.agent, tuple(roster.seats)))
    if run.struck is not None and (run.limits or roster.limits).on_limit == "raise":
        return fail(run, run.struck)
    sorted_out = _sort_out(state, run, turn, roster)
    if isinstance(sorted_out, Record):
        return sorted_out
    commands, leading = sorted_out
    if turn.sending is not None:
        return lead(state, run, turn, [turn.sending], roster)
    if turn.ready:
        # Only now: while there is something to decide, commands would be made again with each decision.
        commands += [_command(state, run, turn, call, roster) for call in turn.ready.values()]
    if commands or not leading or turn.unanswered > len(leading) + (turn.offered is not None):
        return commands
    return lead(state, run, turn, sorted(leading, key=_place) if len(leading) > 1 else leading, roster)


def _sort_out(state: State, run: Run, turn: Turn, roster: Roster) -> Record | tuple[list[Command], list[OpenCall]]:
    """The first decision, or what can be begun now and what leads elsewhere."""
    seat = roster.seats.get(turn.agent)
    moves = _moves(state, seat, roster) if isinstance(seat, Seat) else {}
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
    """What an agent's calls mean here: where it works alone, its handoffs are nothing that it could call."""
    return seat.moves if roster.hands_off(state.root, seat.agent.id) else seat.tools


def _place(call: OpenCall) -> tuple[int, int]:
    return call.place


def _leads(call: OpenCall, moves: Moves) -> bool:
    """Whether it comes after every other call of the turn, because it leads elsewhere."""
    phase = type(call.phase)
    return phase in LEADING or (phase is Fresh and type(moves.get(call.call.name)) in TRANSFER_KINDS)


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
    """What carries on a call that is decided about."""
    phase = call.phase
    if isinstance(phase, Asked):
        return AwaitApproval(command_id(phase.request.call, Mark.DECISION), state.task, phase.request)
    assert isinstance(phase, Delegated)
    if phase.recalled is not None:
        return delegates.call_back(state, phase.offer, undone_words(phase.recalled.reason))
    return delegates.run_child(state, run, turn, call, phase, roster)


def _begin(state: State, run: Run, turn: Turn, call: OpenCall, roster: Roster) -> Record | Command | None:
    seat = roster.seats[turn.agent]
    assert isinstance(seat, Seat)
    moves = _moves(state, seat, roster)
    move = moves.get(call.call.name)
    if isinstance(move, UseTool):
        return _use_tool(state, run, turn, call, move, seat)
    if move is None and call.call.name == FETCH and can_fetch(state.chapters):
        return FetchContext(call.id, state.task, state.root, call.call)
    if move is None or isinstance(call.phase, Begun):
        return _refuse_unknown(state, call, moves)
    if isinstance(move, ToSpecialist):
        return broker.seek(state, run, turn, call, move, roster)
    assert isinstance(move, DelegateTo)  # what transfers is left for the end of the turn
    return delegates.delegate(state, run, turn, call, move, roster)


def _use_tool(
    state: State, run: Run, turn: Turn, call: OpenCall, move: UseTool, seat: Seat
) -> RunTool | SeekApproval | None:
    approval = None if call.cleared or isinstance(call.phase, Begun) else move.approval
    if approval is not None:
        id = command_id(call.id, Mark.CHECK)
        return SeekApproval(id, state.task, context_of(state, run, call.id), call.call, approval)
    if not (move.tool.read_only or seat.agent.parallel_tools or call is _first(turn, seat)):
        return None
    return RunTool(
        call.id,
        state.task,
        context_of(state, run, call.id),
        call.call,
        move.tool.at_most_once,
        isinstance(call.phase, Begun),
    )


def _first(turn: Turn, seat: Seat) -> OpenCall | None:
    """The first call that has not been carried out; transfers do not count, they come last."""
    for index in range(turn.frontier, len(turn.asked)):
        call = turn.asked[index]
        if not isinstance(call.phase, DONE) and type(seat.moves.get(call.call.name)) not in TRANSFER_KINDS:
            return call
    return None


def _refuse_unknown(state: State, call: OpenCall, moves: Moves) -> Record:
    if isinstance(call.phase, Begun):
        return Record(ToolFinished(call.id, state.task, "", ok=False, unknown=True))
    names = ", ".join(moves) or "none"
    reason = f"there is no tool called {call.call.name!r}; your tools: {names}"
    return Record(CallRefused(call.id, state.task, reason, "tool"))
