"""Measures: what a store counts, page by page and by its indexes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from changeover.relay.ports.log import Log
from changeover.stores.sql.log import SqlLog
from changeover.stores.sql.measures import SqlMeasures
from tests.stores.conftest import Opened
from tests.stores.entries import WORKING, handing_over, opening, plan_of, query
from tests.stores.measures import courses

Another = Callable[..., SqlLog]


async def hand_over(log: Log, *times: float) -> None:
    """One conversation for each of these times, in which something is handed over then."""
    for number, at in enumerate(times):
        await log.append(opening(f"c{number}"), WORKING)
        await log.append(handing_over(conversation=f"c{number}", at=at), WORKING)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_pages_leave_nothing_out_and_tell_nothing_twice(another: Another, size: int):
    log = another()
    await hand_over(log, 5.0, 3.0, 4.0, 4.0, 4.0, 4.0)
    measures = SqlMeasures(log._sql.measures, log._reader.large, size)
    assert [each.offered_at for each in await courses(measures)] == [3.0, 4.0, 4.0, 4.0, 4.0, 5.0]
    assert [each.offered_at for each in await courses(measures, 3.0, 4.0)] == [4.0, 4.0, 4.0, 4.0]
    assert await courses(measures, 4.0, 4.5) == []


async def test_windows_are_found_by_indexes(sqlite_file: Path, opened: Opened):
    sql = opened(f"sqlite:///{sqlite_file}")._sql.measures
    window = {"since": 1.0, "until": 2.0}
    plans = {
        "handoffs": plan_of(sqlite_file, sql.courses(after=1.5, id="x", limit=9, **window)),
        "ledgers": plan_of(sqlite_file, sql.expenses(**window)),
        "refusals": plan_of(sqlite_file, sql.refused(**window)),
    }
    assert [table for table, plan in plans.items() if "USING INDEX" not in plan] == []
    assert "TEMP B-TREE" not in plans["handoffs"]


async def test_a_reason_for_how_a_handoff_stands_is_noticed(another: Another, shared_store: str):
    log = another()
    await hand_over(log, 3.0, 4.0)
    query(shared_store, "UPDATE handoffs SET reason = 'late' WHERE offered_at = 3.0")
    assert [each.explained for each in await courses(log.measures)] == [True, False]
