"""`python -m bench [name …]`: run the benches and print their figures, each beside its bound."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

from rich.console import Console
from rich.table import Table

from bench import core, durable, models, page, queue, routing, server, trees
from bench.grid import Grid
from bench.measure import Figure
from bench.peers import report

BENCHES: dict[str, Callable[[], Awaitable[list[Figure]]]] = {
    "handoffs": core.handoffs,
    "guards": core.guards,
    "long": core.long_conversation,
    "many": core.many_at_once,
    "durable": durable.one_after_the_other,
    "durable-many": durable.many_at_once,
    "durable-long": durable.long_conversation,
    "bytes": durable.bytes_on_disk,
    "databases": durable.postgresql_beside_sqlite,
    "delegates": trees.fan_out,
    **queue.BENCHES,
    "models": models.adapter,
    "routing": routing.routing,
    "server": server.figures,
    "server-small": server.small,
    "imports": lambda: asyncio.to_thread(core.imports),
}

GRIDS: dict[str, Callable[[], Awaitable[list[Grid]]]] = {"context": page.all_grids, "peers": report.grids}
"""Benches that print whole tables. That of the context is equal on every machine; the tests check its bounds."""

ON_REQUEST = {"peers", "server", "server-small"}
"""Benches that run only when they are named: they install other libraries, or take minutes."""


async def main(names: Sequence[str]) -> int:
    """Run these benches, or all but those on request; return the number of figures that miss their bound."""
    if unknown := set(names) - BENCHES.keys() - GRIDS.keys():
        sys.exit(f"no bench is called {', '.join(sorted(unknown))}; there are: {', '.join([*BENCHES, *GRIDS])}")
    console = Console()
    table = Table("figure", "value", "bound", "", "", box=None)
    missed = 0
    for name in names or [each for each in [*BENCHES, *GRIDS] if each not in ON_REQUEST]:
        if name in GRIDS:
            await _show(console, name)
            continue
        with console.status(f"{name} …"):
            figures = await BENCHES[name]()
        for figure in figures:
            missed += not figure.holds
            table.add_row(*_cells(figure))
    if table.rows:
        console.print(table)
    return missed


async def _show(console: Console, name: str) -> None:
    with console.status(f"{name} …"):
        grids = await GRIDS[name]()
    for grid in grids:
        console.print(grid.table(), "")


def _cells(figure: Figure) -> tuple[str, ...]:
    sign = "≥" if figure.least else "≤"
    bound = "" if figure.bound is None else f"{sign} {figure.bound:.3g}{figure.unit}"
    return figure.name, f"{figure.value:.2f}{figure.unit}", bound, "" if figure.holds else "MISSED", figure.note


sys.exit(min(1, asyncio.run(main(sys.argv[1:]))))
