"""Watches: lists as they change. A client gets a snapshot, then each item that is new, changed or gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from changeover.errors import EngineError
from changeover.observe.metrics import AgentMetrics
from changeover.relay.ports.lists import ApprovalRow, ConversationRow, TaskRow
from changeover.server.access import Caller
from changeover.server.live import Frame, Outbox
from changeover.server.resource import visible
from changeover.server.resources.tickets import waiting_tickets
from changeover.team import Team

logger = logging.getLogger("changeover.server")

EVERY = 1.0
"""Seconds between two looks at a list that is watched."""
MOST_ITEMS = 200
DAY = 24 * 3600.0

Items = dict[str, bytes]
"""The items of a list as JSON, by id, in order."""


class Figures(Struct, frozen=True):
    """The metrics of an agent over the last day; those of the whole team have an empty id."""

    id: str
    metrics: AgentMetrics


class Declared(Struct, frozen=True):
    """The current version of a declaration, without its document."""

    kind: str
    name: str
    version: int
    state: str
    by: str


class Step(Struct, frozen=True):
    """The state of an event, or of its delivery to one subscriber."""

    event: str
    subscriber: str = ""
    state: str = ""
    attempts: int = 0


class ScheduleState(Struct, frozen=True):
    """The state of a schedule."""

    name: str
    paused: bool
    last_event: str


class Snapshot(Struct, frozen=True):
    """The snapshot of a list."""

    list: str
    items: Sequence[msgspec.Raw]
    at: float


class Change(Struct, frozen=True):
    """An item that is new or has changed."""

    list: str
    item: msgspec.Raw


class Gone(Struct, frozen=True):
    """An item that is not in the list any more."""

    list: str
    id: str


async def _conversations(team: Team, who: Caller) -> list[tuple[str, Any]]:
    rows = await team.log.lists.listed(ConversationRow, visible(team, who, {}), limit=MOST_ITEMS, roots=True)
    return [(each.id, each) for each in rows]


async def _tasks(team: Team, who: Caller) -> list[tuple[str, Any]]:
    rows = await team.log.lists.listed(TaskRow, visible(team, who, {}), limit=MOST_ITEMS)
    return [(each.id, each) for each in rows]


async def _approvals(team: Team, who: Caller) -> list[tuple[str, Any]]:
    rows = await team.log.lists.listed(ApprovalRow, visible(team, who, {"status": "pending"}), limit=MOST_ITEMS)
    return [(each.id, each) for each in rows]


async def _queue(team: Team, who: Caller) -> list[tuple[str, Any]]:
    return [(each.ticket.id, each) for each in (await waiting_tickets(team, who))[:MOST_ITEMS]]


async def _bus(team: Team, who: Caller) -> list[tuple[str, Any]]:
    events = [(each.id, Step(each.id)) for each in await team.bus.events(limit=MOST_ITEMS)]
    deliveries = await team.log.outbox.deliveries(team.name, [id for id, _ in events])
    steps = [Step(each.event.id, each.subscriber, each.state, each.attempts) for each in deliveries]
    return [*events, *((f"{each.event} {each.subscriber}", each) for each in steps)]


async def _schedules(team: Team, who: Caller) -> list[tuple[str, Any]]:
    known = [ScheduleState(each.schedule.name, each.paused, each.last_event) for each in await team.schedules.list()]
    return [(each.name, each) for each in known]


async def _metrics(team: Team, who: Caller) -> list[tuple[str, Any]]:
    found = await team.metrics(DAY)
    return [("", Figures("", found.totals)), *((id, Figures(id, each)) for id, each in found.agents.items())]


async def _declarations(team: Team, who: Caller) -> list[tuple[str, Any]]:
    rows = await team.declarations.listed(include_removed=True)
    return [
        (f"{each.kind}/{each.name}", Declared(each.kind, each.name, each.version, each.state, each.by)) for each in rows
    ]


LISTS: dict[str, Callable[[Team, Caller], Awaitable[list[tuple[str, Any]]]]] = {
    "conversations": _conversations,
    "tasks": _tasks,
    "approvals": _approvals,
    "queue": _queue,
    "bus": _bus,
    "schedules": _schedules,
    "metrics": _metrics,
    "declarations": _declarations,
}
"""What can be watched: the items of each list, as a caller sees them."""


class Watch:
    """Looks at one list for all clients that see the same items."""

    def __init__(self, team: Team, name: str, who: Caller) -> None:
        self._team, self._name, self._who = team, name, who
        self._items: Items | None = None
        self._outboxes: list[Outbox] = []
        self._task = asyncio.ensure_future(self._look_repeatedly())

    @property
    def is_watched(self) -> bool:
        return bool(self._outboxes)

    def join(self, outbox: Outbox) -> None:
        """Give a client the snapshot, now or when there is one, and then what changes."""
        self._outboxes.append(outbox)
        if self._items is not None:
            outbox.put(self._snapshot(self._items))

    def leave(self, outbox: Outbox) -> None:
        self._outboxes.remove(outbox)

    def close(self) -> None:
        self._task.cancel()

    async def _look_repeatedly(self) -> None:
        while True:
            try:
                found = await LISTS[self._name](self._team, self._who)
                items = {id: msgspec.json.encode(item) for id, item in found}
                frames = self._changes(self._items, items)
                self._items = items
                for outbox in self._outboxes:
                    for frame in frames:
                        outbox.put(frame)
            except EngineError as error:
                logger.warning("the list of %s cannot be read; trying again: %s", self._name, error)
            except Exception:  # a watch that dies would leave its clients with an old list
                logger.exception("the list of %s cannot be sent; trying again", self._name)
            await asyncio.sleep(EVERY)

    def _changes(self, before: Items | None, after: Items) -> list[Frame]:
        if before is None:
            return [self._snapshot(after)]
        new = [Change(self._name, msgspec.Raw(item)) for id, item in after.items() if before.get(id) != item]
        gone = [Gone(self._name, id) for id in before if id not in after]
        return [
            *(Frame("change", msgspec.json.encode(each)) for each in new),
            *(Frame("gone", msgspec.json.encode(each)) for each in gone),
        ]

    def _snapshot(self, items: Items) -> Frame:
        whole = Snapshot(self._name, [msgspec.Raw(each) for each in items.values()], self._team.clock.now())
        return Frame("snapshot", msgspec.json.encode(whole))


class Watches:
    """The lists that clients of a server watch."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._watches: dict[tuple[str, str | None], Watch] = {}

    @contextmanager
    def watching(self, outbox: Outbox, name: str, who: Caller) -> Iterator[None]:
        """Send a list to a client for as long as it watches it."""
        key = name, None if who.sees_all else who.user
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = Watch(self._team, name, who)
        watch.join(outbox)
        try:
            yield
        finally:
            watch.leave(outbox)
            if not watch.is_watched:
                del self._watches[key]
                watch.close()
