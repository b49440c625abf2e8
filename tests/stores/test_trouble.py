"""When the database fails: a clear error, and nothing half-written."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from changeover.errors import Conflict, StoreUnavailable
from changeover.stores.sql.dialects import sqlite as sqlite_store
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import Store, database_of, open_log
from tests.databases import cut_connections
from tests.stores.conftest import Opened
from tests.stores.connection_loss import losing_at_once, losing_once
from tests.stores.entries import WORKING, more, opening, query, stored

Another = Callable[..., SqlLog]


def locked_for(path: Path, seconds: float) -> threading.Thread:
    """Another program holds the file's lock."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN EXCLUSIVE")

    def let_go() -> None:
        time.sleep(seconds)
        connection.rollback()
        connection.close()

    thread = threading.Thread(target=let_go)
    thread.start()
    return thread


async def test_a_file_that_is_locked_for_three_seconds_is_waited_for(opened: Opened, sqlite_file: Path):
    log = opened(f"sqlite:///{sqlite_file}")
    await log.append(opening(), WORKING)
    thread = locked_for(sqlite_file, 3.0)
    begun = time.monotonic()
    appended = asyncio.ensure_future(asyncio.gather(*(log.append(opening(f"c{n}"), WORKING) for n in range(5))))
    longest = 0.0
    while not appended.done():
        before = time.monotonic()
        assert len(await log.read("c")) == 1
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - before)
    await appended
    assert 2.9 < time.monotonic() - begun < 8
    assert longest < 1.5, "the event loop stood still"
    thread.join()


async def test_a_file_that_stays_locked_is_unavailable_and_then_available_again(
    opened: Opened, sqlite_file: Path, monkeypatch: pytest.MonkeyPatch
):
    log = opened(f"sqlite:///{sqlite_file}")
    await log.append(opening(), WORKING)
    monkeypatch.setattr(sqlite_store, "PATIENCE", 0.2)
    thread = locked_for(sqlite_file, 0.6)
    with pytest.raises(StoreUnavailable, match=r"store\.db cannot be written: database is locked"):
        await log.append(more(3), WORKING)
    await asyncio.to_thread(thread.join)
    await log.append(more(3), WORKING)
    assert await stored(log) == [(0, "said@1", 1), (3, "said@3", 4)]


FILLS_ITS_DISK = """
import asyncio, resource, sys
from changeover.errors import StoreUnavailable
from changeover.stores.sql.database import Session, Write
from changeover.stores.store import Store, database_of
from tests.stores.entries import WORKING, opening
from tests.stores.projecting import open_log

async def main(path):
    log = open_log(Store(f"sqlite:///{path}"))
    await log.append(opening("first"), WORKING)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    kept, lost = ["first"], []
    for number in range(100):
        batch = [f"c{number}-{index}" for index in range(5)]
        tries = [log.append(opening(id, "x" * 2000), WORKING) for id in batch]
        done = await asyncio.gather(*tries, return_exceptions=True)
        assert all(each is None or isinstance(each, StoreUnavailable) for each in done), done
        kept += [id for id, each in zip(batch, done) if each is None]
        lost += [(id, str(each)) for id, each in zip(batch, done) if each is not None]
        if len(lost) > 20:
            break
    assert lost, "the disk was never full"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for id in kept:
        assert len(await log.read(id)) == 1, id
    for id, _ in lost:
        assert await log.read(id) == [], id
    for id, _ in lost:
        await log.append(opening(id), WORKING)
    await log.close()
    print(lost[0][1])

asyncio.run(main(sys.argv[1]))
"""


