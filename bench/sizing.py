"""The tables of docs/sizing.md: measured costs of one conversation, and what follows from them for many a day.

`python -m bench.sizing` measures, and writes both tables; the tests check that the second follows from the first.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import NamedTuple

from bench.grid import Grid
from bench.temporal import rings, written
from tests.temporal.history import histories, size

PAGE = Path(__file__).parents[1] / "docs/sizing.md"
TABLE = re.compile(r"(?P<start>^<!-- (?P<name>costs|sizes) -->\n).*?(?P<end>^<!-- end -->$)", re.M | re.S)
ROW = re.compile(r"^\| (?P<name>[^|]+?) +\| (?P<unit>[^|]+?) +\| +(?P<value>[\d.,]+) \|$", re.M)
TURNS, PEAK, BUSY = 5, 5, 0.6
"""Turns of a conversation, each with a handoff; the busiest second in relation to the average one; how busy a
processor of a worker may be then."""
DAYS = (1_000, 100_000, 10_000_000)
ACTIONS = ("workflow_execution_started", "workflow_execution_signaled", "activity_task_scheduled", "timer_started")
ACTIONS_TOO = ("upsert_workflow_search_attributes",)
SAMPLE = 300


class Limit(NamedTuple):
    """Something that does not grow with the number of workers."""

    name: str
    cost: str
    a_second: float


LIMITS = (
    Limit("the default limit of a Temporal Cloud namespace (400 actions/s)", "Temporal actions", 400),
    Limit("the default limit of a self-hosted Temporal frontend (2,400 requests/s)", "Temporal requests", 2_400),
    Limit("one PostgreSQL server (here: 20,000 transactions/s, most of which read)", "database transactions", 20_000),
    Limit("one PostgreSQL server (here: 50,000 rows/s)", "rows written", 50_000),
)
UNITS = {
    "processor": "ms",
    "database transactions": "",
    "rows written": "",
    "database journal": "KB",
    "Temporal actions": "",
    "Temporal requests": "",
    "Temporal history": "KB",
}


async def costs() -> dict[str, float]:
    """What one turn with a handoff costs, measured with 50 conversations under way."""
    async with rings() as (url, both):
        ring, since = both["Temporal"], written(url)
        begun, done = time.process_time(), 0
        while done < SAMPLE:
            await asyncio.gather(*(ring.run(1) for _ in range(50)))
            done += 50
        spent, wrote = time.process_time() - begun, since()
        assert ring.engine is not None
        ended = (await histories(ring.engine))[-SAMPLE:]
    kinds = [
        str(event.WhichOneof("attributes")).removesuffix("_event_attributes") for each in ended for event in each.events
    ]
    actions = sum(kinds.count(kind) for kind in (*ACTIONS, *ACTIONS_TOO)) / len(ended)
    # A workflow task is fetched and completed; so is an activity; a start with its signal is one request.
    tasks = kinds.count("workflow_task_started") + kinds.count("activity_task_started")
    return {
        "processor": spent / done * 1_000,
        "database transactions": wrote["commits"] / done,
        "rows written": wrote["rows"] / done,
        "database journal": wrote["bytes"] / done / 1_024,
        "Temporal actions": actions,
        "Temporal requests": 1 + 2 * tasks / len(ended),
        "Temporal history": sum(map(size, ended)) / len(ended) / 1_024,
    }


def measured(found: Mapping[str, float]) -> Grid:
    """The costs as a table."""
    rows = [(f"{name} a turn", unit or "number", f"{found[name]:.2f}") for name, unit in UNITS.items()]
    return Grid("costs of a turn with one handoff", ("cost", "unit", "value"), rows)


def read(page: str) -> dict[str, float]:
    """The costs that a page shows."""
    shown = {each["name"].removesuffix(" a turn"): float(each["value"].replace(",", "")) for each in ROW.finditer(page)}
    return {name: shown[name] for name in UNITS}


def sizes(found: Mapping[str, float]) -> Grid:
    """What so many conversations a day need."""
    rows = [_row(day, day * TURNS / 86_400 * PEAK, found) for day in DAYS]
    head = (
        "conversations a day",
        "breaks first",
        "turns/s",
        "workers",
        "transactions/s",
        "rows/s",
        "journal MB/s",
        "actions/s",
    )
    return Grid("what it takes in the busiest second", head, rows)


def _row(day: int, turns: float, found: Mapping[str, float]) -> tuple[str, ...]:
    return (
        f"{day:,}",
        _first(turns, found),
        f"{turns:,.1f}",
        f"{max(2, ceil(turns * found['processor'] / 1_000 / BUSY)):,}",
        f"{turns * found['database transactions']:,.1f}",
        f"{turns * found['rows written']:,.0f}",
        f"{turns * found['database journal'] / 1_024:,.2f}",
        f"{turns * found['Temporal actions']:,.1f}",
    )


def _first(turns: float, found: Mapping[str, float]) -> str:
    """The limit that is used most."""
    used, limit = max((turns * found[each.cost] / each.a_second, each) for each in LIMITS)
    return f"nothing: {used:.0%} of {limit.name}" if used < 1 else f"{limit.name}, {used:.1f} times"


def rewritten(page: str, found: Mapping[str, float]) -> str:
    """The page with both tables."""
    tables = {"costs": measured(found), "sizes": sizes(found)}
    return TABLE.sub(lambda each: each["start"] + tables[each["name"]].markdown() + each["end"], page)


if __name__ == "__main__":
    measured_page = rewritten(PAGE.read_text(), asyncio.run(costs()))
    # The sizes follow from the costs as the page shows them, which are rounded.
    PAGE.write_text(rewritten(measured_page, read(measured_page)))
