"""Happenings: what an entry records, as events of the bus for subscribers to the team's own conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from changeover.bus.delivery import Publication
from changeover.bus.event import BusEvent, short_key
from changeover.bus.subscription import Subscription
from changeover.faults import Circuit
from changeover.ids import handoff_id, is_of_happening, is_root, run_id
from changeover.relay.events import (
    ApprovalRequested,
    Entry,
    Event,
    HandoffRejected,
    RunCompleted,
    RunFailed,
    Unreadable,
)
from changeover.relay.fold.approvals import request_of
from changeover.relay.history import agent_after
from changeover.relay.ports.log import Circuits
from changeover.relay.sanitize import whole
from changeover.relay.state import State

REJECTED, WAITING = "changeover.handoff.rejected", "changeover.approval.waiting"
OPENED = "changeover.breaker.opened"
COMPLETED, FAILED = "changeover.run.completed", "changeover.run.failed"
LONGEST = 100_000
"""Number of characters of an output that an event holds; the conversation has the rest."""


class Happenings(Struct, frozen=True):
    """Makes the events that tell the subscribers of a team what happens in its conversations."""

    team: str
    subscriptions: Sequence[Subscription]
    new_id: Callable[[], str]

    def of(self, entry: Entry, agent: str, state: State) -> list[Publication]:
        """The events of an entry; `agent` was active before it, and `state` is the one after it."""
        found: list[Publication] = []
        # A conversation that a happening started publishes none: it would start itself again and again.
        if is_of_happening(entry.conversation):
            return found
        for event in entry.events:
            if (told := _told(event, entry, state)) is not None:
                data = {"conversation": entry.conversation, "agent": agent, **told[1]}
                found += self._wanted(told[0], data, f"conversations/{entry.conversation}", entry.at)
            agent = agent_after(event, agent)
        return found

    def reported(self, entry: Entry, circuits: Circuits) -> Circuits:
        """What an entry reports to the circuit breakers; the store then publishes an event if a circuit opens."""
        return circuits if is_of_happening(entry.conversation) else replace(circuits, tell=self._opened)

    def _opened(self, circuit: Circuit, at: float) -> Publication | None:
        """The event of a circuit that opened; None if no subscriber wants it."""
        data = {"receiver": circuit.receiver, "failures": circuit.failures, "until": circuit.until}
        return next(iter(self._wanted(OPENED, data, "breakers", at)), None)

    def _wanted(self, type: str, data: Mapping[str, Any], source: str, at: float) -> list[Publication]:
        if not any(each.names(type) for each in self.subscriptions):
            return []
        event = BusEvent(id=self.new_id(), at=at, type=type, source=short_key(source), data=whole(dict(data)))
        names = [each.id for each in self.subscriptions if each.wants(event)]
        return [Publication(self.team, event, names)] if names else []


def _told(event: Event | Unreadable, entry: Entry, state: State) -> tuple[str, dict[str, Any]] | None:
    """The type and the data of the bus event for a recorded event; None if there is none."""
    conversation = entry.conversation
    match event:
        case HandoffRejected(call=call, receiver=receiver, reason=reason, by=by):
            handoff = handoff_id(conversation, call)
            return REJECTED, {"handoff": handoff, "receiver": receiver, "reason": reason, "by": by}
        case ApprovalRequested() as asked:
            names = {"approval": request_of(conversation, asked, entry.at).id, "call": asked.call}
            told = {"kind": asked.kind, "tool": asked.tool, "receiver": asked.receiver, "message": asked.message}
            return WAITING, {**names, **told, "roles": list(asked.roles)}
        case RunCompleted(run=run) if is_root(conversation):
            outcome = state.outcomes.get(run)
            return COMPLETED, {"run": run_id(conversation, run), "output": outcome.output[:LONGEST] if outcome else ""}
        case RunFailed(run=run, fault=fault) if is_root(conversation):
            return FAILED, {"run": run_id(conversation, run), "fault": msgspec.to_builtins(fault)}
        case _:
            return None
