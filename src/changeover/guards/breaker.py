"""CircuitBreaker: handoffs to a receiver that fails repeatedly are refused during a cool-down.

A `Circuit` is shared by all conversations of a store and is kept beside the logs; the functions here change it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from changeover.facts import Ledger, dated
from changeover.guards.guard import ALLOW, Answer, Deny, Facts, Guard, Offer, Tripped

LONGEST = 365 * 24 * 3600.0
"""The longest cool-down, in seconds."""


class CircuitBreaker(Struct, frozen=True):
    """Refuses handoffs to a receiver after `threshold` failures in a row. When `cooldown` seconds have passed, one
    handoff is let through: if it succeeds all are, if it fails the time begins again."""

    threshold: int = 3
    cooldown: float = 30.0

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        return ALLOW if facts.tripped is None else Deny(open_words(facts.tripped))

    def faults(self) -> list[str]:
        """What is wrong with it as it was declared."""
        found = []
        if not isinstance(self.threshold, int) or self.threshold is True or self.threshold < 1:
            found.append(f"threshold={self.threshold!r} must be a whole number, 1 or more")
        number = isinstance(self.cooldown, int | float) and not isinstance(self.cooldown, bool)
        if not number or not 0 < self.cooldown <= LONGEST:
            found.append(f"cooldown={self.cooldown!r} must be a number of seconds above 0, a year at most")
        return found


class Circuit(Struct, frozen=True, gc=False):
    """How a receiver has done of late, as all who share a store see it."""

    receiver: str
    failures: int = 0
    """In a row."""
    openings: int = 0
    """How often it went from working to failing; it may fail many probes before it works again."""
    opened_at: float | None = None
    """Since when it is open; None while it is closed."""
    until: float | None = None
    """When a handoff is let through to try it: the first one or, while one is out, the next should nothing be heard of
    that. None if it is closed, or open until somebody resets it."""
    probe: str = ""
    """The handoff that was let through last, to try it."""
    cooldown: float = 0.0
    """How long it stays open, in seconds."""
    closed_at: float = 0.0
    """When it last closed: what began before says nothing of it any more."""
    forced: bool = False
    """Somebody opened it by hand."""

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """Half-open while the handoff is out that tries it."""
        if self.opened_at is None:
            return "closed"
        return "half-open" if self.probe else "open"

    @property
    def clean(self) -> bool:
        """Whether there is nothing to reset."""
        return not self.failures and self.opened_at is None


class Ended(Struct, frozen=True, gc=False):
    """A handoff that is over."""

    handoff: str
    receiver: str
    ok: bool | None
    """Whether the receiver did what it was to do; None if that cannot be said, as when somebody cancels it."""
    began: float
    """When it was offered."""
    breaker: CircuitBreaker
    """What counts it."""


def admitted(circuit: Circuit, handoff: str, at: float) -> Circuit | Tripped:
    """The circuit once this handoff is offered to its receiver; or that it cannot be."""
    if circuit.opened_at is None or handoff == circuit.probe:
        return circuit
    if circuit.until is None or at < circuit.until:
        return Tripped(circuit.receiver, circuit.failures, circuit.until)
    # Should nothing be heard of it, as when its process dies, another is let through when as much time has passed.
    return replace(circuit, probe=handoff, until=at + circuit.cooldown)


def noted(circuit: Circuit, ended: Ended, at: float) -> Circuit:
    """The circuit once this handoff is over; the very same if that changes nothing."""
    if circuit.opened_at is not None:
        return circuit if circuit.forced else _tried(circuit, circuit.opened_at, ended, at)
    if ended.ok is None or ended.began < circuit.closed_at:
        return circuit
    if ended.ok:
        return replace(circuit, failures=0) if circuit.failures else circuit
    failures, breaker = circuit.failures + 1, ended.breaker
    if failures < breaker.threshold:
        return replace(circuit, failures=failures)
    times = {"opened_at": at, "until": at + breaker.cooldown, "cooldown": breaker.cooldown}
    return replace(circuit, failures=failures, openings=circuit.openings + 1, **times)


def _tried(circuit: Circuit, opened_at: float, ended: Ended, at: float) -> Circuit:
    """While it is open, only what was let through to try it says anything."""
    last = ended.handoff == circuit.probe
    if ended.ok and (last or ended.began >= opened_at + circuit.cooldown):
        return closed(circuit, at)
    if ended.ok or not last:
        return circuit
    if ended.ok is None:
        return replace(circuit, probe="", until=at)
    cooldown = ended.breaker.cooldown
    return replace(circuit, failures=circuit.failures + 1, probe="", until=at + cooldown, cooldown=cooldown)


def closed(circuit: Circuit, at: float) -> Circuit:
    """The circuit after its receiver showed that it works, or somebody said so."""
    return Circuit(circuit.receiver, openings=circuit.openings, closed_at=at)


def forced(circuit: Circuit, at: float) -> Circuit:
    """The circuit after somebody opened it by hand: it stays so until it is reset."""
    since = at if circuit.opened_at is None else circuit.opened_at
    return replace(circuit, opened_at=since, until=None, probe="", forced=True)


def breaker_among(guards: Iterable[Guard]) -> CircuitBreaker | None:
    """The first circuit breaker of these guards."""
    for guard in guards:
        if isinstance(guard, CircuitBreaker):
            return guard
    return None


def open_words(tripped: Tripped) -> str:
    """Why nothing is handed to a receiver, in words for whoever wanted to."""
    if tripped.until is None:
        return f"the circuit of {tripped.receiver} was opened by hand, and stays so until somebody resets it"
    times = "1 failure" if tripped.failures == 1 else f"{tripped.failures} failures in a row"
    when = f"{dated(ceil(tripped.until)):%Y-%m-%d %H:%M:%S} UTC"
    return f"the circuit of {tripped.receiver} is open after {times}; it is tried again at {when}"
