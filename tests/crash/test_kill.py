"""Processes that are killed at random moments, and others that go on where they were."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from changeover.relay.events import ToolFinished
from changeover.stores.memory.log import MemoryLog
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import Store, open_log
from tests.crash.checks import assert_at_most_once, assert_none_again, assert_whole, causes, events_of
from tests.crash.nursery import Nursery, wait_for
from tests.crash.plans import Play, a_plan, essence
from tests.crash.worker import How, Order, Say, options

STRESS = "CHANGEOVER_STRESS" in os.environ
KILLS = 500 if STRESS else 20
SEED = os.environ.get("CHANGEOVER_SEED") or os.urandom(4).hex()
AT_ONCE = 8
"""How many conversations a process works on."""


def a_round(rng: random.Random, number: int) -> list[list[Say]]:
    """Conversations of several messages each; the second and the third are said at the same time."""
    rows = []
    for index in range(AT_ONCE):
        id = f"r{number}c{index}"
        first, second, third = (Say(id, f"{id}-{turn}", a_plan(rng)) for turn in range(3))
        rows += [[first, second], [first, third]]
    return rows


async def as_it_should_be(rows: Sequence[Sequence[Say]]) -> dict[str, list[Any]]:
    """The answers of a process that is not killed."""
    says = {say.key: say for row in rows for say in row}
    async with Play(lambda *noted: None).team(MemoryLog()) as team:

        async def result(say: Say) -> list[Any]:
            return essence(await team.run(say.text, **options(say)))

        return dict(zip(says, await asyncio.gather(*map(result, says.values())), strict=True))


class Slaughter:
    """Lets processes begin, kills each of them, and notes what the log holds then."""

    def __init__(self, url: str, nursery: Nursery) -> None:
        self._url, self._nursery = url, nursery
        self._rng = random.Random(SEED)
        self._log: SqlLog = open_log(Store(url))
        self.kills = self.lives = 0
        self.held: dict[int, set[str]] = {}
        self.unknown = 0

    async def round(self, number: int) -> None:
        """A number of conversations, until they have all ended."""
        rows = a_round(self._rng, number)
        expected = await as_it_should_be(rows)
        while not await self._life(rows):
            pass
        await self._look_at(rows, expected)

    async def _life(self, rows: list[list[Say]]) -> bool:
        """One process; whether it lived to the end of its work."""
        nursery, rng = self._nursery, self._rng
        self.lives += 1
        before = len(nursery.notes.read())
        how: How = rng.choice(("run", "run", "stream", "resume"))
        order = Order(url=self._url, say=rows, how=how, seed=f"{SEED}-{self.lives}")
        worker = nursery.start(order)
        if rng.random() < 0.75:
            # Most are killed at work; others while they open the store, or wait for the lease of the last one to end.
            wait_for(lambda: not worker.alive or _works(nursery, before), 5)
            moment = rng.uniform(0, 0.25)
        else:
            moment = rng.uniform(0, 1)
        survived = worker.ended(moment if self.kills < KILLS else 30)
        if not survived:
            assert self.kills < KILLS, "the conversations do not end"
            worker.kill()
            self.kills += 1
            await self._take_note({say.conversation for row in rows for say in row})
        return survived

    async def _take_note(self, conversations: set[str]) -> None:
        entries = [entry for id in conversations for entry in await self._log.read(id)]
        self.held[len(self._nursery.notes.read())] = causes(entries)

    async def _look_at(self, rows: list[list[Say]], expected: dict[str, list[Any]]) -> None:
        for id in {say.conversation for row in rows for say in row}:
            entries = await self._log.read(id)
            assert_whole(entries)
            self.unknown += sum(isinstance(event, ToolFinished) and event.unknown for event in events_of(entries))
        results = [note for note in self._nursery.notes.read("result") if note.key in expected]
        assert {note.key for note in results} == expected.keys()
        wrong = [note for note in results if note.value != expected[note.key]]
        assert not wrong, f"expected {[expected[note.key] for note in wrong]}, and got {wrong}"
        runs = {(note.key, note.kind) for note in results}
        assert len(runs) == len(expected), "something that was said once was run twice"

    async def close(self) -> None:
        await self._log.close()


def _works(nursery: Nursery, before: int) -> bool:
    return any(note.what == "begin" for note in nursery.notes.read()[before:])


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 120)
async def test_processes_that_are_killed_at_random_lose_nothing_and_repeat_nothing(shared_store: str, nursery: Nursery):
    print(f"CHANGEOVER_SEED={SEED}")
    slaughter, number = Slaughter(shared_store, nursery), 0
    while slaughter.kills < KILLS:
        await slaughter.round(number)
        number += 1
    await slaughter.close()
    notes = nursery.notes.read()
    assert [note for note in notes if note.what in ("wrong", "error")] == []
    assert_none_again(notes, slaughter.held)
    assert_at_most_once(notes)
    begun = Counter((note.pid, note.key) for note in notes if note.what == "begin")
    assert all(count == 1 for count in begun.values()), f"begun twice in one life: {begun.most_common(3)}"
    repeated = sum(count > 1 for count in Counter(note.key for note in notes if note.what == "begin").values())
    figures = f"{number} rounds, {len(begun)} effects, {repeated} cut short, {slaughter.unknown} unknown"
    print(f"{slaughter.kills} kills, {figures}")
