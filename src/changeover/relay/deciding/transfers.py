"""What leads elsewhere, when every other call of a turn is done: branches first, then the first transfer or end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from changeover.agent.handoff import TIMEOUT
from changeover.agent.moves import (
    BadArguments,
    Intent,
    NoSuchReceiver,
    Transfer,
    TransferToAny,
)
from changeover.agent.roster import Roster, Seat
from changeover.faults import ReceiverFault
from changeover.handoffs.context import strip_forged
from changeover.relay.commands import Command, Record, SeekApproval
from changeover.relay.context import context_of
from changeover.relay.decide import broker
from changeover.relay.decide.delegates import not_json, send
from changeover.relay.decide.limits import alone, fail, forbidden, may_hand_off, over_limit
from changeover.relay.decide.offer import Asker, travelling
from changeover.relay.decide.rules import guarded
from changeover.relay.deciding.expecting import end
from changeover.relay.deciding.offering import following, packed, until
from changeover.relay.deciding.trying import receiver_in, strategy_in
from changeover.relay.events import CallRefused, HandoffOffered
from changeover.relay.limiting import handoffs_left
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.relay.turn import Directed, Fanned, OpenCall, Turn, handoff_of
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
            return send(state, run, turn, f"{call.id}.{sent}", call.phase.directive.sends[sent], roster)
    if turn.offered is not None:
        handoff = handoff_of(turn.offered)
        receiver = handoff.offer.receiver if handoff else "another"
        return _ignore(state, first, f"this conversation already goes to {receiver}")
    if isinstance(first.phase, Directed):
        if first.phase.directive.end:
            if len(leading) > 1:
                return _ignore(state, leading[1], "the run ends here")
            return end(state, run, turn, first, first.phase.directive.output)
        return _command(state, run, turn, first, first.phase.directive, roster)
    return _offer(state, run, turn, first, roster)


def _ignore(state: State, call: OpenCall, why: str) -> Record:
    """The first that can lead does; any further one does not."""
    done = call.phase.text if isinstance(call.phase, Directed) else ""
    if call.result is not None:  # of a delegate, which came back all the same
        return Record(CallRefused(call.id, state.task, done, "ignored"))
    reason = f"{done} (ignored: {why})" if done else f"ignored: {why}"
    return Record(CallRefused(call.id, state.task, reason, "ignored"))


def _command(
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
        return [SeekApproval(f"{call.id}?", state.task, context, call.call, approval, receiver, asked.message)]
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
