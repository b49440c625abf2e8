"""Deadlock: the guard that refuses handoffs which go round in a circle."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from changeover.facts import Ledger, Mode
from changeover.guards.guard import ALLOW, Answer, Deny, Facts, Offer, Passed

DEADLOCK = "deadlock: "
"""The first word of this guard's refusals, by which they are recognized."""


class Deadlock(Struct, frozen=True):
    """Refuses handoffs that go round in a circle.

    It refuses a handoff that repeats one of the last `window` (default 3) if nothing happened since: same sender,
    receiver, message and context, and no tool took effect, no variable, artifact or answer is new. It also refuses, at
    any distance, a second transfer between the same two agents, and a second delegation of the same task between them,
    if there was no progress since: no tool or delegate succeeded, no context variable changed, no user spoke.
    """

    window: int = 3

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        """Deny an `offer` that repeats one in the trail of the `facts`; the `ledger` does not matter."""
        if offer.receiver not in [passed.receiver for passed in facts.trail]:
            return ALLOW  # most handoffs
        progress, window = facts.progress, self.window
        for back, passed in enumerate(reversed(facts.trail)):
            if back >= window and passed.progress != progress:
                break
            if passed.receiver == offer.receiver and passed.sender == offer.sender and _is_repeated(offer, passed):
                cycle = _cycle(facts.trail[len(facts.trail) - 1 - back :], offer)
                if back < window and passed.news == facts.news and _is_same(offer, passed):
                    return Deny(f"{DEADLOCK}the same was handed over before ({' → '.join(cycle)})", cycle)
                if passed.progress == progress:
                    return Deny(f"{DEADLOCK}{' → '.join(cycle)} goes round without progress", cycle)
        return ALLOW

    def faults(self) -> list[str]:
        """The faults of this declaration, one text each."""
        whole = isinstance(self.window, int) and self.window is not True and self.window >= 1
        return [] if whole else [f"window={self.window!r} must be a whole number, 1 or more"]


def _is_repeated(offer: Offer, passed: Passed) -> bool:
    """True if an offer repeats an earlier handoff between the same two agents. A transfer does so whatever its message,
    since other words do not make another task."""
    if offer.mode is not passed.mode:
        return False
    # An agent may hand off to itself to start afresh, and give a delegate one task after the other.
    may_recur = offer.sender == offer.receiver or offer.mode is Mode.DELEGATE
    return not may_recur or _is_same(offer, passed)


def _is_same(offer: Offer, passed: Passed) -> bool:
    # Compared, not hashed: most differ early, and the order of keys does not matter.
    if offer.message != passed.message or offer.variables != passed.variables:
        return False
    return offer.artifacts == passed.artifacts and offer.workflow_state == passed.workflow_state


def _cycle(walked: Iterable[Passed], offer: Offer) -> tuple[str, ...]:
    """The agents from the repeated handoff until now; a delegate gives the task back to its sender."""
    route: list[str] = []
    for sender, receiver in (*((each.sender, each.receiver) for each in walked), (offer.sender, offer.receiver)):
        route += [receiver] if route and route[-1] == sender else [sender, receiver]
    return tuple(route)
