"""The measured tables of docs/context.md; run as a module to update them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from bench.context import outcomes, receivers
from bench.grid import Grid
from bench.shapes import bills, whole_tasks

PAGE = Path(__file__).parents[1] / "docs/context.md"
COMMAND = "python -m bench.page"
TABLE = re.compile(r"(?P<start>^<!-- measured -->\n).*?(?P<end>^<!-- end -->$)", re.M | re.S)


async def grids() -> list[Grid]:
    """Measure both tables."""
    return [receivers(await outcomes()), whole_tasks(await bills())]


def rewritten(page: str, measured: list[Grid]) -> str:
    """The page with its tables replaced."""
    tables = iter(measured)
    return TABLE.sub(lambda found: found["start"] + next(tables).markdown() + found["end"], page)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(), asyncio.run(grids())))
