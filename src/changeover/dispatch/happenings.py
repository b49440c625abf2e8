"""Happenings: what goes on in the team's own conversations, as events of the bus."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from changeover.bus.event import matches
from changeover.bus.subscription import Subscription
from changeover.dispatch.bus import Bus
from changeover.dispatch.starter import is_of_a_happening
from changeover.errors import ChangeoverError
from changeover.ids import is_root, run_id
from changeover.relay.events import ApprovalRequested, HandoffRejected, RunCompleted, RunFailed, Unreadable
from changeover.relay.ports import Log
from changeover.relay.projection.changes import may_blame
from changeover.relay.stream import Recorded

logger = logging.getLogger("changeover.bus")

REJECTED, WAITING = "changeover.handoff.rejected", "changeover.approval.waiting"
OPENED = "changeover.breaker.opened"
COMPLETED, FAILED = "changeover.run.completed", "changeover.run.failed"
TYPES = (REJECTED, WAITING, OPENED, COMPLETED, FAILED)


def wants_happenings(subscription: Subscription) -> bool:
    """True if a subscription may get what happens in the team's own conversations."""
    return isinstance(subscription.types, str) and any(matches(subscription.types, type) for type in TYPES)


class Happenings:
    """Publishes what happens, once it is recorded, under the id of the recorded event. It is an Observer: if the
    process dies right after it recorded something, that is not published."""

    def __init__(self, bus: Bus, log: Callable[[], Log]) -> None:
        self._bus, self._log = bus, log

    def ready(self, recorded: Sequence[Recorded]) -> bool:
        """True if there is nothing to publish."""
        return not any(_happening(record) is not None or _may_open(record) for record in recorded)

    async def noticed(self, recorded: Sequence[Recorded]) -> None:
        """Publish what subscribers may want of these events."""
        for record in recorded:
            # What a happening started would otherwise start itself again and again.
            if is_of_a_happening(record.conversation):
                continue
            if (found := _happening(record)) is not None:
                await self._publish(*found, record.id, record.conversation)
            if _may_open(record):
                await self._opened(record.conversation)

    async def _opened(self, conversation: str) -> None:
        for circuit in await self._log().breakers.listed():
            if circuit.opened_at is not None:
                told = {"receiver": circuit.receiver, "failures": circuit.failures, "until": circuit.until}
                await self._publish(OPENED, told, f"{circuit.receiver}@{circuit.opened_at!r}", conversation)

    async def _publish(self, type: str, data: dict[str, Any], key: str, conversation: str) -> None:
        try:
            source = f"conversations/{conversation}" if type != OPENED else "breakers"
            await self._bus.publish_wanted(type, data, key=f"{type} {key}", source=source)
        except ChangeoverError as error:
            logger.warning("%s was not published: %s", type, error)


def _may_open(record: Recorded) -> bool:
    """True if the event may have opened a circuit."""
    return not isinstance(record.event, Unreadable) and may_blame([record.event])


def _happening(record: Recorded) -> tuple[str, dict[str, Any]] | None:
    """The type and the data of what a recorded event means; None if subscribers are told nothing of it."""
    where = {"conversation": record.conversation, "agent": record.agent}
    match record.event:
        case HandoffRejected(receiver=receiver, reason=reason, by=by):
            handoff = record.handoff.id if record.handoff else ""
            return REJECTED, {**where, "handoff": handoff, "receiver": receiver, "reason": reason, "by": by}
        case ApprovalRequested() as asked:
            told = {"kind": asked.kind, "tool": asked.tool, "receiver": asked.receiver, "message": asked.message}
            return WAITING, {**where, "call": asked.call, **told, "roles": list(asked.roles)}
        case RunCompleted(run=run, output=output) if is_root(record.conversation):
            return COMPLETED, {**where, "run": run_id(record.conversation, run), "output": output}
        case RunFailed(run=run, fault=fault) if is_root(record.conversation):
            return FAILED, {**where, "run": run_id(record.conversation, run), "fault": msgspec.to_builtins(fault)}
        case _:
            return None
