"""Several processes on one store that use the same conversations at once."""

import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from changeover.stores.store import Store, open_log
from tests.crash.checks import assert_at_most_once, assert_whole
from tests.crash.nursery import Nursery, Worker, wait_for
from tests.crash.plans import a_plan
from tests.crash.test_kill import as_it_should_be
from tests.crash.worker import Order, Say

LEASE = 10.0
"""Long: all processes here are alive."""


class Ring:
    """Where processes fight for conversations."""

    def __init__(self, url: str, nursery: Nursery) -> None:
        self._url, self._nursery = url, nursery
        self._said: list[list[Say]] = []
        self._fighters: list[tuple[Worker, set[str]]] = []

    def enter(self, rows: list[list[Say]], begin_at: float = 0.0, **options: Any) -> Worker:
        order = Order(url=self._url, say=rows, lease=LEASE, begin_at=begin_at, **options)
        fighter = self._nursery.start(order)
        self._said += rows
        self._fighters.append((fighter, {say.key for row in rows for say in row}))
        return fighter

    def fight(self, tasks: Sequence[list[list[Say]]], **options: Any) -> None:
        """All begin at once, and none ends before all have their answers."""
        begin_at = time.monotonic() + 0.2
        for rows in tasks:
            self.enter(rows, begin_at, stay=True, **options)
        assert wait_for(lambda: len(self._nursery.notes.read("done")) == len(tasks), 30), "the fight does not end"

    async def assert_fair(self) -> None:
        """Every caller was answered, and every effect happened once."""
        expected = await as_it_should_be(self._said)
        notes = self._nursery.notes.read()
        assert [note for note in notes if note.what in ("wrong", "error")] == []
        for fighter, keys in self._fighters:
            results = {note.key: note.value for note in notes if note.what == "result" and note.pid == fighter.pid}
            assert results == {key: expected[key] for key in keys}
        assert len({(note.key, note.kind) for note in notes if note.what == "result"}) == len(expected)
        log = open_log(Store(self._url))
        for id in {say.conversation for row in self._said for say in row}:
            assert_whole(await log.read(id))
        await log.close()
        assert_at_most_once(notes)
        begun = Counter(note.key for note in notes if note.what == "begin")
        twice = {key for key, count in begun.items() if count > 1}
        assert [(note.pid, note.key, note.kind) for note in notes if note.what == "begin" and note.key in twice] == []


def conversations(count: int, turns: int, mark: str = "", seed: int = 1) -> list[list[Say]]:
    rng = random.Random(seed)
    return [[Say(f"c{id}", f"c{id}-{mark}{turn}", a_plan(rng)) for turn in range(turns)] for id in range(count)]


@pytest.mark.parametrize("how", ["run", "stream", "resume"])
@pytest.mark.parametrize("fighters", [2, 4])
async def test_processes_that_say_the_same_with_the_same_keys_share_every_run(
    shared_store: str, nursery: Nursery, fighters: int, how: str
):
    ring = Ring(shared_store, nursery)
    ring.fight([conversations(6, 2)] * fighters, how=how)
    await ring.assert_fair()


@pytest.mark.parametrize("fighters", [2, 4])
async def test_processes_that_speak_in_the_same_conversations_are_each_answered_once(
    shared_store: str, nursery: Nursery, fighters: int
):
    ring = Ring(shared_store, nursery)
    ring.fight([conversations(6, 2, f"p{number}-", number) for number in range(fighters)])
    await ring.assert_fair()


async def test_a_conversation_passes_from_process_to_process_turn_by_turn(shared_store: str, nursery: Nursery):
    ring = Ring(shared_store, nursery)
    [row] = conversations(1, 8)
    for number, say in enumerate(row):
        ring.enter([[say]], stay=True)
        assert wait_for(lambda number=number: len(nursery.notes.read("done")) == number + 1, 10)  # type: ignore[misc]
    await ring.assert_fair()
