"""Delegates: offered at once, and run in conversations of their own."""

from __future__ import annotations

from msgspec.structs import replace

from changeover.agent.handoff import TIMEOUT
from changeover.agent.moves import BadArguments, DelegateTo, patience
from changeover.agent.roster import Roster, Seat
from changeover.facts import Mode
from changeover.handoffs.context import strip_forged
from changeover.ids import Mark, branching_call, child_id, command_id, handoff_id
from changeover.messages import Call
from changeover.relay.commands import CancelChild, Record, RunChild, SeekApproval
from changeover.relay.decide.limits import alone, forbidden, may_hand_off, over_limit
from changeover.relay.decide.offer import (
    briefing_of,
    following,
    packed,
    receiver_in,
    strategy_in,
    task_of,
    travelling,
    until,
)
from changeover.relay.decide.rules import branched, guarded
from changeover.relay.events import CallRefused, Given, HandoffOffered, Started, UserSpoke
from changeover.relay.run import Run
from changeover.relay.state import State, context_of
from changeover.relay.turn import Delegated, OpenCall, Turn
from changeover.tools.command import Errand


def delegate(
    state: State, run: Run, turn: Turn, call: OpenCall, move: DelegateTo, roster: Roster
) -> Record | SeekApproval:
    """Offer a task to the delegate that a call names, if nothing speaks against it."""
    args, dropped = strip_forged(call.call.args)
    asked = BadArguments(not_json(call.call)) if call.call.malformed else move.read(args)
    if isinstance(asked, BadArguments):
        reason = f"the arguments of {call.call.name} do not fit: {asked.reason}"
        return Record(CallRefused(call.id, state.task, reason, "arguments"))
    declared = move.delegate
    found = call.chosen
    receiver = _goal(state, call, found.receiver if found else declared.receiver, roster)
    if isinstance(receiver, Record):
        return receiver
    if not call.cleared and (approval := move.approval) is not None:
        context = context_of(state, run, call.id)
        return SeekApproval(
            command_id(call.id, Mark.CHECK), state.task, context, call.call, approval, receiver, asked.task
        )
    if refusal := too_much(state, run, (call.id, receiver), roster):
        return refusal
    offer = HandoffOffered(
        call.id,
        state.task,
        sender=state.agent,
        receiver=receiver,
        message=asked.task,
        mode=Mode.DELEGATE,
        variables=asked.variables,
        instructions=declared.instructions,
        dropped=dropped,
        about=asked.about,
        final=declared.final,
        max_iterations=declared.max_iterations,
        alternatives=found.alternatives if found else declared.alternatives,
        expected=move.expected,
        capability=found.capability if found else "",
        queued=found is not None and found.queued and receiver == found.receiver,
        reason=asked.reason,
        required=asked.required,
    )
    offer = following(state, run, call, until(state, offer, patience(declared), roster))
    strategy = strategy_in(state, receiver, roster.delegate_strategy(receiver, declared.strategy), roster)
    return guarded(state, run, (turn, call), travelling(state, run, (turn, call), offer, strategy, roster), roster)


def send(state: State, run: Run, turn: Turn, branch: str, errand: Errand, roster: Roster) -> Record:
    """Offer one branch of a Command to its receiver."""
    if not may_hand_off(state, turn, roster):
        return alone(state, run, turn, (branch, errand.receiver))
    receiver = errand.receiver if turn.code else receiver_in(state, turn.agent, errand.receiver, roster)
    if isinstance(receiver, Record):
        return receiver
    errand = replace(errand, receiver=receiver)
    if errand.receiver not in (roster.seats if turn.code else roster.present):
        reason = f"{roster.missing(errand.receiver)}; this team has: {', '.join(roster.present)}"
        return Record(CallRefused(branch, state.task, reason, "ignored", errand.receiver))
    if refusal := too_much(state, run, (branch, errand.receiver), roster):
        return refusal
    offer = HandoffOffered(
        branch,
        state.task,
        sender=turn.agent,
        receiver=errand.receiver,
        message=errand.task,
        mode=Mode.DELEGATE,
        variables=errand.context,
    )
    sender = turn.calls[branching_call(branch)]
    if run.spoken.package is not None and turn.code:
        offer = packed(state, offer, run.spoken, sender.chosen, roster)
    else:
        offer = until(state, offer, TIMEOUT, roster)
    strategy = strategy_in(state, errand.receiver, roster.delegate_strategy(errand.receiver, None), roster)
    offer = travelling(state, run, (turn, sender), offer, strategy, roster)
    return Record(offer) if turn.code else branched(state, run, (turn, sender), offer, roster)


def _goal(state: State, call: OpenCall, wanted: str, roster: Roster) -> str | Record:
    """Who is asked: whom a person named, else whoever is tried in place of the one that is wanted."""
    if call.edit and call.edit.receiver:
        return call.edit.receiver
    goal = receiver_in(state, state.agent, wanted, roster)
    if not roster.absent or isinstance(goal, Record) or goal not in roster.absent:
        return goal
    # Of a choice among several, the next is asked when this one declines.
    return wanted if call.chosen or wanted not in roster.absent else _unavailable(state, call, wanted, roster)


def _unavailable(state: State, call: OpenCall, receiver: str, roster: Roster) -> Record:
    seat = roster.seats[state.agent]
    names = seat.receivers if isinstance(seat, Seat) else ()
    reason = f"{roster.missing(receiver)}; you can hand off to: {', '.join(names) or 'nobody'}"
    return Record(CallRefused(call.id, state.task, reason, "receiver", receiver))


def too_much(state: State, run: Run, call: tuple[str, str], roster: Roster) -> Record | None:
    """What a limit says to one more delegate, by this call to this receiver, if it says no."""
    if refusal := forbidden(state, run, call, roster):
        return refusal
    deep = state.depth >= (run.limits or roster.limits).max_depth
    return over_limit(state, run, call, "max_depth", roster) if deep else None


def run_child(state: State, run: Run, turn: Turn, call: OpenCall, phase: Delegated, roster: Roster) -> RunChild:
    """Let the delegate work; what it is given is the same whenever it is asked for, until its turn ends."""
    offer, packed = phase.offer, phase.packed
    spoken = UserSpoke(
        task_of(run, offer),
        run.spoken.user,
        offer.receiver,
        {**state.variables, **offer.variables} if offer.variables else state.variables,
        run.limits,
        run.spoken.correlation_id,
        Given(
            offer.sender,
            offer.task,
            call.call.name,
            offer.instructions,
            briefing_of(state, run, turn, phase, roster),
            offer.max_iterations,
            tuple(state.path),
            run.tokens,
            state.at - run.at,
            run.retries,
            state.artifacts,
            state.workflow_state,
            offer.expected,
            handoff_id(state.id, offer.call) if offer.queued else "",
            state.chapters if packed is not None and packed.retold else (),
            offer.include,
            offer.exclude,
            state.variants,
        ),
        run.spoken.files,
    )
    opening = Started(state.root, state.id, state.depth + 1)
    child = child_id(state.id, offer.call)
    return RunChild(offer.call, state.task, child, opening, spoken, offer.receiver, phase.deadline, offer.queued)


def call_back(state: State, offer: HandoffOffered, reason: str = "cancelled") -> CancelChild:
    """End what a delegate does."""
    opening, child = Started(state.root, state.id, state.depth + 1), child_id(state.id, offer.call)
    return CancelChild(
        command_id(offer.call, Mark.RECALL), state.task, offer.call, child, opening, offer.receiver, reason
    )


def not_json(call: Call) -> str:
    return f"they must be one JSON object, not {call.malformed[:200]!r}"
