"""What telemetry costs: on, beside as many spans made by hand with a batch exporter; off, beside a build without it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, use_span

from bench.measure import Figure, Work, alternated

HOPS = 5
SPANS = 1 + (HOPS + 1) * 2 + HOPS
"""The run; a leg and a call of a model for each agent; the handoffs."""
MEASUREMENTS = 1 + (HOPS + 1) + 2 * HOPS
"""The run; the calls; two for each handoff."""
ATTRIBUTES = {f"gen_ai.attribute.{number}": "some value" for number in range(6)}
LABELS = dict(list(ATTRIBUTES.items())[:4])

WITHOUT = {
    "changeover.relay.inputs.requests": (
        "self.spoken if world.trace is None else _traced(self.spoken, world.trace)",
        "self.spoken",
    ),
    "changeover.relay.state": ('at_span(spoken.trace, task_id(state.id, state.task)) if spoken.trace else ""', '""'),
    "changeover.stores.memory.log": ("            self.traffic.appends += 1\n", ""),
}
"""All that a run does for telemetry while that is off, and the same code without it."""
FEW, MANY = 50, 250
COUNTED = re.compile(r"I +refs: +([\d,]+)")


class Nowhere(SpanExporter):
    """Exports nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


async def telemetry() -> list[Figure]:
    """The cost of telemetry that is on, and of telemetry that is off."""
    return [*await _on(), *await asyncio.to_thread(_counts)]


async def _on() -> list[Figure]:
    """What a run costs more with telemetry, relative to spans by hand, and to spans and measurements by hand."""
    provider = TracerProvider()
    found = await alternated({name: (work, 40) for name, work in _contenders(provider).items()})
    provider.shutdown()
    more = found["on"].least - found["off"].least
    note = f"{more / SPANS * 1e6:.0f} µs a span, {found['hand'].least / SPANS * 1e6:.0f} µs by hand"
    return [
        Figure(f"{SPANS} spans of a run / by hand", more / found["hand"].least, 1.5, note),
        Figure(f"the same / with {MEASUREMENTS} measurements by hand", more / found["both"].least),
    ]


def _contenders(provider: TracerProvider) -> dict[str, Work]:
    """A run without and with telemetry, and spans by hand without and with measurements."""
    from bench.core import run
    from bench.script import line
    from changeover import Telemetry

    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    meters = MeterProvider()
    tracer, histogram = provider.get_tracer("bench"), meters.get_meter("bench").create_histogram("by_hand")
    off = line()
    on = off.on(None, telemetry=Telemetry(tracer_provider=provider, meter_provider=meters))

    async def by_hand() -> None:
        above = tracer.start_span("by hand", attributes=ATTRIBUTES)
        for _ in range(SPANS - 1):
            with use_span(above):
                tracer.start_span("by hand", attributes=ATTRIBUTES, links=[Link(above.get_span_context())]).end()
        above.end()

    async def measured_by_hand() -> None:
        await by_hand()
        for _ in range(MEASUREMENTS):
            histogram.record(0.1, LABELS)

    return {"off": lambda: run(off, HOPS), "on": lambda: run(on, HOPS), "hand": by_hand, "both": measured_by_hand}


def _counts() -> list[Figure]:
    """Instructions, by cachegrind: time is too coarse for one part in a hundred, and varies with what is in caches."""
    name = "telemetry off, instructions / a build without it"
    if shutil.which("valgrind") is None:
        return [Figure(name, 0.0, note="not measured: install valgrind")]
    ours, without = _instructions(), _instructions("without")
    off, on, hand = (_instructions(each) for each in ("off", "on", "hand"))
    return [
        Figure(name, ours / without, 1.01, f"{ours:,.0f} a run"),
        Figure(f"{SPANS} spans of a run, instructions / by hand", (on - off) / hand, note=f"{hand:,.0f} by hand"),
    ]


def _instructions(*build: str) -> float:
    """Instructions of one run: the difference between many and few of them, so that the start does not count."""
    few, many = (_counted(str(count), *build) for count in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def _counted(*words: str) -> int:
    measure = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
    command = [*measure, sys.executable, "-m", "bench.telemetry", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": "0"}
    )
    found = COUNTED.search(done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"cachegrind could not count: {done.stderr[-500:]}")
    return int(found[1].replace(",", ""))


class Cut:
    """Finds the modules of WITHOUT, and loads them changed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in WITHOUT else None
        if spec is not None and spec.origin is not None:
            spec.loader = CutLoader(name, spec.origin)
        return spec


class CutLoader(SourceFileLoader):
    """Loads a module of WITHOUT."""

    def get_code(self, fullname: str) -> CodeType:
        source, (there, instead) = self.get_source(fullname) or "", WITHOUT[fullname]
        if source.count(there) != 1:
            raise ValueError(f"{fullname} does not hold {there!r} once: bring WITHOUT up to date")
        return compile(source.replace(there, instead), self.path, "exec")


async def _repeat(count: int, contender: str) -> None:
    from bench.core import run
    from bench.script import line

    provider, team = TracerProvider(), line()
    work = _contenders(provider)[contender] if contender else lambda: run(team, 1)
    for _ in range(count):
        await work()
    provider.shutdown()


if __name__ == "__main__":
    named = sys.argv[2] if len(sys.argv) > 2 else ""
    if named == "without":
        sys.meta_path.insert(0, Cut())
    asyncio.run(_repeat(int(sys.argv[1]), "" if named == "without" else named))
