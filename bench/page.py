"""The measured tables of docs/context.md; run as a module to update them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from bench.context import outcomes, receivers
from bench.grid import Grid
from bench.handovers import handovers, languages
from bench.histories import conversation, histories
from bench.hops import after_chat, costs, five_hops, short_job
from bench.shapes import bills, whole_tasks

PAGE = Path(__file__).parents[1] / "docs/context.md"
COMMAND = "python -m bench.page"
CHAT = conversation("a chat of 70 turns", "english", 70, 3)
JOBS = (short_job(CHAT), after_chat(CHAT))
TABLE = re.compile(r"(?P<start>^<!-- measured -->\n).*?(?P<end>^<!-- end -->$)", re.M | re.S)


async def grids() -> list[Grid]:
    """Measure the tables of the page."""
    return [receivers(await outcomes()), whole_tasks(await bills()), five_hops(await costs(JOBS))]


async def all_grids() -> list[Grid]:
    """Measure the tables of the page, and what reaches receivers in conversations of four languages."""
    return [*await grids(), languages(await handovers(histories()))]


def rewritten(page: str, measured: list[Grid]) -> str:
    """The page with its tables replaced."""
    tables = iter(measured)
    return TABLE.sub(lambda found: found["start"] + next(tables).markdown() + found["end"], page)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(), asyncio.run(grids())))
