"""What every offer says beside its contents: until when it stands, and which one it follows."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from changeover.agent.roster import Roster, Seat
from changeover.facts import Expected, Mode
from changeover.handoffs.briefing import brief_of, briefed_by
from changeover.handoffs.package import HandoffPackage
from changeover.relay.events import HandoffOffered, ReceiverChosen, UserSpoke
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.relay.turn import OpenCall, way_of


def until(state: State, offer: HandoffOffered, timeout: float | None, roster: Roster) -> HandoffOffered:
    """The offer with its deadline. A transfer has none if it is accepted in the moment in which it is offered; what has
    to be claimed has all its time from then on."""
    if offer.queued or roster.pulls(offer.receiver):
        return replace(offer, queued=True, timeout=timeout)
    if timeout is None:
        return offer
    if offer.mode is Mode.TRANSFER:
        seat = roster.seats.get(offer.receiver)
        if type(seat) is not Seat or not seat.asks:
            return offer
    return replace(offer, deadline=state.at + timeout)


def within(package: HandoffPackage, offer: HandoffOffered) -> HandoffOffered:
    """The offer, with no more time than its package has."""
    due = package.metadata.deadline
    return offer if due is None else replace(offer, deadline=min(due.timestamp(), offer.deadline or inf))


def packed(
    state: State, offer: HandoffOffered, spoken: UserSpoke, found: ReceiverChosen | None, roster: Roster
) -> HandoffOffered:
    """The offer with what the package says that code hands over, and with who was found for it."""
    package = HandoffPackage.from_dict(spoken.package)
    metadata, expects = package.metadata, package.expectations
    offer = within(package, until(state, replace(offer, queued=spoken.queued), expects.timeout, roster))
    wanted = expects.output_schema or expects.success_criteria
    template = roster.briefing_for(offer.receiver)
    about = briefed_by(template, brief_of(package)) if isinstance(template, str) else ""
    return replace(
        offer,
        message=offer.message if offer.mode is Mode.DELEGATE else about or offer.message,
        instructions=metadata.instructions,
        about=about if offer.mode is Mode.DELEGATE else "",
        max_iterations=metadata.max_iterations or 0,
        alternatives=found.alternatives if found else package.context.escalation_path,
        expected=Expected(expects.output_schema, expects.success_criteria) if wanted else None,
        attempt=metadata.attempt,
        priority=metadata.priority,
        capability=found.capability if found else "",
        brokered=found is not None,
    )


def following(state: State, run: Run, call: OpenCall, offer: HandoffOffered) -> HandoffOffered:
    """The offer as the next try after one that nobody took, if there was one; not if both were asked for in one reply,
    when nobody could know of it."""
    before = run.declined.get(way_of(offer.mode, call))
    if before is None or before.task != state.task or _reply(before.handoff) == _reply(f":{offer.call}"):
        return offer
    return replace(offer, attempt=before.attempt + 1, retry_of=before.handoff, declined_by=before.by)


def _reply(handoff: str) -> str:
    """Where the reply stands that asked for a handoff."""
    return handoff.rpartition(":")[2].partition(".")[0]
