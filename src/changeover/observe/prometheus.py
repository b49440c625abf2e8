"""Prometheus: the figures of a team as GET /metrics gives them to a scraper; needs prometheus-client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from changeover.facts import ApprovalRequest
from changeover.observe.metrics import Metrics
from changeover.observe.readings import READINGS, SPREADS, Snapshot
from changeover.observe.sums import ending_of
from changeover.relay.ports.health import Spread
from changeover.relay.ports.tables import Course

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
"""Upper bounds of the histograms, in seconds: a person or a worker may take hours."""


class Scrape(Struct, frozen=True):
    """The data of a team that a scrape reads."""

    metrics: Metrics
    courses: Sequence[Course]
    approvals: Sequence[ApprovalRequest]
    snapshot: Snapshot


def exposition(scrape: Scrape) -> bytes:
    """The figures in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class Found(Collector):
        def collect(self) -> Iterable[Metric]:
            return families(scrape)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Found())
    return generate_latest(registry)


def families(scrape: Scrape) -> list[Metric]:
    """All figures, each under its name."""
    return [*_handoffs(scrape), *_expenses(scrape), *_approvals(scrape), *_readings(scrape.snapshot)]


def _handoffs(scrape: Scrape) -> list[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    named = scrape.snapshot.named
    ended, opened = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for course in scrape.courses:
        pair, outcome = (named(course.sender), named(course.receiver), course.mode), ending_of(course)
        if outcome == "open":
            opened[pair] += 1
        else:
            ended[*pair, outcome] += 1
    by = ["sender", "receiver", "mode"]
    found: list[Metric] = [
        _filled(CounterMetricFamily("changeover_handoffs", "Handoffs that ended.", labels=[*by, "outcome"]), ended),
        _filled(GaugeMetricFamily("changeover_handoffs_open", "Handoffs under way.", labels=by), opened),
    ]
    accepted = [(each, each.accepted_at) for each in scrape.courses if each.accepted_at is not None]
    latency = [(each.receiver, at - each.offered_at) for each, at in accepted]
    work = [(each.receiver, each.ended_at - at) for each, at in accepted if each.ended_at is not None]
    return [
        *found,
        _histogram("changeover_handoff_latency_seconds", "From offer to acceptance.", _by_receiver(latency, scrape)),
        _histogram("changeover_handoff_work_seconds", "From acceptance to the end.", _by_receiver(work, scrape)),
    ]


def _expenses(scrape: Scrape) -> list[Metric]:
    from prometheus_client.core import CounterMetricFamily

    named = scrape.snapshot.named
    tokens, turns, retries = (Counter[tuple[str, ...]]() for _ in range(3))
    openings, costs = Counter[tuple[str, ...]](), dict[tuple[str, ...], float]()
    for name, agent in scrape.metrics.agents.items():
        tokens[named(name), "input"] += agent.input_tokens
        tokens[named(name), "output"] += agent.output_tokens
        turns[named(name),] += agent.turns
        retries[named(name),] += agent.retries
        openings[named(name),] += agent.breaker_openings
        if agent.cost is not None:
            costs[named(name),] = costs.get((named(name),), 0.0) + agent.cost
    by = ["agent"]
    return [
        _filled(CounterMetricFamily("changeover_tokens", "Tokens of ended runs.", labels=["agent", "type"]), tokens),
        _filled(CounterMetricFamily("changeover_cost_dollars", "Known cost of ended runs.", labels=by), costs),
        _filled(CounterMetricFamily("changeover_model_replies", "Replies of models.", labels=by), turns),
        _filled(CounterMetricFamily("changeover_model_retries", "Retried calls of models.", labels=by), retries),
        _filled(CounterMetricFamily("changeover_breaker_openings", "Circuits that opened.", labels=by), openings),
    ]


def _approvals(scrape: Scrape) -> list[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    asked = max((scrape.snapshot.now - each.at for each in scrape.approvals), default=0.0)
    return [
        GaugeMetricFamily("changeover_approvals_waiting", "Requests that wait for a person.", len(scrape.approvals)),
        GaugeMetricFamily("changeover_approval_oldest_seconds", "Age of the oldest request.", asked),
    ]


def _readings(snapshot: Snapshot) -> list[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
    values = snapshot.values()
    found = [
        _filled(kinds[each.kind](_name(name, each.unit), each.about, labels=each.labels), values[name])
        for name, each in READINGS.items()
    ]
    spreads = [
        _histogram(_name(name, unit), about, {(): spread(snapshot.traffic)})
        for name, (about, unit, spread) in SPREADS.items()
    ]
    return [*found, *spreads]


def _name(name: str, unit: str) -> str:
    return f"changeover_{name.replace('.', '_')}{'_seconds' if unit == 's' else ''}"


def _filled(family: Metric, figures: Mapping[tuple[str, ...], float]) -> Metric:
    for labels, figure in sorted(figures.items()):
        family.add_metric(list(labels), figure)  # type: ignore[attr-defined]
    return family


def _by_receiver(values: Iterable[tuple[str, float]], scrape: Scrape) -> dict[tuple[str, ...], Spread]:
    found: dict[tuple[str, ...], Spread] = {}
    for receiver, value in values:
        found.setdefault((scrape.snapshot.named(receiver),), Spread(BUCKETS)).add(value)
    return found


def _histogram(name: str, about: str, spreads: Mapping[tuple[str, ...], Spread]) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    by = ["receiver"] if () not in spreads else []
    family = HistogramMetricFamily(name, about, labels=by)
    for labels, spread in sorted(spreads.items()):
        bounds = [*(str(bound) for bound in spread.bounds), "+Inf"]
        sums = accumulate(spread.counts)
        family.add_metric(list(labels), list(zip(bounds, sums, strict=True)), spread.total)
    return family
