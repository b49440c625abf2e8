"""`python -m bench [name …]`: run the benches, print each figure with its spread and bound, and name missed bounds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

from rich.console import Console
from rich.table import Table

from bench import (
    bus,
    core,
    durable,
    large,
    models,
    page,
    queue,
    routing,
    server,
    telemetry,
    temporal,
    trees,
    ui,
    workflows,
)
from bench.grid import Grid
from bench.measure import Figure
from bench.peers import report

BENCHES: dict[str, Callable[[], Awaitable[list[Figure]]]] = {
    "handoffs": core.handoffs,
    "long": core.long_conversation,
    "many": core.many_at_once,
    "durable": durable.one_after_the_other,
    "durable-many": durable.many_at_once,
    "durable-long": durable.long_conversation,
    "bytes": durable.bytes_on_disk,
    "written": durable.bytes_written,
    "databases": durable.postgresql_beside_sqlite,
    "delegates": trees.fan_out,
    "workflow": workflows.steps,
    **queue.BENCHES,
    "bus": bus.publish_to_start,
    "models": models.adapter,
    "routing": routing.routing,
    "telemetry": telemetry.telemetry,
    "temporal": temporal.figures,
    "server": server.figures,
    "server-small": server.small,
    "teams": core.teams,
    "large": large.message,
    "lists": large.lists,
    "ui": ui.figures,
    "imports": lambda: asyncio.to_thread(core.imports),
    "beside": report.beside,
}

GRIDS: dict[str, Callable[[], Awaitable[list[Grid]]]] = {"context": page.all_grids, "peers": report.grids}
"""Benches that print whole tables. That of the context is equal on every machine; the tests check its bounds."""

ON_REQUEST = {"peers", "beside", "server", "server-small", "temporal", "ui"}
"""Benches that run only when they are named: they install other libraries, or take minutes."""

GROUPS: dict[str, tuple[str, ...]] = {
    "bounds": (
        *("handoffs", "beside", "many", "durable", "written", "durable-many", "long", "durable-long"),
        *("teams", "imports", "large", "lists"),
    )
}
"""Benches that are run together under one name."""


async def main(names: Sequence[str]) -> int:
    """Run these benches, or all but those on request; return the number of figures that miss their bound."""
    wanted = [each for name in names for each in GROUPS.get(name, (name,))]
    if unknown := set(wanted) - BENCHES.keys() - GRIDS.keys():
        known = ", ".join([*BENCHES, *GRIDS, *GROUPS])
        sys.exit(f"no bench is called {', '.join(sorted(unknown))}; there are: {known}")
    console = Console()
    figures: list[Figure] = []
    for name in wanted or [each for each in [*BENCHES, *GRIDS] if each not in ON_REQUEST]:
        if name in GRIDS:
            await _show(console, name)
            continue
        with console.status(f"{name} …"):
            figures += await BENCHES[name]()
    if figures:
        console.print(_table(figures))
    missed = [figure for figure in figures if not figure.holds]
    for figure in missed:
        console.print(f"missed: {figure.name}: {_number(figure.value)}{figure.unit}, bound {_bound(figure)}")
    return len(missed)


async def _show(console: Console, name: str) -> None:
    with console.status(f"{name} …"):
        grids = await GRIDS[name]()
    for grid in grids:
        console.print(grid.table(), "")


def _table(figures: Sequence[Figure]) -> Table:
    table = Table("figure", "value", "quartiles", "bound", "", box=None)
    for figure in figures:
        around = " to ".join(map(_number, figure.spread)) if figure.spread else ""
        table.add_row(figure.name, f"{_number(figure.value)}{figure.unit}", around, _bound(figure), figure.note)
    return table


def _bound(figure: Figure) -> str:
    sign = "≥" if figure.least else "≤"
    return "" if figure.bound is None else f"{sign} {figure.bound:.3g}{figure.unit}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


if __name__ == "__main__":
    sys.exit(min(1, asyncio.run(main(sys.argv[1:]))))
