"""A worker that waits is woken when there may be work, from any process."""

import asyncio
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from changeover.errors import StoreUnavailable
from changeover.relay.ports.log import Log
from changeover.relay.ports.queue import Bell, Claim
from changeover.stores.memory.log import MemoryLog
from changeover.stores.sql.dialects import sqlite
from changeover.stores.sql.log import SqlLog
from tests.stores.conftest import Opened
from tests.stores.tickets import OVER, Scribe, take, taken, ticket

Another = Callable[..., SqlLog]

AT_ONCE = 0.5
"""Within how many seconds a bell is heard; who hears none looks after three."""


@asynccontextmanager
async def quiet_bell(log: Log, agents: str = "a") -> AsyncIterator[Bell]:
    """A bell that has nothing more to say of what was before."""
    with log.queue.listening(list(agents)) as bell:
        await hush(bell, 0.4)
        yield bell


async def rings(bell: Bell, within: float = 1.0) -> bool:
    try:
        async with asyncio.timeout(within):
            await bell.wait()
    except TimeoutError:
        return False
    return True


async def hush(bell: Bell, pause: float) -> None:
    """Wait until it has not rung for so long."""
    while await rings(bell, pause):
        pass


async def test_a_bell_rings_whenever_there_is_something_to_take(log: Log):
    scribe = Scribe(log, working=True)
    await scribe.write()

    async def wake() -> None:
        await scribe.write(rests=["t"])
        await scribe.write(ticket("t"))

    happenings: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("put", lambda: scribe.write(ticket("t"))),
        ("given back", lambda: log.queue.give_back(Claim("t", "put"), counted=True)),
        ("ended", lambda: scribe.write(claim=Claim("t", "given back", ends=True))),
        ("again", lambda: log.queue.retry("t")),
        ("woken", wake),
    ]
    async with quiet_bell(log, "xa") as bell:
        for what, happen in happenings:
            await happen()
            assert await rings(bell), what
            assert await taken(log, token=what) == ["t"], what


async def test_a_bell_remembers_that_it_has_rung(log: Log):
    scribe = Scribe(log)
    with log.queue.listening(["a"]) as bell:
        await scribe.write(ticket("t"))
        await scribe.write(ticket("u"))
        await asyncio.sleep(0.05)
        assert await rings(bell, 0.5)


async def test_a_bell_in_memory_rings_once_and_for_its_agents_only():
    log = MemoryLog()
    scribe = Scribe(log, working=True)
    with log.queue.listening(["a", "b"]) as bell:
        await scribe.write(ticket("other", "c"))
        assert not await rings(bell, 0.05)
        await scribe.write(ticket("t", "b"), ticket("rests"), rests=["rests"])
        assert await rings(bell, 0.1)
        await scribe.write(ticket("t", "b"))
        await take(log, "b", token="w", lease=OVER)
        await log.queue.renew([Claim("t", "w")], OVER)
        await scribe.write(claim=Claim("t", "w"))
        await scribe.write(claim=Claim("t", "w"), gone=["t"])
        assert not await rings(bell, 0.1)


async def test_a_bell_in_memory_rings_in_whichever_loop_it_is_waited_for():
    log = MemoryLog()
    scribe = Scribe(log)
    await scribe.write()

    listens = threading.Event()

    async def hear() -> bool:
        with log.queue.listening(["a"]) as bell:
            listens.set()
            return await rings(bell, 5.0)

    elsewhere = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(hear())))
    await asyncio.to_thread(listens.wait)
    await scribe.write(ticket("t"))
    assert await elsewhere
    await scribe.write(ticket("u"))  # nobody listens there any more


async def test_a_bell_rings_at_once_for_what_this_process_does_and_not_only_when_it_looks(
    opened: Opened, sqlite_file: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite, "POLL", 0.4)
    log = opened(f"sqlite:///{sqlite_file}")
    scribe = Scribe(log)
    await scribe.write()
    with log.queue.listening(["a"]) as bell:
        delays = [await _delay(bell, lambda: scribe.write(ticket(f"t{scribe.end}")), 0.5) for _ in range(3)]
    assert statistics.median(delays) < AT_ONCE, delays


async def test_a_bell_rings_at_once_for_what_others_on_the_store_do(another: Another):
    mine, theirs = another(), another()
    scribe = Scribe(theirs)
    await scribe.write(ticket("again"))
    async with quiet_bell(mine) as bell:
        delays = [await _delay(bell, lambda: theirs.queue.retry("again")) for _ in range(5)]
        delays += [await _delay(bell, lambda: scribe.write(ticket(f"t{scribe.end}"))) for _ in range(5)]
    assert statistics.median(delays) < AT_ONCE, delays


async def test_a_bell_rings_at_once_for_what_another_process_does(another: Another, shared_store: str):
    log = another()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.stores.worker", shared_store), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    delays = []
    async with quiet_bell(log) as bell:
        for _ in range(5):
            await hush(bell, 0.1)
            process.stdin.write(b"put\n")
            assert await rings(bell)
            heard = time.time()
            delays.append(heard - float(await process.stdout.readline()))
    process.stdin.write(b"\n")
    await process.communicate()
    assert statistics.median(delays) < AT_ONCE, delays
    assert len(await taken(log)) == 5


async def test_a_bell_rings_when_the_store_is_closed_and_then_there_is_none(another: Another):
    log = another()
    with log.queue.listening(["a"]) as bell:
        hearing = asyncio.ensure_future(rings(bell, 5.0))
        await asyncio.sleep(0.05)
        await log.close()
        assert await hearing
    for attempt in (take(log), log.queue.retry("t"), log.queue.tickets(), log.queue.lapsed(3)):
        with pytest.raises(StoreUnavailable, match="is closed"):
            await attempt
    with pytest.raises(StoreUnavailable, match="is closed"):
        log.queue.listening(["a"])


async def _delay(bell: Bell, happen: Callable[[], Awaitable[object]], pause: float = 0.1) -> float:
    """How long after something was done a bell is heard that was silent before."""
    await hush(bell, pause)
    hearing = asyncio.ensure_future(rings(bell))
    await asyncio.sleep(0)
    await happen()
    done = time.monotonic()
    assert await hearing
    return time.monotonic() - done