def test_on_a_full_disk_appends_fail_clearly_and_whole_and_go_on_when_there_is_room(bare_file: Path):
    command = [sys.executable, "-c", FILLS_ITS_DISK, str(bare_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert "cannot be written" in done.stdout
    [(sound,)] = query(f"sqlite:///{bare_file}", "PRAGMA integrity_check")
    assert sound == "ok"
    tables = [
        query(f"sqlite:///{bare_file}", f"SELECT count(*) FROM {name}")[0][0]
        for name in ("entries", "conversations", "tasks")
    ]
    assert len(set(tables)) == 1, "an append is there in part"


def test_a_file_that_is_no_database_is_refused(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes.\n" * 100)
    with pytest.raises(StoreUnavailable, match=r"notes\.txt cannot be opened: file is not a database"):
        open_log(Store(f"sqlite:///{path}"))
    assert path.read_text().startswith("These are my notes.")


def test_a_directory_is_refused(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match="it is a directory"):
        open_log(Store(f"sqlite:///{tmp_path}"))


def test_a_file_in_a_directory_that_does_not_exist_is_refused(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match="which does not exist"):
        open_log(Store(f"sqlite:///{tmp_path}/none/store.db"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_file_that_may_not_be_written_is_refused(bare_file: Path):
    bare_file.touch(mode=0o400)
    with pytest.raises(StoreUnavailable, match="readonly"):
        open_log(Store(f"sqlite:///{bare_file}"))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ana:secret@127.0.0.1:1/none", "postgresql://ana:***@127.0.0.1:1/none"),
        (
            "postgresql://127.0.0.1:1/none?password=secret&user=ana",
            "postgresql://127.0.0.1:1/none?password=***&user=ana",
        ),
        ("postgresql:///none?host=127.0.0.1&port=1&sslpassword=secret", "host=127.0.0.1&port=1&sslpassword=***"),
    ],
)
def test_a_server_that_is_not_there_is_named_without_its_password(url: str, shown: str):
    with pytest.raises(StoreUnavailable) as caught:
        open_log(Store(url))
    assert f"{shown} cannot be reached" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_damaged_entry_is_called_one(opened: Opened, sqlite_file: Path):
    log = opened(f"sqlite:///{sqlite_file}")
    await log.append(opening(), WORKING)
    query(f"sqlite:///{sqlite_file}", "UPDATE entries SET body = '[{'")
    with pytest.raises(StoreUnavailable, match="damaged"):
        await log.read("c")


async def test_an_append_that_the_database_cannot_hold_fails_alone(postgres: str, opened: Opened):
    log = opened(postgres)
    await asyncio.gather(*(log.append(opening(f"c{number}"), WORKING) for number in range(10)))
    tries = [log.append(more(3, "", f"c{number}"), WORKING) for number in range(9)]
    too_long = log.append(more(3, os.urandom(20_000).hex(), "c9"), WORKING)
    *good, bad = await asyncio.gather(*tries, too_long, return_exceptions=True)
    assert good == [None] * 9
    assert isinstance(bad, StoreUnavailable)
    assert await stored(log, "c9") == [(0, "said@1", 1)]


async def test_appends_survive_the_loss_of_their_connection_once_each_or_are_reported(postgres: str, opened: Opened):
    log, stop = opened(postgres), threading.Event()
    await log.append(opening("first"), WORKING)
    killer = threading.Thread(target=_cut_again_and_again, args=(postgres, stop))
    killer.start()
    try:
        outcomes = await asyncio.gather(*(_talk(log, f"c{number}") for number in range(20)))
    finally:
        stop.set()
        killer.join()
    for number, (said, reported) in enumerate(outcomes):
        kept = [position for position, _, _ in await stored(log, f"c{number}")]
        assert kept == [0, *range(3, 3 + len(kept) - 1)], "a gap, or the same twice"
        assert set(said) <= set(kept), "what was confirmed is not there"
        assert len(kept) - len(said) <= reported, "something is there that was neither confirmed nor reported"


async def test_a_commit_of_which_nobody_heard_is_not_repeated(postgres: str, opened: Opened):
    log = opened(postgres)
    await log.append(opening(), WORKING)
    lost = losing_once(log)
    entry = more(3)
    await log.append(entry, WORKING)
    assert lost, "nothing was lost, so nothing is shown"
    assert (entry.seq, await stored(log)) == (4, [(0, "said@1", 1), (3, "said@3", 4)])
    await log.append(more(4), WORKING)


async def test_what_another_process_wrote_at_the_same_moment_is_not_taken_for_a_commit_of_which_nobody_heard(
    postgres: str, opened: Opened
):
    log, other = opened(postgres), opened(postgres)
    await asyncio.gather(log.append(opening("mine"), WORKING), other.append(opening("theirs"), WORKING))
    await other.append(opening("both"), WORKING)
    losing_at_once(log)
    with pytest.raises(Conflict):
        await log.append(opening("both"), WORKING)
    await other.append(more(3, "", "both"), WORKING)


async def test_a_process_that_stands_still_in_mid_transaction_does_not_hold_up_the_others(
    postgres: str, opened: Opened
):
    log = opened(postgres, 0.6)
    await log.append(opening(), WORKING)
    stopped = database_of(Store(postgres, 0.6)).connect()
    stopped.begin()
    stopped.run([("SELECT id FROM conversations FOR UPDATE", ())])
    async with asyncio.timeout(2):
        await log.append(more(3), WORKING)
    assert log.epoch == 1, "the wait cost the other its lease"
    stopped.close()


async def test_reads_survive_the_loss_of_their_connections(postgres: str, opened: Opened):
    log = opened(postgres)
    await log.append(opening(), WORKING)
    for _ in range(3):
        assert len(await log.read("c")) == 1
        cut_connections(postgres)
        assert await log.find("c", "said@1") == 0


async def _talk(log: SqlLog, conversation: str) -> tuple[list[int], int]:
    """Append one after the other; what was confirmed, and how often the store was unavailable."""
    said, reported = [], 0
    await log.append(opening(conversation), WORKING)
    said.append(0)
    for position in range(3, 33):
        try:
            await log.append(more(position, "", conversation), WORKING)
            said.append(position)
        except StoreUnavailable:
            reported += 1
            if (await stored(log, conversation))[-1][0] < position:
                break
    return said, reported


def _cut_again_and_again(url: str, stop: threading.Event) -> None:
    while not stop.wait(0.01):
        cut_connections(url)
