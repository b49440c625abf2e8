"""Instruments: the figures of spans as OpenTelemetry metrics, and exporters by the standard environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from changeover.errors import MisconfiguredError
from changeover.facts import Usage
from changeover.observe import semconv as names
from changeover.observe.readings import READINGS, SPREADS, Watch

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

Labels = Mapping[str, str]
"""The attributes of a measurement."""

SCOPE = "changeover"
OF_HANDOFFS = (names.SENDER, names.RECEIVER, names.MODE, names.OUTCOME)
"""Attributes of handoffs that are labels: as many values as the team has members."""
ATTRIBUTES = {
    "agent": names.AGENT_ID,
    "sender": names.SENDER,
    "receiver": names.RECEIVER,
    "limit": names.LIMIT,
    "subscriber": names.SUBSCRIBER,
    "outcome": names.OUTCOME,
    "schedule": names.SCHEDULE,
}
"""The attributes by the labels of readings."""


WATCHES: WeakKeyDictionary[Any, list[Watch]] = WeakKeyDictionary()
"""The teams that are read for each provider of meters: a meter takes an instrument of one name only once."""


class Instruments:
    """Counts what spans tell: each figure comes from the span that has it."""

    def __init__(self, provider: MeterProvider | None) -> None:
        from opentelemetry import metrics

        self._provider = provider or metrics.get_meter_provider()
        meter = self._meter = self._provider.get_meter(SCOPE)
        self._runs = meter.create_counter(names.RUNS_METRIC, "{run}", "Runs that ended.")
        self._handoffs = meter.create_counter(names.HANDOFFS_METRIC, "{handoff}", "Handoffs that were answered.")
        self._latency = meter.create_histogram(names.LATENCY_METRIC, "s", "From the offer to the answer.")
        self._waits = meter.create_histogram(names.WAIT_METRIC, "s", "Waits for people and workers.")
        self._tokens = meter.create_histogram(names.TOKENS_METRIC, "{token}", "Tokens that a call read or wrote.")
        self._calls = meter.create_histogram(names.DURATION_METRIC, "s", "How long a call took.")
        self._cost = meter.create_counter(names.COST_METRIC, "USD", "Known cost of calls.")

    def watch(self, watch: Watch) -> None:
        """Let the meter read the figures that no span has, whenever it exports."""
        watches = WATCHES.get(self._provider)
        if watches is None:
            self._observe(watches := WATCHES.setdefault(self._provider, []))
        watches[:] = [*(each for each in watches if each.alive), watch]

    def _observe(self, watches: Sequence[Watch]) -> None:
        make = {"counter": self._meter.create_observable_counter, "gauge": self._meter.create_observable_gauge}
        for name, each in READINGS.items():
            make[each.kind](f"{SCOPE}.{name}", [_observer(watches, name, each.labels)], each.unit, each.about)
        for name, (about, unit, _) in SPREADS.items():  # no meter reads a histogram: its count and sum are counters
            make["counter"](f"{SCOPE}.{name}.count", [_observer(watches, f"{name}.count")], "", about)
            make["counter"](f"{SCOPE}.{name}.sum", [_observer(watches, f"{name}.sum")], unit, about)

    def count(self, attributes: Mapping[str, Any], seconds: float) -> None:
        """Count a run, a handoff or a wait that ended; an agent's leg is the sum of its calls."""
        match attributes.get(names.OPERATION):
            case names.INVOKE_AGENT:
                pass
            case names.HANDOFF:
                labels = {name: attributes[name] for name in OF_HANDOFFS if name in attributes}
                self._handoffs.add(1, labels)
                self._latency.record(seconds, labels)
            case None:
                self._runs.add(1, {names.STATUS: attributes[names.STATUS]})
            case wait:
                self._waits.record(seconds, {names.OPERATION: wait})

    def count_call(self, labels: Labels, seconds: float, usage: Usage | None) -> None:
        """Count a call of a model or a tool."""
        self._calls.record(seconds, labels)
        if usage is None:
            return
        if usage.total_tokens:
            for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                self._tokens.record(tokens, {**labels, names.TOKEN_TYPE: kind})
        if usage.cost:
            self._cost.add(usage.cost, labels)


def _observer(
    watches: Sequence[Watch], name: str, labels: tuple[str, ...] = ()
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    from opentelemetry.metrics import Observation

    by = [names.TEAM, *(ATTRIBUTES[label] for label in labels)]

    def observe(_: CallbackOptions) -> Iterable[Observation]:
        # Of teams with one name the last one counts: it may be the same team, set up again.
        found = {(watch.team, *at): value for watch in list(watches) for at, value in watch.values(name).items()}
        return [Observation(value, dict(zip(by, at, strict=True))) for at, value in found.items()]

    return observe


def providers_of_environment() -> tuple[Any, Any] | None:
    """A provider of tracers and one of meters that export as the standard environment variables say; None if these ask
    for no export. Raises MisconfiguredError if a library is missing or an exporter is not known."""
    given = os.environ
    exporter = given.get("OTEL_TRACES_EXPORTER", "")
    asked = exporter or given.get("OTEL_EXPORTER_OTLP_ENDPOINT") or given.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if not asked or exporter == "none" or given.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if find_spec("opentelemetry.sdk") is None:
        raise MisconfiguredError("OTEL_… asks for telemetry; install it with: pip install 'changeover[otel]'")
    if exporter not in ("", "otlp", "console"):
        raise MisconfiguredError(f"OTEL_TRACES_EXPORTER={exporter!r} is not known; give otlp, console or none")
    return _providers(console=exporter == "console")


def _providers(console: bool) -> tuple[Any, Any]:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    resource = Resource.create({} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "changeover"})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter() if console else OTLPSpanExporter()))
    reader = PeriodicExportingMetricReader(ConsoleMetricExporter() if console else OTLPMetricExporter())
    return tracers, MeterProvider(metric_readers=[reader], resource=resource)
