"""Tickets: which of a conversation's outstanding commands wait for a claim, computed from its state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from changeover.facts import Mode, Ticket
from changeover.ids import child_id, handoff_id, split_handoff
from changeover.relay.commands import (
    AskReceiver,
    AwaitClaim,
    CallFunction,
    CallModel,
    Command,
    FetchContext,
    PackContext,
    RunTool,
    SeekApproval,
)
from changeover.relay.events import HandoffOffered
from changeover.relay.run import TURNING, Run
from changeover.relay.state import State
from changeover.relay.turn import Delegated, Offered, handoff_of

OWN = frozenset({CallModel, CallFunction, RunTool, SeekApproval, PackContext, FetchContext})
"""Commands that the active agent's worker performs."""


def has_tickets(state: State) -> bool:
    """True if workers claim anything in this conversation; checked with every entry."""
    run = state.run
    return run is not None and (run.queued or run.ticket != "")


def ticket_of(state: State, command: Command) -> Ticket | None:
    """The ticket that the performer of this command has to hold; None if it needs no claim."""
    kind, run = type(command), state.run
    if kind is AskReceiver:
        assert isinstance(command, AskReceiver)
        return _offered(state, command) if command.offer.queued else None
    if run is None or not run.ticket or kind not in OWN:
        return None
    conversation = split_handoff(run.ticket)[0]
    return Ticket(
        id=run.ticket,
        agent=state.agent,
        conversation=conversation,
        place=state.id,
        root=state.root,
        team=state.team,
        at=state.at,
    )


def _offered(state: State, command: AskReceiver) -> Ticket:
    offer = command.offer
    place = child_id(state.id, offer.call) if offer.mode is Mode.DELEGATE else state.id
    return Ticket(
        id=handoff_id(state.id, offer.call),
        agent=offer.receiver,
        conversation=state.id,
        place=place,
        root=state.root,
        team=state.team,
        priority=offer.priority,
        deadline=command.deadline,
        at=state.at,
    )


def open_tickets(state: State) -> set[str]:
    """The tickets of the active agent, of offers and of delegates."""
    run = state.run
    if run is None or not (run.queued or run.ticket):
        return set()
    own = {run.ticket} if run.ticket else set()
    return own | {handoff_id(state.id, offer.call) for offer, _ in _offers(run)}


def is_offered(state: State, ticket: str) -> bool:
    """True if the handoff of this ticket is offered and not accepted yet."""
    offers = _offers(state.run) if state.run else ()
    return any(handoff_id(state.id, offer.call) == ticket and not delegated for offer, delegated in offers)


def resting(state: State, outstanding: Iterable[Command]) -> set[str]:
    """The open tickets that have no work while only these commands are outstanding."""
    run = state.run
    if run is None or not has_tickets(state):
        return set()
    rests = {run.ticket} if run.ticket else set()
    rests |= {handoff_id(state.id, offer.call) for offer, delegated in _offers(run) if not delegated}
    for command in outstanding:
        ticket = command.ticket if isinstance(command, AwaitClaim) else ticket_of(state, command)
        if ticket is not None:
            rests.discard(ticket.id)
    return rests


def _offers(run: Run) -> Iterator[tuple[HandoffOffered, bool]]:
    """The queued offers of a run, and whether a delegate works on each."""
    turn = run.phase.turn if isinstance(run.phase, TURNING) and run.queued else None
    for call in turn.calls.values() if turn else ():
        handoff = handoff_of(call)
        if isinstance(handoff, Offered | Delegated) and handoff.offer.queued:
            yield handoff.offer, isinstance(handoff, Delegated)


def delegated(run: Run) -> list[HandoffOffered]:
    """The offers that delegates of this run accepted and work on, in conversations of their own."""
    turn = run.phase.turn if isinstance(run.phase, TURNING) else None
    calls = turn.calls.values() if turn else ()
    return [call.phase.offer for call in calls if isinstance(call.phase, Delegated)]
