"""What telemetry costs: the spans of a run, beside the same number of spans made by hand with a batch exporter."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, use_span

from bench.core import run
from bench.measure import Figure, alternated
from bench.script import line
from changeover import Telemetry

HOPS = 5
SPANS = 1 + (HOPS + 1) * 2 + HOPS
"""The run; a leg and a call of a model for each agent; the handoffs."""
ATTRIBUTES = {f"gen_ai.attribute.{number}": "some value" for number in range(6)}


class Nowhere(SpanExporter):
    """Exports nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


async def telemetry() -> list[Figure]:
    """The cost of telemetry that is on."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    tracer = provider.get_tracer("bench")
    off = line()
    on = off.on(None, telemetry=Telemetry(tracer_provider=provider, meter_provider=MeterProvider()))

    async def by_hand() -> None:
        above = tracer.start_span("by hand", attributes=ATTRIBUTES)
        for _ in range(SPANS - 1):
            with use_span(above):
                tracer.start_span("by hand", attributes=ATTRIBUTES, links=[Link(above.get_span_context())]).end()
        above.end()

    found = await alternated(
        {"off": (lambda: run(off, HOPS), 40), "on": (lambda: run(on, HOPS), 40), "hand": (by_hand, 40)}
    )
    more = found["on"].least - found["off"].least
    provider.shutdown()
    return [
        Figure(
            f"{SPANS} spans of a run / by hand",
            more / found["hand"].least,
            1.5,
            f"{more / SPANS * 1e6:.0f} µs a span, {found['hand'].least / SPANS * 1e6:.0f} µs by hand",
        )
    ]
