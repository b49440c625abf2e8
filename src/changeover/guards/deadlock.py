"""Deadlock: the guard that refuses handoffs which go round in a circle."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from changeover.facts import Ledger, Mode
from changeover.guards.guard import ALLOW, Answer, Deny, Facts, Offer, Passed

DEADLOCK = "deadlock: "
"""The first word of this guard's refusals, by which they are recognized."""


class Deadlock(Struct, frozen=True):
    """Refuses handoffs that go round in a circle.

    It refuses a handoff that repeats one of the last `window` (default 3): same sender, receiver, message and context.
    It also refuses a second handoff between the same two agents if there was no progress since: no tool or delegate
    succeeded, no context variable changed, no user spoke. Delegations are not checked.
    """

    window: int = 3

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        if offer.mode is not Mode.TRANSFER:
            return ALLOW  # a delegate comes back by itself
        for back, passed in enumerate(reversed(facts.trail)):
            stuck = passed.progress == facts.progress
            if back >= self.window and not stuck:
                break
            if not _is_repeated(offer, passed):
                continue
            if back < self.window and _is_same(offer, passed):
                return Deny(f"{DEADLOCK}the same was handed over before ({_cycle(facts.trail, back, offer)})")
            if stuck:
                cycle = _cycle(facts.trail, back, offer)
                return Deny(f"{DEADLOCK}{cycle} goes round without progress")
        return ALLOW

    def faults(self) -> list[str]:
        """What is wrong with this declaration, one text for each fault."""
        whole = isinstance(self.window, int) and self.window is not True and self.window >= 1
        return [] if whole else [f"window={self.window!r} must be a whole number, 1 or more"]


def _is_repeated(offer: Offer, passed: Passed) -> bool:
    """True for the same sender and receiver."""
    # An agent may hand off to itself to start afresh: with another message that is another task.
    own = offer.sender == offer.receiver
    same = (offer.sender, offer.receiver) == (passed.sender, passed.receiver)
    return same and (not own or _is_same(offer, passed))


def _is_same(offer: Offer, passed: Passed) -> bool:
    # Compared, not hashed: most differ early, and the order of keys does not matter.
    if offer.message != passed.message or offer.variables != passed.variables:
        return False
    return offer.artifacts == passed.artifacts and offer.workflow_state == passed.workflow_state


def _cycle(trail: Sequence[Passed], back: int, offer: Offer) -> str:
    """The agents from the repeated handoff until now."""
    walked = trail[len(trail) - 1 - back :]
    return " → ".join([*(passed.sender for passed in walked), offer.sender, offer.receiver])
