"""What telemetry costs: on, beside the same spans by hand with a batch exporter; off, beside a build without it."""

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

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from bench.measure import Figure, Work, alternated

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
    """What a run costs more with telemetry, relative to what it costs more if its model makes the same spans by hand.

    In a bare loop these take less time for as many instructions: nothing evicts them from the caches of the CPU.
    """
    from bench.spans import contenders, spans_of_a_run

    spans, provider = await spans_of_a_run(), _provider()
    found = await alternated({name: (work, 40) for name, work in contenders(provider).items()}, repetitions=25)
    provider.shutdown()
    ours, by_hand = (found[name].least - found["off"].least for name in ("on", "hand"))
    note = f"{ours / spans * 1e6:.0f} µs a span, {by_hand / spans * 1e6:.0f} µs by hand"
    return [
        Figure(f"{spans} spans of a run / by hand", ours / by_hand, 1.5, note),
        Figure("the same / by hand in a bare loop", ours / found["loop"].least),
    ]


def _provider() -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return provider


def _counts() -> list[Figure]:
    """Instructions, by cachegrind: time is too coarse for one part in a hundred, and varies with what is in caches."""
    name = "telemetry off, instructions / a build without it"
    if shutil.which("valgrind") is None:
        return [Figure(name, 0.0, note="not measured: install valgrind")]
    ours, without = _instructions(), _instructions("without")
    off, on, hand, loop = (_instructions(each) for each in ("off", "on", "hand", "loop"))
    return [
        Figure(name, ours / without, 1.01, f"{ours:,.0f} a run"),
        Figure("spans of a run, instructions / by hand", (on - off) / (hand - off), 1.5, f"{on - off:,.0f} a run"),
        Figure("the same / by hand in a bare loop", (on - off) / loop),
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
    from bench.spans import contenders

    provider, team = _provider(), line()
    work: Work = contenders(provider)[contender] if contender else lambda: run(team, 1)
    for _ in range(count):
        await work()
    provider.shutdown()


if __name__ == "__main__":
    named = sys.argv[2] if len(sys.argv) > 2 else ""
    if named == "without":
        sys.meta_path.insert(0, Cut())
    asyncio.run(_repeat(int(sys.argv[1]), "" if named == "without" else named))
