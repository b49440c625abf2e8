"""Processes that are stopped or die at an awkward moment: another process goes on with their work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import pytest

from changeover.stores.sql.dialects.postgres import Postgres
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import Store, open_log
from tests.crash.checks import assert_at_most_once, assert_whole
from tests.crash.notes import Note
from tests.crash.nursery import Nursery, Worker, wait_for
from tests.crash.test_kill import as_it_should_be
from tests.crash.worker import Order, Say, Stop, Where
from tests.stores.entries import DONE, more, opening

SAID = [
    [Say("a", "a-1", "look+peek ?save >billing pay"), Say("a", "a-2", "scan >archive")],
    [Say("b", "b-1", "pay ?>tech save+stamp"), Say("b", "b-2", "look+peek+scan")],
]
LEASE = 0.5
STRESS = "CHANGEOVER_STRESS" in os.environ


class Scene:
    """Two processes with the same to say, one of which is stopped at one of its appends."""

    def __init__(self, url: str, nursery: Nursery) -> None:
        self._url, self._nursery = url, nursery
        self.log: SqlLog = open_log(Store(url))

    def start(self, stop: Stop | None = None) -> Worker:
        return self._nursery.start(Order(url=self._url, say=SAID, lease=LEASE, stop=stop))

    def noted(self, worker: Worker, *kinds: str) -> list[Note]:
        return [note for note in self._nursery.notes.read(*kinds) if note.pid == worker.pid]

    def after_it_went_on(self, worker: Worker) -> list[Note]:
        notes = self.noted(worker)
        return notes[[note.what for note in notes].index("goes on") :]

    async def entries(self) -> list[tuple[str, int, str]]:
        return [
            (entry.conversation, entry.position, entry.cause) for id in ("a", "b") for entry in await self.log.read(id)
        ]

    async def assert_all_is_well(self, workers: Sequence[Worker]) -> None:
        expected = await as_it_should_be(SAID)
        notes = self._nursery.notes.read()
        assert [note for note in notes if note.what in ("wrong", "error")] == []
        for worker in workers:
            assert {note.key: note.value for note in self.noted(worker, "result")} == expected
        for id in ("a", "b"):
            assert_whole(await self.log.read(id))
        assert_at_most_once(notes)
        await self.log.close()


@pytest.mark.parametrize("where", ["before", "after", "after, and oversleeps"])
@pytest.mark.parametrize("append", range(1, 16) if STRESS else (1, 4, 10))
@pytest.mark.stress
async def test_a_process_that_slept_through_its_lease_begins_nothing_and_appends_nothing(
    shared_store: str, nursery: Nursery, append: int, where: Where
):
    scene = Scene(shared_store, nursery)
    sleeper = scene.start(Stop(append, where))
    assert wait_for(lambda: bool(scene.noted(sleeper, "stops")), 10)
    other = scene.start()
    assert other.ended(20), "no process took over"
    recorded = await scene.entries()
    sleeper.go_on()
    assert sleeper.ended(20), "its callers got no answer"
    begun = [(note.key, note.kind) for note in scene.after_it_went_on(sleeper) if note.what == "begin"]
    assert begun == []
    assert await scene.entries() == recorded
    await scene.assert_all_is_well([sleeper, other])


async def test_a_message_for_a_process_that_has_just_finished_is_taken_up_by_the_next_process(shared_store: str):
    worker, speaker, heir = (open_log(Store(shared_store)) for _ in range(3))
    await worker.append(opening(), DONE)
    # The speaker saw that the worker owned the conversation, and leaves word; then both die.
    await speaker.append(more(3), None)
    assert await heir.unfinished() == ["c"]
    for log in (worker, speaker, heir):
        await log.close()


async def test_a_process_that_is_stopped_in_mid_transaction_does_not_block_others(postgres: str):
    log = open_log(Store(postgres, lease=0.3))
    await log.append(opening(), DONE)
    stopped = Postgres(postgres, lease=0.3).connect()
    stopped.begin()
    stopped.run([("UPDATE conversations SET position = position WHERE id = %s RETURNING position", ("c",))])
    async with asyncio.timeout(2):
        await log.append(more(3), DONE)
    stopped.close()
    await log.close()
