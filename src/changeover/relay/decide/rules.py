"""Whether a handoff may be offered: what conditions and guards say to it."""

from __future__ import annotations

from changeover.agent.moves import DelegateTo, Move, Transfer
from changeover.agent.roster import Roster
from changeover.faults import RefusalFault
from changeover.guards.guard import ALLOW, Answer, Ask, Deny, Facts, Offer, checked
from changeover.handoffs.context import merge_variables
from changeover.relay.commands import Record, SeekApproval
from changeover.relay.context import context_of
from changeover.relay.decide.limits import fail
from changeover.relay.decide.offer import Asker
from changeover.relay.deciding.ruling import asked, judged
from changeover.relay.events import AlternativeRefused, ApprovalRequested, CallRefused, HandoffOffered
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.relay.turn import OpenCall, Turn

FIRST = "a person would have to say yes first"
WAYS = (Transfer, DelegateTo)
"""A tuple: a union would be made anew with every question."""


def guarded(state: State, run: Run, asker: Asker, offer: HandoffOffered, roster: Roster) -> Record | SeekApproval:
    """The offer, if nothing speaks against it; else the agent is told why not, or a person is asked."""
    turn, call = asker
    move = roster.move_of(turn.agent, call.call.name)
    if isinstance(move, Transfer) and (closed := move.closed(context_of(state, run, call.id))):
        return _denied(state, run, turn, (call, offer.receiver), closed)
    said = _guards_say(state, run, asker, offer, move, roster)
    if isinstance(said, Deny):
        return _denied(state, run, turn, (call, offer.receiver), said.reason)
    ruled = judged(state, run, asker, offer, roster) if roster.judges else []
    if isinstance(ruled, Record):
        return ruled
    if isinstance(ruled, Deny):
        return _denied(state, run, turn, (call, offer.receiver), ruled.reason)
    if isinstance(said, Ask) and not call.permitted:
        return _asked(state, run, turn, call, offer, said.question)
    return (asked(state, run, asker, offer, ruled, roster) if ruled or turn.rule else None) or Record(offer)


def passed_on(state: State, run: Run, asker: Asker, before: str, offer: HandoffOffered, roster: Roster) -> Record:
    """The offer to whoever is asked next, after this handoff was declined; or that this one must not be asked. Whoever
    said yes before did so to another receiver."""
    against = _objection(state, run, asker, offer, roster)
    if isinstance(against, Record):
        return against
    return Record(AlternativeRefused(before, state.task, offer.receiver, against) if against else offer)


def branched(state: State, run: Run, asker: Asker, offer: HandoffOffered, roster: Roster) -> Record:
    """The offer of one branch of several, or that it is not sent."""
    against = _objection(state, run, asker, offer, roster)
    if isinstance(against, Record):
        return against
    refused = CallRefused(offer.call, state.task, f"refused: {against}", "ignored", offer.receiver)
    return Record(refused if against else offer)


def _objection(state: State, run: Run, asker: Asker, offer: HandoffOffered, roster: Roster) -> Record | str:
    """What speaks against an offer about which nobody is asked; nothing if it may be. What a rule says is recorded
    first."""
    turn, call = asker
    said = _guards_say(state, run, asker, offer, roster.move_of(turn.agent, call.call.name), roster)
    if isinstance(said, Deny):
        return said.reason
    ruled = judged(state, run, asker, offer, roster) if roster.judges else []
    if isinstance(ruled, Record):
        return ruled
    if isinstance(ruled, Deny):
        return ruled.reason
    if isinstance(said, Ask):
        return f"{FIRST}: {said.question}"
    return f"{FIRST}: {', '.join(rule.name for rule in ruled)}" if ruled else ""


def _guards_say(
    state: State, run: Run, asker: Asker, offer: HandoffOffered, move: Move | None, roster: Roster
) -> Answer:
    own = move.guards if isinstance(move, WAYS) else ()
    if not roster.guards and not own:
        return ALLOW
    variables = merge_variables(state.variables, offer.variables, offer.merge)
    who = (offer.sender, offer.receiver, offer.mode, offer.message)
    wanted = Offer(*who, variables, state.artifacts, state.workflow_state, asker[1].call.name, offer.attempt)
    facts = Facts(state.at, state.id, run.spoken.user, run.trail, run.progress)
    return checked((*own, *roster.guards) if own else roster.guards, wanted, run.passing_ledger(state.at), facts)


def _denied(state: State, run: Run, turn: Turn, wanted: tuple[OpenCall, str], reason: str) -> Record:
    call, receiver = wanted
    if turn.deaf:
        return fail(run, RefusalFault(turn.agent, reason))
    return Record(CallRefused(call.id, state.task, f"refused: {reason}", "guard", receiver))


def _asked(state: State, run: Run, turn: Turn, call: OpenCall, offer: HandoffOffered, question: str) -> Record:
    if turn.deaf:
        return fail(run, RefusalFault(turn.agent, f"{FIRST}: {question}"))
    who = (call.id, state.task, turn.agent, call.call.name)
    return Record(ApprovalRequested(*who, offer.variables, offer.receiver, question))
