"""What the circuits of receivers say to an entry, and what it changes of them."""

from __future__ import annotations

from collections.abc import Mapping

from changeover.errors import CircuitsOpen
from changeover.guards.breaker import Circuit, admitted, noted
from changeover.guards.guard import Tripped
from changeover.relay.ports import Circuits

Known = Mapping[str, Circuit]
"""Circuits by their receivers; one that is not there was never heard of."""


def weighed(known: Known, circuits: Circuits, at: float) -> tuple[dict[str, Circuit], CircuitsOpen | None]:
    """The circuits that change once an entry is recorded, and why it cannot be, if it cannot. First counts what is over
    with it, then what it offers: who has just shown that it works is asked."""
    changed: dict[str, Circuit] = {}
    tripped: list[tuple[str, str, int, float | None]] = []
    for ended in circuits.ended:
        before = changed.get(who := ended.receiver) or known.get(who)
        # Who never failed, and does not now, is the common case.
        if before is not None or ended.ok is False:
            _keep(changed, before, noted(before or Circuit(who), ended, at))
    for handoff, receiver in circuits.offers:
        before = changed.get(receiver) or known.get(receiver)
        after = None if before is None else admitted(before, handoff, at)
        if isinstance(after, Tripped):
            tripped.append((handoff, after.receiver, after.failures, after.until))
        elif after is not None:
            _keep(changed, before, after)
    return changed, CircuitsOpen(tripped) if tripped else None


def _keep(changed: dict[str, Circuit], before: Circuit | None, after: Circuit) -> None:
    if after is not before:
        changed[after.receiver] = after
