"""Schedule: work that starts at set times, and the arithmetic of its due times, also where clocks change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, TypeAlias, get_args

from changeover.bus.event import BusEvent, made_event, template_faults
from changeover.bus.subscription import Subscription, priority_faults, target_faults
from changeover.errors import MisconfiguredError
from changeover.ids import SLUG

Missed: TypeAlias = Literal["run_once", "skip"]
Overlap: TypeAlias = Literal["skip", "queue"]

DUE = "changeover.schedule.due"
"""The type of the event that a schedule stores for each due time."""
AFTER = "after"
"""The attribute of such an event with the id of the event before, whose work has to end first."""
GRACE = 60.0
"""A due time that no process has handled after this many seconds is missed."""
WINDOWS = (3600.0, 86_400.0, 40 * 86_400.0)
"""How far back the last due time is looked for, step by step: a schedule may be due every minute or once a year."""


@dataclass(frozen=True)
class Emit:
    """An event to publish: its `type`, its `data` and its `source`."""

    type: str
    data: Any = None
    _: KW_ONLY
    source: str = ""


@dataclass(frozen=True)
class Schedule:
    """Work that starts at set times.

    - `name`: letters, digits, '-' and '_', at most 64.
    - `cron`: minute, hour, day of the month, month and day of the week, such as "0 7 * * 1" for Mondays at seven.
    - `start`: the id of an agent, Specialist(…), a workflow or its id, Emit(…) to publish an event, or a function.
    - `timezone`: the time zone that the hours are in, such as "Europe/Berlin". An hour that clocks skip in spring still
      has its start, and an hour that they repeat in autumn has one.
    - `missed`: if no process ran at a due time, "run_once" starts once for all missed due times; "skip" starts nothing.
    - `overlap`: if the work of the last start is still under way, "skip" leaves the due time out, and "queue" starts
      when that work has ended.
    - `task`: what an agent is to do. `data`: given to what starts. `priority`: of a handoff.
    """

    name: str
    _: KW_ONLY
    cron: str
    start: Any
    timezone: str = "UTC"
    missed: Missed = "run_once"
    overlap: Overlap = "skip"
    task: str = ""
    data: Any = None
    priority: str | int = "normal"

    @property
    def plan(self) -> str:
        """The cron expression and the time zone, on which its due times depend."""
        return f"{self.cron} {self.timezone}"

    @property
    def subscriber(self) -> str:
        """The name under which its deliveries are stored."""
        return f"schedule {self.name}"

    @property
    def subscription(self) -> Subscription:
        """The subscription that hands its due times to what it starts."""
        task = self.task or f"The schedule {self.name} is due."
        return Subscription(DUE, to=self.start, task=task, priority=self.priority, name=self.subscriber, concurrency=1)

    def runs_after(self, at: float) -> Iterator[float]:
        """Its due times after the time `at`, in order."""
        from zoneinfo import ZoneInfo

        from cronsim import CronSim

        found = CronSim(self.cron, datetime.fromtimestamp(at, ZoneInfo(self.timezone)))
        # In the hour that clocks repeat, it may begin with a time that has passed.
        return (due for each in found if (due := each.timestamp()) > at)

    def next_runs(self, at: float, count: int = 1) -> list[float]:
        """Its next `count` due times after the time `at`; fewer if there are no more in 50 years."""
        return list(islice(self.runs_after(at), count))

    def due(self, handled: float, now: float) -> float | None:
        """Its last due time after `handled` and not after `now`; None if there is none."""
        for start in (max(handled, now - window) for window in (*WINDOWS, now - handled)):
            last = None
            for each in self.runs_after(start):
                if each > now:
                    break
                last = each
            if last is not None or start == handled:
                return last
        return None

    def event(self, team: str, due: float, now: float, after: str = "", manual: str = "") -> BusEvent:
        """The event for the due time `due` in a `team`, made `now`. `after` is the id of the event of the start before;
        `manual` is an id for a start by hand."""
        told = {"schedule": self.name, "due": datetime.fromtimestamp(due, UTC).isoformat(), "manual": bool(manual)}
        data = {**told, **({} if self.data is None else {"data": self.data})}
        more = {AFTER: after} if after and self.overlap == "queue" else {}
        id = f"{team}.{self.name}.{manual or f'{due:.0f}'}"
        return made_event(id, now, DUE, data, source=f"schedules/{self.name}", attributes=more)


def schedule_faults(declared: object, receivers: Collection[str] | None) -> list[str]:
    """The faults of the schedules of a team; `receivers` is as in `subscription_faults`."""
    if isinstance(declared, str) or not isinstance(declared, Sequence):
        return [f"schedules={declared!r} is not a list of Schedule(…)"]
    found = [f"{each!r} is not a Schedule(…)" for each in declared if not isinstance(each, Schedule)]
    sound = [each for each in declared if isinstance(each, Schedule)]
    for each in sound:
        found += [f"schedule {each.name!r} {fault}" for fault in _faults(each, receivers)]
    names = [each.name for each in sound]
    return found + [f"two schedules are called {name!r}" for name in dict.fromkeys(names) if names.count(name) > 1]


def _faults(declared: Schedule, receivers: Collection[str] | None) -> Iterator[str]:
    if not isinstance(declared.name, str) or not SLUG.fullmatch(declared.name):
        yield "has an unusable name; use letters, digits, '-' and '_', at most 64"
    yield from _time_faults(declared)
    for name, value, choices in (
        ("missed", declared.missed, get_args(Missed)),
        ("overlap", declared.overlap, get_args(Overlap)),
    ):
        if value not in choices:
            yield f"has {name}={value!r}; choose one of {', '.join(choices)}"
    if isinstance(declared.start, Emit):
        yield from _emit_faults(declared.start)
    else:
        yield from target_faults("start", declared.start, receivers)
    yield from template_faults(declared.task)
    yield from priority_faults(declared.priority)


def _emit_faults(emit: Emit) -> Iterator[str]:
    try:
        made_event("", 0.0, emit.type, emit.data, source=emit.source)
    except MisconfiguredError as error:
        yield from (f"has start=Emit(…): {fault}" for fault in error.faults)


def _time_faults(declared: Schedule) -> Iterator[str]:
    from zoneinfo import ZoneInfo

    from cronsim import CronSim, CronSimError

    try:
        CronSim(declared.cron, datetime(2000, 1, 1, tzinfo=UTC))
    except (CronSimError, AttributeError, ValueError) as error:
        yield f"has cron={declared.cron!r}, which is no cron expression ({error}); '0 7 * * 1' is Mondays at 7:00"
    try:
        ZoneInfo(declared.timezone)
    except (KeyError, ValueError, TypeError, OSError):
        yield f"has timezone={declared.timezone!r}, which this machine does not know; 'Europe/Berlin' is one"
