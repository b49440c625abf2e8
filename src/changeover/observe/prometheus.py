"""Prometheus: the figures of a team as GET /metrics gives them to a scraper; needs prometheus-client."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from changeover.facts import ApprovalRequest
from changeover.faults import Circuit
from changeover.observe.metrics import Metrics
from changeover.observe.sums import ending_of
from changeover.relay.queue import Queued
from changeover.relay.tables import Course

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
"""Upper bounds of the histograms, in seconds: a person or a worker may take hours."""
Counted = dict[tuple[str, ...], float]
"""Figures by their labels."""
OTHER = "other"
"""The label of every name that is not one of a member of the team, so that there are few labels."""


class Scrape(Struct, frozen=True):
    """What a scrape reads of a team."""

    metrics: Metrics
    courses: Sequence[Course]
    tickets: Sequence[Queued]
    approvals: Sequence[ApprovalRequest]
    circuits: Sequence[Circuit]
    members: Collection[str]
    readers: int
    """Clients that read along."""
    now: float


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
    return [*_handoffs(scrape), *_expenses(scrape), *_waiting(scrape)]


def _handoffs(scrape: Scrape) -> list[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    named = _naming(scrape.members)
    ended, opened = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for course in scrape.courses:
        pair, outcome = (named(course.sender), named(course.receiver), course.mode), ending_of(course)
        if outcome == "open":
            opened[pair] += 1
        else:
            ended[*pair, outcome] += 1
    by = ["sender", "receiver", "mode"]
    refused, deadlocks = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for (sender, receiver), pair_metrics in scrape.metrics.pairs.items():
        refused[named(sender), named(receiver)] += pair_metrics.refused
        deadlocks[named(sender), named(receiver)] += pair_metrics.deadlocks
    limits: Counted = {(name,): count for name, count in scrape.metrics.limits.items()}
    found: list[Metric] = [
        _filled(CounterMetricFamily("changeover_handoffs", "Handoffs that ended.", labels=[*by, "outcome"]), ended),
        _filled(GaugeMetricFamily("changeover_handoffs_open", "Handoffs under way.", labels=by), opened),
        _filled(
            CounterMetricFamily("changeover_refusals", "Handoffs refused before an offer.", labels=by[:2]), refused
        ),
        _filled(CounterMetricFamily("changeover_deadlocks", "Refused cycles of handoffs.", labels=by[:2]), deadlocks),
        _filled(
            CounterMetricFamily("changeover_limits_reached", "Limits that were reached.", labels=["limit"]), limits
        ),
    ]
    accepted = [(each, each.accepted_at) for each in scrape.courses if each.accepted_at is not None]
    latency = [(each.receiver, at - each.offered_at) for each, at in accepted]
    work = [(each.receiver, each.ended_at - at) for each, at in accepted if each.ended_at is not None]
    found.append(_histogram("changeover_handoff_latency_seconds", "From offer to acceptance.", latency, named))
    found.append(_histogram("changeover_handoff_work_seconds", "From acceptance to the end.", work, named))
    return found


def _expenses(scrape: Scrape) -> list[Metric]:
    from prometheus_client.core import CounterMetricFamily

    named = _naming(scrape.members)
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


def _waiting(scrape: Scrape) -> list[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    named = _naming(scrape.members)
    waiting, claimed = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    oldest, again = dict[tuple[str, ...], float](), Counter[tuple[str, ...]]()
    for each in scrape.tickets:
        agent = (named(each.ticket.agent),)
        again[agent] += max(each.attempts - 1, 0)
        if each.owner:
            claimed[agent] += 1
        elif not each.rests:
            waiting[agent] += 1
            oldest[agent] = max(oldest.get(agent, 0.0), scrape.now - each.ticket.at)
    asked = max((scrape.now - each.at for each in scrape.approvals), default=0.0)
    states: Counted = {(named(each.receiver),): float(each.state != "closed") for each in scrape.circuits}
    by = ["agent"]
    return [
        _filled(GaugeMetricFamily("changeover_queue_depth", "Tickets that wait for a worker.", labels=by), waiting),
        _filled(GaugeMetricFamily("changeover_queue_claimed", "Tickets that workers hold.", labels=by), claimed),
        _filled(GaugeMetricFamily("changeover_queue_oldest_seconds", "Age of the oldest ticket.", labels=by), oldest),
        _filled(GaugeMetricFamily("changeover_queue_leases_lost", "Claims lost by open tickets.", labels=by), again),
        _filled(GaugeMetricFamily("changeover_breaker_open", "1 while a circuit is not closed.", labels=by), states),
        GaugeMetricFamily("changeover_approvals_waiting", "Requests that wait for a person.", len(scrape.approvals)),
        GaugeMetricFamily("changeover_approval_oldest_seconds", "Age of the oldest request.", asked),
        GaugeMetricFamily("changeover_stream_readers", "Clients that read along.", scrape.readers),
    ]


def _naming(members: Collection[str]) -> Callable[[str], str]:
    return lambda name: name if name in members else OTHER


def _filled(family: Metric, figures: Mapping[tuple[str, ...], float]) -> Metric:
    for labels, figure in sorted(figures.items()):
        family.add_metric(list(labels), figure)  # type: ignore[attr-defined]
    return family


def _histogram(name: str, about: str, values: Iterable[tuple[str, float]], named: Callable[[str], str]) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, about, labels=["receiver"])
    by: dict[str, list[float]] = {}
    for receiver, value in values:
        by.setdefault(named(receiver), []).append(value)
    for receiver, found in sorted(by.items()):
        counts = [0] * (len(BUCKETS) + 1)
        for value in found:
            counts[bisect_left(BUCKETS, value)] += 1
        bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
        sums = [sum(counts[: index + 1]) for index in range(len(counts))]
        family.add_metric([receiver], list(zip(bounds, sums, strict=True)), sum(found))
    return family
