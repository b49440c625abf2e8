"""A task that workers claimed too often: the open calls of its turn are given up, so that a person can be asked."""

from __future__ import annotations

from changeover.ids import call_id
from changeover.relay.commands import Record
from changeover.relay.events import ENGINE, CallRefused, HandoffRejected, RollbackRequested, ToolFinished
from changeover.relay.state import State
from changeover.relay.turn import Answered, Asked, Begun, Declined, Delegated, Fanned, Offered, OpenCall, Turn

REASON = "no worker that claimed it finished it"


def given_up(state: State, turn: Turn) -> Record | None:
    """The next open call that is given up; None if none is left."""
    for call in turn.calls.values():
        if (due := _give_up(state, turn, call)) is not None:
            return due
    return None


def _give_up(state: State, turn: Turn, call: OpenCall) -> Record | None:
    """How a call is given up: an offer is withdrawn, a delegate recalled, everything else refused."""
    match call.phase:
        case Answered() | Asked():  # a person is asked already
            return None
        case Delegated(recalled=recalled, offer=offer):
            return None if recalled else Record(RollbackRequested(offer.call, REASON, ENGINE, cleans=True))
        case Offered(index=-1, offer=offer) if turn.deaf:  # its asker cannot be told; a person is asked about the offer
            return Record(HandoffRejected(offer.call, state.task, offer.receiver, REASON, by=ENGINE, worn_out=True))
        case Offered(offer=offer):
            return Record(RollbackRequested(offer.call, REASON, ENGINE, cleans=True))
        case Declined() if turn.deaf:
            return None
        case Begun():
            return Record(ToolFinished(call.id, state.task, "", ok=False, unknown=True))
        case Fanned(sent=sent, directive=directive):
            branch = call_id(call.id, sent)
            return _refused(state, branch) if sent < len(directive.sends) else None
        case _:
            return _refused(state, call.id)


def _refused(state: State, call: str) -> Record:
    return Record(CallRefused(call, state.task, f"ignored: {REASON}", "ignored"))
