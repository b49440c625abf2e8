"""Rules and guards: where a rule sends or ends a run before its model is asked, and whether a handoff may be made."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from changeover.agent.moves import DECLARED, Move, closed
from changeover.agent.roster import Roster
from changeover.facts import TRANSFER
from changeover.faults import RefusalFault
from changeover.guards.approval import approval_of
from changeover.guards.guard import ALLOW, Answer, Ask, Deny, Facts, Offer, checked
from changeover.guards.rules import Misjudged, Rule, holds
from changeover.handoffs.context import merge_variables
from changeover.ids import Mark, command_id
from changeover.relay.budget import handoffs_left
from changeover.relay.commands import Record, SeekApproval
from changeover.relay.decide.limits import fail
from changeover.relay.decide.variants import stands_in
from changeover.relay.events import (
    AlternativeRefused,
    ApprovalRequested,
    CallRefused,
    HandoffOffered,
    RuleFailed,
    RuleFired,
)
from changeover.relay.fold.handoffs import task_of
from changeover.relay.run import Run, Thinking
from changeover.relay.sanitize import text_of
from changeover.relay.state import State, context_of
from changeover.relay.turn import OpenCall, Turn

if TYPE_CHECKING:
    from changeover.relay.decide.offer import Proposal

logger = logging.getLogger("changeover.rules")


def lead(state: State, run: Run, phase: Thinking, roster: Roster) -> Record | None:
    """The rule that hands the run over or ends it before the active agent's model is asked; None if no rule does."""
    context, hands_off = context_of(state, run, phase.due), _may_hand_over(state, run, roster)
    for rule in roster.leads:
        if not _may_lead(rule, state, run, roster) or (rule.goto and not hands_off):
            continue
        held = holds(rule, context)
        if held is True:
            who = (rule.name, state.agent, state.task)
            return Record(RuleFired(*who, rule.goto, rule.message, end=rule.end))
        if isinstance(held, Misjudged) and rule.name not in run.misjudged:
            return _rule_failed(state, rule, held)
    return None


def _may_hand_over(state: State, run: Run, roster: Roster) -> bool:
    """True if rules may still hand the run over."""
    if run.told or not roster.hands_off(state.root, state.agent):
        return False
    return handoffs_left(state, run, run.limits or roster.limits) > 0


def _may_lead(rule: Rule, state: State, run: Run, roster: Roster) -> bool:
    if rule.name in run.fired or rule.goto == state.agent or not rule.concerns(state.agent):
        return False
    if rule.goto in roster.absent or stands_in(state.agent, rule.goto, roster):
        return False
    # A delegate does its task and returns, unless a rule names that agent.
    return not state.depth or bool(rule.agents)


def apply_rules(
    state: State, run: Run, call: OpenCall, offer: HandoffOffered, roster: Roster
) -> Record | Deny | list[Rule]:
    """The denial by a rule, or the rule's event that has to be recorded first; else the rules that demand approval."""
    asking = list[Rule]()
    context = context_of(state, run, call.id)
    for rule in roster.judges:
        held = holds(rule, context) if rule.concerns(offer.sender) else False
        if held is False:
            continue
        if isinstance(held, Misjudged):
            if rule.name not in run.misjudged:
                return _rule_failed(state, rule, held)
            return Deny(f"the rule {rule.name!r} could not be judged: {text_of(held.reason)}")
        if (rule.name, offer.receiver) not in call.ruled:
            about = (call.id, offer.receiver, rule.deny)
            return Record(RuleFired(rule.name, offer.sender, state.task, "", "", *about))
        if rule.deny:
            return Deny(f"by the rule {rule.name!r}: {rule.deny}")
        asking.append(rule)
    return asking


def next_approval(
    state: State,
    run: Run,
    asker: tuple[Turn, OpenCall],
    offer: HandoffOffered,
    asking: Sequence[Rule],
    roster: Roster,
) -> SeekApproval | None:
    """The next approval that these rules, or the rule that leads here, demand; None if all were given."""
    turn, call = asker
    leading = [rule for rule in roster.leads if rule.name == turn.rule]
    passed = call.passed if call.holds_for(offer.receiver) else ()
    for rule in (*leading, *asking):
        approval = approval_of(rule.approval)
        if approval is None or rule.name in passed:
            continue
        id = call.request_id(offer.receiver, f"rule{len(passed) + 1}")
        about = f"{rule.name}: {offer.message}" if offer.message else rule.name
        what = (call.call, approval, offer.receiver, about if rule.goto else rule.message or about)
        return SeekApproval(command_id(id, Mark.CHECK), state.task, context_of(state, run, id), *what, rule=rule.name)
    return None


