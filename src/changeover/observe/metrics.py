"""Metrics of handoffs in a window of time, by agent and by pair; those of workflows by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import fsum, inf, isfinite
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from changeover.errors import MisconfiguredError
from changeover.observe.periods import Period, Periods
from changeover.observe.step_metrics import Place, StepMetrics, step_metrics
from changeover.observe.sums import Sum, Times
from changeover.relay.ports.tables import Expenses, Measures, Opened, Refused

Window = float | timedelta | None
"""How far back to count: seconds or a timedelta; None counts everything."""

Pair = tuple[str, str]
"""Sender and receiver."""

COUNTED = ("runs", "turns", "retries", "input_tokens", "output_tokens")


class PairMetrics(Struct, frozen=True, kw_only=True):
    """Counts and durations of the handoffs from one agent to another."""

    count: int = 0
    """Handoffs offered; each is counted in exactly one of the next six fields."""
    done: int = 0
    failed: int = 0
    rejected: int = 0
    timeouts: int = 0
    withdrawn: int = 0
    """Cancelled, rolled back, or returned because context was missing."""
    open: int = 0
    success_rate: float | None = None
    """Share of `done` in done, failed, rejected and timeouts; None if there are none."""
    latency: Times = Times()
    """From offer to acceptance."""
    work_time: Times = Times()
    """From acceptance to the end."""
    tokens_before: int = 0
    """Tokens of the senders' contexts."""
    tokens_after: int = 0
    """Tokens that were handed over."""
    refused: int = 0
    """Handoffs that a guard, a condition or a rule refused before they were offered."""
    deadlocks: int = 0
    """Refused handoffs that would have formed a cycle."""


class AgentMetrics(PairMetrics, frozen=True, kw_only=True):
    """Metrics of the handoffs to an agent, and what the agent spent. `refused` counts handoffs from this agent."""

    sent: int = 0
    """Handoffs that this agent offered."""
    runs: int = 0
    """Ended runs in which this agent worked. The fields below count these runs too."""
    turns: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tokens: int = 0
    cost: float | None = 0.0
    """US dollars; None if the price of any call is unknown."""
    breaker_openings: int = 0


class Metrics(Struct, frozen=True, kw_only=True):
    """Metrics of a team in a window of time: after `since`, up to and including `until`."""

    since: float | None
    """None if the window is unbounded."""
    until: float
    agents: dict[str, AgentMetrics]
    pairs: dict[Pair, PairMetrics]
    """By sender and receiver."""
    totals: AgentMetrics
    depths: dict[int, int] = {}
    """Number of runs, by the number of their handoffs. Runs of delegates are parts of other runs, and do not count."""
    limits: dict[str, int] = {}
    """Number of conversations that reached a limit, by its name."""
    steps: dict[Place, StepMetrics] = {}
    """The steps of workflows, by workflow and step."""
    periods: tuple[Period, ...] = ()
    """The handoffs of the window by the time of their offers, in equal periods without gaps."""


def window_of(window: Window, now: float) -> tuple[float, float]:
    """Start and end of a window; raises MisconfiguredError if it is not a positive duration."""
    if window is None:
        return -inf, now
    seconds = window.total_seconds() if isinstance(window, timedelta) else window
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds) or seconds <= 0:
        raise MisconfiguredError(f"window={window!r} is not a length of time; give seconds above 0, or a timedelta")
    return now - seconds, now


async def measured(measures: Measures, since: float, until: float) -> Metrics:
    """The metrics of the window after `since`, up to and including `until`."""
    sums: defaultdict[Pair, Sum] = defaultdict(Sum)
    periods = Periods(since, until)
    async for page in measures.courses(since, until):
        for course in page:
            sums[course.sender, course.receiver].add(course)
            periods.add(course)
    refused = await measures.refused(since, until)
    spent = await measures.expenses(since, until)
    opened = await measures.opened(since, until)
    counted = Count(sums, refused, spent, opened).metrics(since, until)
    depths = {each.handoffs: each.runs for each in await measures.depths(since, until)}
    limits = {each.limit: each.count for each in await measures.limits(since, until)}
    steps = await step_metrics(measures, since, until)
    return replace(counted, depths=depths, limits=limits, steps=steps, periods=periods.all())


class Count:
    """Computes metrics by agent and by pair from what the store returned."""

    def __init__(
        self,
        sums: Mapping[Pair, Sum],
        refused: Sequence[Refused],
        spent: Sequence[Expenses],
        opened: Sequence[Opened],
    ) -> None:
        self._sums, self._refused, self._spent, self._opened = sums, refused, spent, opened

    def metrics(self, since: float, until: float) -> Metrics:
        pairs = {*self._sums, *((each.sender, each.receiver) for each in self._refused)}
        named = {name for pair in pairs for name in pair}
        named |= {each.agent for each in self._spent} | {each.receiver for each in self._opened}
        return Metrics(
            since=since if isfinite(since) else None,
            until=until,
            agents={name: self._agent(name) for name in sorted(named - {""})},
            pairs={pair: self._pair(*pair) for pair in sorted(pairs) if pair[1]},
            totals=self._agent(None),
        )

    def _pair(self, sender: str, receiver: str) -> PairMetrics:
        refused = [each for each in self._refused if (each.sender, each.receiver) == (sender, receiver)]
        sums = self._sums.get((sender, receiver), Sum())
        return PairMetrics(**sums.figures(), **_refusals(refused))

    def _agent(self, name: str | None) -> AgentMetrics:
        """The metrics of one agent; of all agents if `name` is None."""
        received = Sum()
        for (_, receiver), each in self._sums.items():
            if name in (None, receiver):
                received.merge(each)
        return AgentMetrics(
            **received.figures(),
            **_refusals([each for each in self._refused if name in (None, each.sender)]),
            **_expenses([each for each in self._spent if name in (None, each.agent)]),
            sent=sum(each.count for (sender, _), each in self._sums.items() if name in (None, sender)),
            breaker_openings=sum(each.count for each in self._opened if name in (None, each.receiver)),
        )


def _refusals(refused: Sequence[Refused]) -> dict[str, Any]:
    return {
        "refused": sum(each.count for each in refused),
        "deadlocks": sum(each.count for each in refused if each.deadlock),
    }


def _expenses(spent: Sequence[Expenses]) -> dict[str, Any]:
    counted = {name: sum(getattr(each, name) for each in spent) for name in COUNTED}
    costs = [each.cost for each in spent if each.cost is not None]
    cost = fsum(costs) if len(costs) == len(spent) else None
    return {**counted, "tokens": counted["input_tokens"] + counted["output_tokens"], "cost": cost}
