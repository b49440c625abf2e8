"""Rules, conditions and guards: where a run goes before its model is asked, and whether a handoff may be offered."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from changeover.agent.moves import DelegateTo, Move, Transfer
from changeover.agent.roster import Roster
from changeover.faults import RefusalFault
from changeover.guards.approval import approval_of
from changeover.guards.guard import ALLOW, Answer, Ask, Deny, Facts, Offer, checked
from changeover.guards.rules import Misjudged, Rule, holds
from changeover.handoffs.context import merge_variables
from changeover.ids import Mark, command_id, topic_id
from changeover.relay.budget import handoffs_left
from changeover.relay.commands import Record, SeekApproval
from changeover.relay.decide.limits import fail
from changeover.relay.decide.offer import Asker, stands_in
from changeover.relay.events import (
    AlternativeRefused,
    ApprovalRequested,
    CallRefused,
    HandoffOffered,
    RuleFailed,
    RuleFired,
)
from changeover.relay.run import Run, Thinking
from changeover.relay.sanitize import text_of
from changeover.relay.state import State, context_of
from changeover.relay.turn import OpenCall, Turn

logger = logging.getLogger("changeover.rules")


def lead(state: State, run: Run, phase: Thinking, roster: Roster) -> Record | None:
    """Where a rule has the active agent hand over, before its model is asked; None if its model is."""
    if run.told or not roster.hands_off(state.root, state.agent):
        return None
    if handoffs_left(state, run, run.limits or roster.limits) <= 0:
        return None
    context = context_of(state, run, phase.due)
    for rule in roster.gotos:
        if not _may_lead(rule, state, run, roster):
            continue
        held = holds(rule, context)
        if held is True:
            return Record(RuleFired(rule.name, state.agent, state.task, rule.goto, rule.message))
        if isinstance(held, Misjudged) and rule.name not in run.misjudged:
            return _failed(state, rule, held)
    return None


def _may_lead(rule: Rule, state: State, run: Run, roster: Roster) -> bool:
    if rule.name in run.fired or rule.goto == state.agent or not rule.concerns(state.agent):
        return False
    if rule.goto in roster.absent or stands_in(state.agent, rule.goto, roster):
        return False
    # A delegate does what it was asked, and comes back; unless a rule is about just that one.
    return not state.depth or bool(rule.agents)


def judged(state: State, run: Run, asker: Asker, offer: HandoffOffered, roster: Roster) -> Record | Deny | list[Rule]:
    """Why a handoff must not be, which has to be recorded first; else the rules that want a person asked."""
    call, asking = asker[1], list[Rule]()
    context = context_of(state, run, call.id)
    for rule in roster.judges:
        held = holds(rule, context) if rule.concerns(offer.sender) else False
        if held is False:
            continue
        if isinstance(held, Misjudged):
            if rule.name not in run.misjudged:
                return _failed(state, rule, held)
            return Deny(f"the rule {rule.name!r} could not be judged: {text_of(held.reason)}")
        if (rule.name, offer.receiver) not in call.ruled:
            about = (call.id, offer.receiver, rule.deny)
            return Record(RuleFired(rule.name, offer.sender, state.task, "", "", *about))
        if rule.deny:
            return Deny(f"by the rule {rule.name!r}: {rule.deny}")
        asking.append(rule)
    return asking


def asked(
    state: State, run: Run, asker: Asker, offer: HandoffOffered, asking: Sequence[Rule], roster: Roster
) -> SeekApproval | None:
    """What has to be asked because of these rules, or of the one that leads here, and was not yet."""
    turn, call = asker
    leading = [rule for rule in roster.gotos if rule.name == turn.rule]
    for rule in (*leading, *asking):
        approval = approval_of(rule.approval)
        if approval is None or rule.name in call.passed:
            continue
        id = topic_id(call.id, f"rule{len(call.passed) + 1}")
        about = f"{rule.name}: {offer.message}" if offer.message else rule.name
        what = (call.call, approval, offer.receiver, about if rule.goto else rule.message or about)
        return SeekApproval(command_id(id, Mark.CHECK), state.task, context_of(state, run, id), *what, rule=rule.name)
    return None


def _failed(state: State, rule: Rule, held: Misjudged) -> Record:
    logger.error("the rule %r could not be judged in %s: %s", rule.name, state.id, held.reason)
    return Record(RuleFailed(rule.name, state.agent, state.task, text_of(held.reason)))


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
