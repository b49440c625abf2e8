"""What the rules of a team say: where to go before a model is asked, and to what an agent wants to hand over."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from changeover.agent.roster import Roster
from changeover.guards.approval import approval_of
from changeover.guards.guard import Deny
from changeover.guards.rules import Misjudged, Rule, holds
from changeover.relay.commands import Record, SeekApproval
from changeover.relay.context import context_of
from changeover.relay.decide.offer import Asker
from changeover.relay.deciding.trying import stands_in
from changeover.relay.events import HandoffOffered, RuleFailed, RuleFired
from changeover.relay.limiting import handoffs_left
from changeover.relay.run import Run, Thinking
from changeover.relay.sanitize import text_of
from changeover.relay.state import State

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
        id = f"{call.id}=rule{len(call.passed) + 1}"
        about = f"{rule.name}: {offer.message}" if offer.message else rule.name
        what = (call.call, approval, offer.receiver, about if rule.goto else rule.message or about)
        return SeekApproval(f"{id}?", state.task, context_of(state, run, id), *what, rule=rule.name)
    return None


def _failed(state: State, rule: Rule, held: Misjudged) -> Record:
    logger.error("the rule %r could not be judged in %s: %s", rule.name, state.id, held.reason)
    return Record(RuleFailed(rule.name, state.agent, state.task, text_of(held.reason)))
