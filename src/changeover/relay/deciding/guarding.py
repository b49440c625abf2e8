"""Whether a handoff may be offered: what conditions and guards say to it."""

from __future__ import annotations

from changeover.agent.moves import DelegateTo, Transfer
from changeover.agent.roster import Roster
from changeover.facts import RefusalFault
from changeover.guards.guard import Allow, Ask, Deny, Facts, Offer, checked
from changeover.relay.commands import Record
from changeover.relay.context import context_of
from changeover.relay.deciding.failing import fail
from changeover.relay.deciding.packing import Asker
from changeover.relay.events import ApprovalRequested, CallRefused, HandoffOffered
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.relay.turn import OpenCall, Turn


def guarded(state: State, run: Run, asker: Asker, offer: HandoffOffered, roster: Roster) -> Record:
    """The offer, if nothing speaks against it; else the agent is told why not, or a person is asked."""
    turn, call = asker
    move = roster.move_of(turn.agent, call.call.name)
    if isinstance(move, Transfer) and (closed := move.closed(context_of(state, run, call.id))):
        return _denied(state, run, turn, (call, offer.receiver), closed)
    own = move.guards if isinstance(move, Transfer | DelegateTo) else ()
    if not roster.guards and not own:
        return Record(offer)
    variables = {**state.variables, **offer.variables} if offer.variables else state.variables
    who = (offer.sender, offer.receiver, offer.mode, offer.message)
    wanted = Offer(*who, variables, state.artifacts, state.workflow_state, call.call.name, offer.attempt)
    facts = Facts(state.at, state.id, run.spoken.user, run.trail, run.progress)
    match checked((*own, *roster.guards), wanted, run.ledger(state.at), facts):
        case Allow():
            return Record(offer)
        case Deny(reason=reason):
            return _denied(state, run, turn, (call, offer.receiver), reason)
        case Ask(question=question):
            return _asked(state, run, turn, call, offer, question)


def _denied(state: State, run: Run, turn: Turn, wanted: tuple[OpenCall, str], reason: str) -> Record:
    call, receiver = wanted
    if turn.quiet:  # a Function member, which cannot be told
        return fail(run, RefusalFault(turn.agent, reason))
    return Record(CallRefused(call.id, state.task, f"refused: {reason}", "guard", receiver))


def _asked(state: State, run: Run, turn: Turn, call: OpenCall, offer: HandoffOffered, question: str) -> Record:
    if call.cleared:  # somebody said yes
        return Record(offer)
    if turn.quiet:
        return fail(run, RefusalFault(turn.agent, f"a person would have to say yes first: {question}"))
    who = (call.id, state.task, turn.agent, call.call.name)
    return Record(ApprovalRequested(*who, offer.variables, offer.receiver, question))
