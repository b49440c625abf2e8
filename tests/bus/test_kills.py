"""Processes are killed while they hand out events and start schedules: nothing is lost, doubled or out of order."""

import asyncio
import os
import random
import sqlite3
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import pytest

from changeover import Team
from tests.bus.process import CRON, SUBSCRIBERS, FileClock, Mother, Order, team_of
from tests.crash.nursery import Worker

STRESS = "CHANGEOVER_STRESS" in os.environ
EVENTS = 10_000 if STRESS else 120
KILLS = 60 if STRESS else 2
DUE_TIMES = 1_000 if STRESS else 20
SOURCES = 12
SEED = os.environ.get("CHANGEOVER_SEED") or os.urandom(4).hex()


class Pair:
    """Keeps two processes alive, though it kills one of them again and again."""

    def __init__(self, mother: Mother, order: Order) -> None:
        self._mother, self._order, self.rng = mother, order, random.Random(SEED)
        self._alive: list[Worker] = []
        self.kills = 0

    def fill_up(self) -> None:
        self._alive = [worker for worker in self._alive if worker.alive]
        while len(self._alive) < 2:
            self._alive.append(self._mother.start(self._order))

    def end(self) -> None:
        """Kill both."""
        for worker in self._alive:
            worker.kill()

    def kill(self) -> None:
        self.rng.choice(self._alive).kill()
        self.kills += 1
        self.fill_up()


async def publish_all(team: Team, rng: random.Random) -> dict[str, int]:
    """Publish events of several sources at once, each source in order; returns the ids of the poisonous ones."""
    poison: dict[str, int] = {}

    async def publish(source: int) -> None:
        for number in range(source, EVENTS, SOURCES):
            bad = rng.random() < 0.02
            data = {"number": number, "poison": bad}
            id = await team.bus.publish("number", data, source=f"s{source}", key=f"number-{number}")
            if rng.random() < 0.1:  # a publisher that did not hear the answer
                assert await team.bus.publish("number", data, source=f"s{source}", key=f"number-{number}") == id
            if bad:
                poison[id] = number

    await asyncio.gather(*map(publish, range(SOURCES)))
    return poison


def handled(notes: Path) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """What each subscriber got of each source, in the order in which it got it."""
    found: defaultdict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for line in notes.read_text().splitlines():
        subscriber, source, number, id = line.split()
        found[subscriber, source].append((int(number), id))
    return found


def effects(notes: Path) -> int:
    """How many effects there are if each is made under the key of its event and its subscriber."""
    ledger = sqlite3.connect(":memory:")
    ledger.execute("CREATE TABLE effects (subscriber TEXT, event TEXT, PRIMARY KEY (subscriber, event))")
    for line in notes.read_text().splitlines():
        subscriber, _, _, id = line.split()
        ledger.execute("INSERT OR IGNORE INTO effects VALUES (?, ?)", (subscriber, id))
    [(count,)] = ledger.execute("SELECT count(*) FROM effects").fetchall()
    ledger.close()
    return int(count)


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 120)
async def test_every_subscriber_handles_every_event_in_order_though_processes_are_killed(
    shared_store: str, tmp_path: Path, mother: Mother
):
    print(f"CHANGEOVER_SEED={SEED}")
    order = Order(shared_store, str(tmp_path / "notes"))
    notes = Path(order.notes)
    team = team_of(order)  # it publishes, and hands nothing out
    pair = Pair(mother, order)
    pair.fill_up()
    publishing = asyncio.ensure_future(publish_all(team, pair.rng))
    until = time.monotonic() + (800 if STRESS else 100)
    kills = sorted(pair.rng.sample(range(1, 2 * EVENTS, 50), KILLS))  # after so many events, two thirds at most
    while not publishing.done() or any(each.waiting for each in await team.bus.backlog()):
        assert time.monotonic() < until, await team.bus.backlog()
        await asyncio.sleep(pair.rng.uniform(0.0, 0.02))
        if pair.kills < KILLS and len(_words(notes)) >= kills[pair.kills]:
            pair.kill()
    poison = await publishing
    pair.end()
    assert pair.kills == KILLS
    letters = await team.bus.dead_letters(limit=10_000)
    await team.close()
    assert {(each.event.id, each.subscriber) for each in letters} == {(id, "second") for id in poison}
    found = handled(notes)
    for subscriber in SUBSCRIBERS:
        for source in range(SOURCES):
            wanted = range(source, EVENTS, SOURCES)
            got = [number for number, _ in groupby(number for number, _ in found[subscriber, f"s{source}"])]
            skipped = poison.values() if subscriber == "second" else ()
            assert got == [number for number in wanted if number not in skipped]
    assert effects(notes) == 3 * EVENTS - len(poison)


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 120)
async def test_each_due_time_has_one_start_and_none_is_early_though_processes_are_killed(
    shared_store: str, tmp_path: Path, mother: Mother
):
    print(f"CHANGEOVER_SEED={SEED}")
    begin = datetime.fromisoformat("2030-03-30T22:01:00+00:00").timestamp()
    clock = FileClock(str(tmp_path / "clock"))
    clock.move(begin)
    order = Order(shared_store, str(tmp_path / "notes"), str(tmp_path / "clock"))
    notes = Path(order.notes)
    team = team_of(order)
    [schedule] = (await team.engine.world()).schedules
    due_times = schedule.next_runs(begin, DUE_TIMES)
    assert schedule.cron == CRON
    pair = Pair(mother, order)
    pair.fill_up()
    await until_true(lambda: _known(team))
    kills = set(pair.rng.sample(range(DUE_TIMES), KILLS))
    for number, due in enumerate(due_times):
        clock.move(due - pair.rng.uniform(1.0, 100.0))
        clock.move(due + pair.rng.uniform(0.0, 30.0))
        if number in kills:
            await asyncio.sleep(pair.rng.uniform(0.0, 0.02))
            pair.kill()
        await until_true(lambda due=due: _handled(team, due))  # type: ignore[misc]
    await until_true(lambda: _nothing_left(team))
    pair.end()
    started = await team.bus.events(limit=10_000)
    await team.close()
    assert [event.data["due"] for event in reversed(started)] == [_utc(due) for due in due_times]
    lines = _words(notes)
    assert list(dict.fromkeys(due for _, due, _ in lines)) == [_utc(due) for due in due_times]
    assert all(float(at) >= datetime.fromisoformat(due).timestamp() for _, due, at in lines)
    assert len({id for id, _, _ in lines}) == DUE_TIMES


def _words(notes: Path) -> list[list[str]]:
    return [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


async def until_true(holds: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < until
        await asyncio.sleep(0.003)


async def _known(team: Team) -> bool:
    return bool(await team.log.timetable.known(team.name))


async def _handled(team: Team, due: float) -> bool:
    [state] = await team.log.timetable.known(team.name)
    return state.handled >= due


async def _nothing_left(team: Team) -> bool:
    return not await team.bus.backlog()
