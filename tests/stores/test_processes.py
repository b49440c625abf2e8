"""Real processes on one store."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter

import pytest

from changeover.errors import Conflict, LeaseLost, Owned
from changeover.relay.events import UserSpoke
from tests.stores.conftest import Opened
from tests.stores.entries import WORKING, more, query, until


def fighters(url: str, count: int, *options: str) -> list[subprocess.Popen[str]]:
    """Processes that open the store at the same time, and begin together."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.stores.fighter", url, f"p{number}", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    return started


@pytest.mark.parametrize("options", [(), ("mine",)], ids=["nobody owns", "one owns at a time"])
@pytest.mark.parametrize("count", [2, 4])
async def test_each_outcome_is_recorded_once_however_many_fight_for_it(
    bare_store: str, opened: Opened, count: int, options: tuple[str, ...]
):
    started = await asyncio.to_thread(fighters, bare_store, count, *options)
    for process in started:
        process.stdin.write("go\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    reports = [(await asyncio.to_thread(process.communicate))[0] for process in started]
    assert [process.returncode for process in started] == [0] * count
    claimed = Counter(cause for report in reports for line in report.splitlines() for cause in _causes(line))
    log = opened(bare_store)
    for number in range(5):
        entries = await log.read(f"c{number}")
        positions = [
            position for entry in entries for position in range(entry.position, entry.position + len(entry.events))
        ]
        assert positions == list(range(21))
        assert sorted(int(entry.cause) for entry in entries) == list(range(20))
        assert [entry.seq for entry in entries] == [1, *range(3, 22)]
    assert claimed == Counter({f"c{number} {cause}": 1 for number in range(5) for cause in range(20)})


async def test_a_process_that_was_stopped_for_longer_than_its_lease_writes_nothing(bare_store: str, opened: Opened):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ZOMBIE, bare_store, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert await process.stdout.readline() == b"owns c\n"
    log = opened(bare_store, 0.5)
    assert not await log.claim("c")
    await _stop_outside_a_transaction(process.pid, bare_store)
    await until(lambda: log.claim("c"))
    await log.append(more(3, "theirs"), WORKING)
    process.stdin.write(b"append\n")
    os.kill(process.pid, signal.SIGCONT)
    said = (await process.communicate())[0].decode().split()
    assert said[0] == "False", "the zombie thought that it may begin something"
    # Or it has a new lease by then, under which it is like anybody else who comes too late.
    assert said[1] in (LeaseLost.__name__, Owned.__name__, Conflict.__name__)
    [_, event] = [entry.events[-1] for entry in await log.read("c")]
    assert isinstance(event, UserSpoke)
    assert query(bare_store, "SELECT count(*) FROM entries") == [(2,)]


ZOMBIE = """
import asyncio, sys, threading
from changeover.stores.store import Store, open_log
from tests.stores.entries import WORKING, more, opening

async def main():
    log = open_log(Store(sys.argv[1], 0.5))
    await log.append(opening(), WORKING)
    print("owns c", flush=True)
    seen, epoch = [], log.epoch
    # Asked at once when it wakes up, as an engine asks: it may have a new lease by then, which owns nothing.
    sys.stdin.readline()
    seen.append(log.may_begin() and log.epoch == epoch)
    try:
        await log.append(more(3, "mine"), WORKING)
    except Exception as error:
        print(*seen, type(error).__name__, flush=True)
    await log.close()

asyncio.run(main())
"""


async def _stop_outside_a_transaction(pid: int, store: str) -> None:
    """Whoever is stopped while it writes to a file keeps it locked, as long as it is stopped."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        try:
            query(store, "UPDATE conversations SET seq = seq")
        except sqlite3.OperationalError:
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(0.01)
        else:
            return


def _causes(line: str) -> list[str]:
    conversation, *causes = line.split()
    return [f"{conversation} {cause}" for cause in causes]
