"""CircuitBreaker: handoffs to a receiver that fails repeatedly are refused during a cool-down.

A `Circuit` is shared by all conversations of a store and is kept beside the logs; the functions here change it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from changeover.facts import Ledger, dated
from changeover.faults import Circuit
from changeover.guards.guard import ALLOW, Answer, Deny, Facts, Guard, Offer, Tripped

LONGEST = 365 * 24 * 3600.0
"""The longest cool-down, in seconds."""


class CircuitBreaker(Struct, frozen=True):
    """Refuses handoffs to a receiver after `threshold` failures in a row (default 3).

    After `cooldown` seconds (default 30) one handoff is let through as a probe: if it succeeds, the circuit closes; if
    it fails, the cool-down begins again.
    """

    threshold: int = 3
    cooldown: float = 30.0

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        """Deny the `offer` if the `facts` hold an open circuit of its receiver; the `ledger` does not matter."""
        return ALLOW if facts.tripped is None else Deny(open_words(facts.tripped))

    def faults(self) -> list[str]:
        """The faults of this declaration, one text each."""
        found = []
        if not isinstance(self.threshold, int) or self.threshold is True or self.threshold < 1:
            found.append(f"threshold={self.threshold!r} must be a whole number, 1 or more")
        number = isinstance(self.cooldown, int | float) and not isinstance(self.cooldown, bool)
        if not number or not 0 < self.cooldown <= LONGEST:
            found.append(f"cooldown={self.cooldown!r} must be a number of seconds above 0, a year at most")
        return found


class Ended(Struct, frozen=True, gc=False):
    """The end of a handoff, as circuit breakers count it."""

    handoff: str
    receiver: str
    ok: bool | None
    """True if the receiver succeeded, False if it failed, None if it does not count, as after a cancellation."""
    began: float
    """When it was offered, in seconds since the epoch."""
    breaker: CircuitBreaker
    """The circuit breaker that counts it."""


def admitted(circuit: Circuit, handoff: str, at: float) -> Circuit | Tripped:
    """The circuit after this handoff is offered to its receiver, or Tripped if it must not be offered."""
    if circuit.opened_at is None or handoff == circuit.probe:
        return circuit
    if circuit.until is None or at < circuit.until:
        return Tripped(circuit.receiver, circuit.failures, circuit.until, circuit.opened_at)
    # If the probe never reports, because its process dies, the next one is let through after another cool-down.
    return replace(circuit, probe=handoff, until=at + circuit.cooldown)


def noted(circuit: Circuit, ended: Ended, at: float) -> Circuit:
    """The circuit after the end of this handoff; the same object if nothing changes."""
    if circuit.opened_at is not None:
        return circuit if circuit.forced else _probed(circuit, circuit.opened_at, ended, at)
    if ended.ok is None or ended.began < circuit.closed_at:
        return circuit
    if ended.ok:
        return replace(circuit, failures=0) if circuit.failures else circuit
    failures, breaker = circuit.failures + 1, ended.breaker
    if failures < breaker.threshold:
        return replace(circuit, failures=failures)
    times = {"opened_at": at, "until": at + breaker.cooldown, "cooldown": breaker.cooldown}
    return replace(circuit, failures=failures, openings=circuit.openings + 1, **times)


def _probed(circuit: Circuit, opened_at: float, ended: Ended, at: float) -> Circuit:
    """An open circuit after the end of a handoff: only probes count."""
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
    """The circuit after a successful probe, or a reset by a person."""
    return Circuit(circuit.receiver, openings=circuit.openings, closed_at=at)


def forced(circuit: Circuit, at: float) -> Circuit:
    """The circuit after a person opened it: it stays open until it is reset."""
    since = at if circuit.opened_at is None else circuit.opened_at
    return replace(circuit, opened_at=since, until=None, probe="", forced=True)


def breaker_among(guards: Iterable[Guard]) -> CircuitBreaker | None:
    """The first circuit breaker of these guards."""
    for guard in guards:
        if isinstance(guard, CircuitBreaker):
            return guard
    return None


def open_words(tripped: Tripped) -> str:
    """Why handoffs to a receiver are refused, for the sender."""
    if tripped.until is None:
        return f"the circuit of {tripped.receiver} was opened by hand, and stays open until it is reset"
    times = "1 failure" if tripped.failures == 1 else f"{tripped.failures} failures in a row"
    when = f"{dated(ceil(tripped.until)):%Y-%m-%d %H:%M:%S} UTC"
    return f"the circuit of {tripped.receiver} is open after {times}; it is tried again at {when}"