def _rule_failed(state: State, rule: Rule, held: Misjudged) -> Record:
    logger.error("the rule %r could not be judged in %s: %s", rule.name, state.id, held.reason)
    return Record(RuleFailed(rule.name, state.agent, state.task, text_of(held.reason)))


NEEDS_APPROVAL = "a person would have to say yes first"


def guarded(state: State, run: Run, proposal: Proposal, offer: HandoffOffered, roster: Roster) -> Record | SeekApproval:
    """The offer if conditions, guards and rules allow it; else the refusal, or the question to a person. Only the
    call that first asks for a handoff can wait for a person: branches and alternatives are refused instead."""
    call, move = proposal.call, proposal.move
    waits = proposal.origin in ("call", "command")
    when = move.declared.when if waits and isinstance(move, DECLARED) else None
    if when is not None and (shut := closed(when, context_of(state, run, call.id))):
        return _denied(state, run, proposal, offer, Deny(shut))
    answer = _ask_guards(state, run, call, offer, move, roster)
    if answer is ALLOW and not roster.judges and not proposal.turn.rule:
        return Record(offer)  # most handoffs
    if isinstance(answer, Deny):
        return _denied(state, run, proposal, offer, answer)
    ruled = apply_rules(state, run, call, offer, roster) if roster.judges else []
    if isinstance(ruled, Record):
        return ruled
    if isinstance(ruled, Deny):
        return _denied(state, run, proposal, offer, ruled)
    question = answer if isinstance(answer, Ask) else None
    if question is None and not ruled and not (waits and proposal.turn.rule):
        return Record(offer)
    if waits:
        return _ask_people(state, run, proposal, offer, (question, ruled), roster)
    asked = question.question if question else ", ".join(rule.name for rule in ruled)
    return _denied(state, run, proposal, offer, Deny(f"{NEEDS_APPROVAL}: {asked}"))


def _ask_people(
    state: State,
    run: Run,
    proposal: Proposal,
    offer: HandoffOffered,
    asking: tuple[Ask | None, list[Rule]],
    roster: Roster,
) -> Record | SeekApproval:
    """The question that a guard or a rule wants put to a person, or the offer if none is left."""
    (guard, ruled), turn, call = asking, proposal.turn, proposal.call
    if guard is not None and not (call.permitted and call.holds_for(offer.receiver)):
        if turn.deaf:
            return fail(run, RefusalFault(turn.agent, f"{NEEDS_APPROVAL}: {guard.question}"))
        who = (call.request_id(offer.receiver), state.task, turn.agent, call.call.name)
        return Record(ApprovalRequested(*who, offer.variables, offer.receiver, guard.question))
    return next_approval(state, run, (turn, call), offer, ruled, roster) or Record(offer)


def _ask_guards(
    state: State, run: Run, call: OpenCall, offer: HandoffOffered, move: Move | None, roster: Roster
) -> Answer:
    own = move.guards if isinstance(move, DECLARED) else ()
    if not roster.guards and not own:
        return ALLOW
    variables = merge_variables(state.variables, offer.variables, offer.merge)
    who = (offer.sender, offer.receiver, offer.mode)
    message = offer.message if offer.mode is TRANSFER else task_of(run, offer)
    wanted = Offer(*who, message, variables, state.artifacts, state.workflow_state, call.call.name, offer.attempt)
    facts = Facts(state.at, state.id, run.spoken.user, run.trail, run.progress, None, run.news)
    return checked((*own, *roster.guards) if own else roster.guards, wanted, run.passing_ledger(state.at), facts)


def _denied(state: State, run: Run, proposal: Proposal, offer: HandoffOffered, no: Deny) -> Record:
    """The refusal of an offer, in the form that its origin can be told."""
    turn, refused = proposal.turn, f"refused: {no.reason}"
    if proposal.declined is not None:
        return Record(AlternativeRefused(proposal.declined.offer.call, state.task, offer.receiver, no.reason))
    branch = proposal.origin == "branch"
    if turn.deaf and (no.cycle or not branch):  # a Function that sends the same again would do so for ever
        return fail(run, RefusalFault(turn.agent, no.reason, no.cycle))
    call = offer.call if branch else proposal.call.id
    return Record(CallRefused(call, state.task, refused, "ignored" if branch else "guard", offer.receiver, no.cycle))
