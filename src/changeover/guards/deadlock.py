"""Deadlock: the guard that refuses handoffs which go round in a circle."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from changeover.facts import Ledger, Mode
from changeover.guards.guard import ALLOW, Answer, Deny, Facts, Offer, Passed

DEADLOCK = "deadlock: "
"""How what this guard says begins, and nothing that another says."""


class Deadlock(Struct, frozen=True):
    """Refuses a handoff that repeats one of the last `window`: same sender, receiver, message and context. And one that
    goes a way for the second time although nothing was achieved since: no tool or delegate succeeded, no context
    variable changed, no user spoke. Delegates come back by themselves, and are left alone."""

    window: int = 3

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        if offer.mode is not Mode.TRANSFER:
            return ALLOW  # a delegate comes back by itself
        for back, passed in enumerate(reversed(facts.trail)):
            stuck = passed.progress == facts.progress
            if back >= self.window and not stuck:
                break
            if not _is_way(offer, passed):
                continue
            if back < self.window and _is_same(offer, passed):
                return Deny(f"{DEADLOCK}the same was handed over before ({_cycle(facts.trail, back, offer)})")
            if stuck:
                cycle = _cycle(facts.trail, back, offer)
                return Deny(f"{DEADLOCK}{cycle} goes round, and nothing was achieved on the way")
        return ALLOW

    def faults(self) -> list[str]:
        """What is wrong with it as it was declared."""
        whole = isinstance(self.window, int) and self.window is not True and self.window >= 1
        return [] if whole else [f"window={self.window!r} must be a whole number, 1 or more"]


def _is_way(offer: Offer, passed: Passed) -> bool:
    # A handoff to oneself starts afresh: with another message it is another task.
    own = offer.sender == offer.receiver
    same = (offer.sender, offer.receiver) == (passed.sender, passed.receiver)
    return same and (not own or _is_same(offer, passed))


def _is_same(offer: Offer, passed: Passed) -> bool:
    # Compared and not hashed: the order of keys says nothing, and most differ in their first word.
    if offer.message != passed.message or offer.variables != passed.variables:
        return False
    return offer.artifacts == passed.artifacts and offer.workflow_state == passed.workflow_state


def _cycle(trail: Sequence[Passed], back: int, offer: Offer) -> str:
    """Who handed over to whom, from the last time until now."""
    walked = trail[len(trail) - 1 - back :]
    return " → ".join([*(passed.sender for passed in walked), offer.sender, offer.receiver])
