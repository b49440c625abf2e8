"""The tables that compare Changeover with other libraries; run as a module to update those of docs/comparison.md.

`CHANGEOVER_PEERS="langgraph autogen"` limits the contenders to these adapters, beside Changeover itself.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from bench.grid import Grid
from bench.measure import Figure, ratio, taken
from bench.page import rewritten
from bench.peers.environment import OURS, PEERS, ROOT, Peer

PAGE = ROOT / "docs/comparison.md"
REPETITIONS = 3
MARKS = (10, 100, 500)
AT_ONCE, LATENCY = 300, 0.05

NONE = "-"
"""The cell of a figure that a library does not have."""

Figures = dict[str, Any]
Take = Callable[[Figures], float | None]
Measured = dict[Peer, list[Figures]]
"""The figures of every repetition."""


def contenders() -> list[Peer]:
    """The peers to measure, with their environments made."""
    wanted = os.environ.get("CHANGEOVER_PEERS", "").split()
    found = [peer for peer in PEERS if not wanted or peer is OURS or peer.adapter in wanted]
    for peer in found:
        peer.install()
    return found


async def grids() -> list[Grid]:
    """Measure all scenarios, one process at a time."""
    peers = contenders()
    return [
        relays(
            await repeated(peers, "relay", lambda peer: {"runs": {"1": 100, **({"20": 20} if peer.relays else {})}})
        ),
        durable(await repeated(peers, "durable", lambda peer: {"runs": 100})),
        long(await repeated(peers, "long", lambda peer: {"marks": MARKS, "budget": 60.0}, repetitions=1)),
        many(await repeated(peers, "many", lambda peer: {"runs": AT_ONCE, "latency": LATENCY})),
        imports(await repeated(peers, "imports", lambda peer: {"statement": peer.imports})),
        crashes(await after_a_kill(peers)),
    ]


BESIDE = {"strands": 15.0, "openai_agents": 22.0}
"""How many times as long as ours a handoff takes in these libraries, at least."""


async def beside() -> list[Figure]:
    """One handoff in the closest peers, relative to ours in the same run."""
    peers = [peer for peer in PEERS if peer is OURS or peer.adapter in BESIDE]
    for peer in peers:
        peer.install()
    measured = await repeated(peers, "relay", lambda peer: {"runs": {"1": 200}}, repetitions=7)
    found = {peer: taken([figures["1"] for figures in rounds]) for peer, rounds in measured.items()}
    figures = []
    for peer in peers:
        if peer is not OURS:
            name, note = f"one handoff: {peer.name} / ours", f"{found[peer].least:,.0f} µs"
            figures.append(ratio(name, found[peer], found[OURS], BESIDE[peer.adapter], note)._replace(least=True))
    return figures


async def repeated(
    peers: Sequence[Peer], scenario: str, args: Callable[[Peer], dict[str, Any]], repetitions: int = REPETITIONS
) -> Measured:
    """Measure the peers that have the scenario, alternately, so that noise hits all of them alike."""
    taking: Measured = {peer: [] for peer in peers if scenario in peer.scenarios}
    for _ in range(repetitions):
        for peer, figures in taking.items():
            figures.append(await peer.measure(scenario, **args(peer)))
    return taking


async def after_a_kill(peers: Sequence[Peer]) -> Measured:
    """Kill a process of every peer as the receiver's model is called, and go on in another one."""
    found: Measured = {}
    for peer in peers:
        if "crash" in peer.scenarios:
            with tempfile.TemporaryDirectory(prefix="changeover-peers-") as folder:
                await peer.measure("crash", folder=folder)
                found[peer] = [await peer.measure("resume", folder=folder)]
    return found


def relays(measured: Measured) -> Grid:
    def each(figures: Figures) -> float | None:
        return (figures["20"] - figures["1"]) / 19 if "20" in figures else None

    columns = {"one handoff": lambda figures: figures["1"], "each further": each}
    return compared("In memory, CPU µs", measured, columns)


def durable(measured: Measured) -> Grid:
    columns = {"CPU µs a run": lambda figures: figures["cpu"], "bytes a run": lambda figures: figures["bytes"]}
    return compared("One handoff, written to disk", measured, columns)


def long(measured: Measured) -> Grid:
    """Not every library reaches the last mark in its budget of time."""

    def at(mark: int, figure: str) -> Take:
        return lambda figures: figures.get(str(mark), {}).get(figure)

    columns: dict[str, Take] = {f"turn {mark}, ms": at(mark, "cpu") for mark in MARKS}
    last = at(MARKS[-1], "bytes")
    columns[f"KiB at {MARKS[-1]}"] = lambda figures: size / 1024 if (size := last(figures)) else None
    return compared("A conversation that grows, on disk, CPU", measured, columns)


def many(measured: Measured) -> Grid:
    columns = {"CPU s": lambda figures: figures["cpu"], "peak MiB": lambda figures: figures["peak"]}
    return compared(f"{AT_ONCE} runs at once, a model of {LATENCY * 1000:.0f} ms", measured, columns)


def imports(measured: Measured) -> Grid:
    columns = {"import, CPU ms": lambda figures: figures["cpu"], "peak MiB": lambda figures: figures["peak"]}
    grid = compared("Import, and what is installed", measured, columns)
    installed = [str(peer.distributions()) for peer in measured]
    rows = [[*row, count] for row, count in zip(grid.rows, installed, strict=True)]
    return Grid(grid.title, [*grid.head, "packages"], rows)


def crashes(measured: Measured) -> Grid:
    rows = [
        [peer.name, peer.version(), ", ".join(found["agents"]) or NONE, "yes" if found["answered"] else "no"]
        for peer, [found] in measured.items()
    ]
    head = ["library", "release", "models called after the kill", "answered"]
    return Grid("Killed as billing, the receiver, is asked", head, rows)


def compared(title: str, measured: Measured, columns: Mapping[str, Take]) -> Grid:
    """A row per library, and beside each figure its ratio to ours."""
    middles = {peer: [middle(figures, take) for take in columns.values()] for peer, figures in measured.items()}
    rows = []
    for peer, values in middles.items():
        row = [peer.name, peer.version()]
        for value, ours in zip(values, middles[OURS], strict=True):
            row += [NONE, NONE] if value is None or not ours else [shown(value), f"{shown(value / ours)}x"]
        rows.append(row)
    head = ["library", "release", *(cell for name in columns for cell in (name, "/ ours"))]
    return Grid(title, head, rows)


def middle(figures: Sequence[dict[str, Any]], take: Take) -> float | None:
    values = [value for each in figures if (value := take(each)) is not None]
    return median(values) if values else None


def shown(value: float) -> str:
    """Two digits of a small number, a large one as a whole."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(), asyncio.run(grids())))
