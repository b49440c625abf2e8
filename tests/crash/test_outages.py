"""Many conversations in several processes hand over to a receiver that fails, recovers and fails again: they agree
on when its breaker opens, which one makes the trial, and when it closes."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from changeover.relay.ports.log import Log
from changeover.stores.store import Store, open_log
from tests.crash.outage import BROKEN, COOLDOWN, STOP, THRESHOLD
from tests.stores.entries import query, until

pytestmark = pytest.mark.stress

STRESS = "CHANGEOVER_STRESS" in os.environ
AT_ONCE = 200 if STRESS else 20
OUTAGES = TRIES = 2
RACING = 0.9 * COOLDOWN
"""For how long after an opening handoffs may be seen that were let through just before it."""


@contextmanager
def processes(url: str, folder: Path, count: int) -> Any:
    """So many processes that begin together, and have stopped in the end."""
    order = [sys.executable, "-m", "tests.crash.outage", url, str(folder)]
    started = [
        subprocess.Popen(
            [*order, f"p{number}", str(AT_ONCE // count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(count)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield started
    finally:
        (folder / STOP).touch()
        for process in started:
            process.communicate("go\n" if process.poll() is None else None, timeout=60)


async def goes_well(log: Log) -> bool:
    return all(circuit.state == "closed" for circuit in await log.breakers.listed())


def failed_tries(log: Log, outage: int) -> Callable[[], Awaitable[bool]]:
    """True if the clerk's breaker opened this many times, and a trial failed since."""

    async def look() -> bool:
        circuits = await log.breakers.listed()
        return [circuit.openings for circuit in circuits] == [outage] and circuits[0].failures >= THRESHOLD + TRIES

    return look


async def comes_and_goes(log: Log, folder: Path) -> None:
    """The clerk fails until it was tried in vain some times, works again, and so on."""
    for outage in range(1, OUTAGES + 1):
        await asyncio.sleep(0.3)
        (folder / BROKEN).touch()
        await until(failed_tries(log, outage), 60)
        (folder / BROKEN).unlink()
        await until(lambda: goes_well(log), 60)
    await asyncio.sleep(0.3)


PLACES = [("sqlite", 1), ("postgresql", 4), *([("sqlite", 4), ("postgresql", 1)] if STRESS else [])]
"""On which database, and in how many processes."""


@pytest.mark.parametrize(("shared_store", "count"), PLACES, indirect=["shared_store"])
async def test_a_receiver_falls_out_once_in_each_outage_and_is_tried_by_one_at_a_time(
    shared_store: str, tmp_path: Path, count: int
):
    log = await asyncio.to_thread(open_log, Store(shared_store))
    with processes(shared_store, tmp_path, count) as started:
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        await comes_and_goes(log, tmp_path)
    await log.close()
    assert [process.returncode for process in started] == [0] * count
    openings = [at for (at,) in query(shared_store, "SELECT at FROM breaker_openings ORDER BY number")]
    assert len(openings) == OUTAGES
    offered = query(shared_store, TAKEN)
    assert {at for at, state in offered if state == "FAILED"}, "no handoff failed, so the test shows nothing"
    for opened, following in zip(openings, [*openings[1:], float("inf")], strict=True):
        tried_one_by_one([each for each in offered if opened <= each[0] < following], opened)
    assert query(shared_store, "SELECT count(*) FROM handoffs WHERE receiver = 'clerk' AND state = 'REJECTED'") > [(0,)]
    untouched = query(shared_store, "SELECT DISTINCT state FROM handoffs WHERE receiver = 'deputy'")
    assert untouched == [("COMPLETE",)]


TAKEN = "SELECT offered_at, state FROM handoffs WHERE receiver = 'clerk' AND state <> 'REJECTED' ORDER BY offered_at"


def tried_one_by_one(offered: list[tuple[float, str]], opened: float) -> None:
    """From an opening on there is one handoff in each cool-down, up to the one that succeeds."""
    racing = [at for at, _ in offered if at < opened + RACING]
    assert len(racing) <= AT_ONCE
    tries: list[tuple[float, str]] = []
    for at, state in offered[len(racing) :]:
        tries.append((at, state))
        if state == "COMPLETE":
            break
    times = [opened, *(at for at, _ in tries)]
    assert all(later - before >= COOLDOWN for before, later in pairwise(times)), times
    assert [state for _, state in tries[:-1]] == ["FAILED"] * (len(tries) - 1)
    assert len(tries) > TRIES
