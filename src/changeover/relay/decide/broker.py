"""The broker: finds candidates for a task that names no receiver, and asks them in turn."""

from __future__ import annotations

from collections.abc import Sequence

from changeover.agent.roster import Roster
from changeover.agent.specialist import ToSpecialist, Wish
from changeover.ids import Mark, command_id
from changeover.relay.budget import exceeded
from changeover.relay.commands import Command, FindReceiver, Record, SeekApproval
from changeover.relay.decide.limits import over_limit
from changeover.relay.decide.offer import Step, from_call, read_intent
from changeover.relay.events import CallRefused, HandoffConditional, HandoffOffered
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.relay.turn import Declined, OpenCall, Turn


def find(state: State, run: Run, turn: Turn, call: OpenCall) -> Record | Sequence[Command] | None:
    """Find a receiver for what code offers; None once one is found."""
    chosen = call.chosen
    if chosen is not None:
        return None if chosen.receiver else Record(CallRefused(call.id, state.task, chosen.why, "declined"))
    package = run.spoken.package or {}
    return [search(state, run, turn, call, tuple(package.get("metadata", {}).get("required_capabilities", ())))]


def search(state: State, run: Run, turn: Turn, call: OpenCall, required: tuple[str, ...]) -> FindReceiver:
    """The command that finds all candidates for what code offers."""
    wish = Wish(run.spoken.text, kind=", ".join(required), required=required)
    return FindReceiver(command_id(call.id, Mark.SEARCH), state.task, state.id, turn.agent, wish, brokered=True)


def candidate(turn: Turn, call: OpenCall, phase: Declined, roster: Roster) -> str:
    """The next receiver of a declined offer: the suggested one, else an alternative, else one that was found for what
    code offers; empty if none is left. No receiver is asked twice."""
    offer, found = phase.offer, call.chosen if turn.code else None
    asked = {*offer.declined_by, offer.receiver, *phase.refused}
    listed = (phase.suggested, *offer.alternatives, *((found.receiver, *found.alternatives) if found else ()))
    return next((name for name in listed if name in roster.present and name not in asked), "")


def step(run: Run, call: OpenCall, phase: Declined, roster: Roster) -> Step | None:
    """The next step after a refusal: another candidate; else the one whose conditions are fewest; else, if the caller
    wants that, the queue of the best candidate; None if the task goes back to the caller."""
    offer = phase.offer
    if phase.needs and not offer.brokered:
        return None  # only the caller can meet the condition
    if following := _unasked(phase, roster):
        return Step(following, brokered=True)
    conditions = [each for each in call.conditions if each.receiver in roster.seats]
    if conditions:
        least = min(conditions, key=_condition_count)  # the first among equals fits best
        return Step(least.receiver, needs_context=least.needs_context, needs_permission=least.needs_permission)
    best = (*offer.declined_by, offer.receiver)[0]
    if run.spoken.no_takers == "queue" and best in roster.seats and not _has_waited(offer):
        return Step(best, queued=True)
    return None


def _unasked(phase: Declined, roster: Roster) -> str:
    """A candidate that was not asked yet: the one that the last receiver suggested, else the best; empty if none."""
    offer = phase.offer
    asked = {*offer.declined_by, offer.receiver}
    left = [name for name in offer.alternatives if name in roster.present and name not in asked]
    return phase.suggested if phase.suggested in left else left[0] if left else ""


def _condition_count(condition: HandoffConditional) -> int:
    return len(condition.needs_context) + len(condition.needs_permission)


def _has_waited(offer: HandoffOffered) -> bool:
    """True if the task was already in the queue of the best candidate, after all had been asked."""
    again = offer.receiver in offer.declined_by
    return again and offer.queued and not (offer.needs_context or offer.needs_permission)


def seek(
    state: State, run: Run, turn: Turn, call: OpenCall, move: ToSpecialist, roster: Roster
) -> Record | SeekApproval | FindReceiver:
    """Find a specialist for a call, then offer the task to it; the model is told if no agent fits."""
    chosen = call.chosen
    if chosen is not None:
        if chosen.receiver:
            return from_call(state, run, (turn, call), move, roster)
        return Record(CallRefused(call.id, state.task, f"no specialist: {chosen.why}", "declined"))
    intent, _ = read_intent(state, (turn, call), move, roster)
    if isinstance(intent, Record):
        return intent
    if limit := exceeded(state, run, run.limits or roster.limits, "", nested=True):
        return over_limit(state, run, (call.id, ""), limit, roster)
    wish = move.wish(intent, call.call.args)
    return FindReceiver(command_id(call.id, Mark.SEARCH), state.task, state.id, turn.agent, wish, move.among)
