"""BusConsole and ScheduleConsole: events and schedules as the command line, the API and pages show and control them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from changeover.bus.views import (
    DeadLetter,
    EventView,
    ScheduleView,
    SubscriberView,
    dead_letter,
    event_view,
    schedule_view,
    subscriber_view,
)
from changeover.dispatch.bus import Bus
from changeover.dispatch.scheduler import Schedules, ScheduleStatus
from changeover.relay.ports.world import World

RUNS = 5
"""How many next runs of one schedule are shown."""


class BusConsole:
    """Implements BusCalls with the bus of a team."""

    def __init__(self, bus: Bus, world: Callable[[], Awaitable[World]]) -> None:
        self._bus, self._world = bus, world

    async def publish(self, type: str, data: Any, key: str, source: str, subject: str) -> str:
        return await self._bus.publish(type, data, key=key or None, source=source or None, subject=subject or None)

    async def events(self, type: str, before: str, limit: int) -> list[EventView]:
        found = await self._bus.events(type=type, before=before, limit=limit)
        return [event_view(each, each.deliveries) for each in await self._bus.records([each.id for each in found])]

    async def event(self, id: str) -> EventView | None:
        found = await self._bus.event(id)
        return event_view(found, found.deliveries) if found else None

    async def dead_letters(self, limit: int) -> list[DeadLetter]:
        return [dead_letter(each) for each in await self._bus.dead_letters(limit=limit)]

    async def subscribers(self) -> list[SubscriberView]:
        behind = {each.subscriber: each for each in await self._bus.backlog()}
        world = await self._world()
        return [subscriber_view(each, behind.get(each.id), world.roster.workflows) for each in world.subscriptions]

    async def resend(self, event: str, subscriber: str) -> int:
        return await self._bus.resend(event, subscriber=subscriber)


class ScheduleConsole:
    """Implements ScheduleCalls with the schedules of a team."""

    def __init__(self, schedules: Schedules, bus: Bus, world: Callable[[], Awaitable[World]]) -> None:
        self._schedules, self._bus, self._world = schedules, bus, world
        self.run, self.pause, self.resume = schedules.run, schedules.pause, schedules.resume

    async def all(self) -> list[ScheduleView]:
        return await self._views(await self._schedules.list())

    async def one(self, name: str) -> ScheduleView:
        [view] = await self._views([await self._schedules.show(name, runs=RUNS)])
        return view

    async def _views(self, found: Sequence[ScheduleStatus]) -> list[ScheduleView]:
        last = {each.id: each for each in await self._bus.records([each.last_event for each in found])}
        views = {id: event_view(each, each.deliveries) for id, each in last.items()}
        workflows = (await self._world()).roster.workflows
        return [
            schedule_view(each.schedule, each.paused, each.next_runs, views.get(each.last_event), workflows)
            for each in found
        ]
