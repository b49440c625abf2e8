"""Whatever is done to a queue, in whatever order, each store does what the simplest one would do."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from changeover.errors import ClaimLost
from changeover.facts import Ticket
from changeover.relay.ports.log import Log
from changeover.relay.ports.queue import Claim, Queued, Take
from changeover.stores.memory.log import MemoryLog
from changeover.stores.store import Store, open_log
from tests.databases import KINDS
from tests.stores.entries import query
from tests.stores.queue_model import QueueModel
from tests.stores.tickets import Scribe

AGENTS = ("a", "b")
LEASE = 60.0

ids = st.sampled_from([f"t{number}" for number in range(6)])
halves = st.integers(0, 12).map(lambda number: number / 2)
tickets = st.builds(
    Ticket,
    id=ids,
    agent=st.sampled_from(AGENTS),
    conversation=st.just("c"),
    place=st.just("c"),
    root=st.sampled_from(["r", "s"]),
    priority=st.integers(-1, 1),
    deadline=st.none() | halves,
    at=halves,
)
which = st.integers(0, 30)
"""One of the claims that there have been."""

Step = tuple[Any, ...]
steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("record"), st.lists(tickets, max_size=3), st.just([]), st.just([]), st.none(), st.just(False)),
    st.tuples(
        *(st.just("record"), st.lists(tickets, max_size=2), st.lists(ids, max_size=2), st.lists(ids, max_size=2)),
        *(st.none() | which, st.booleans()),
    ),
    st.tuples(
        st.just("take"),
        st.lists(st.sampled_from(AGENTS), max_size=3),
        st.sampled_from([LEASE, -1.0]),
        st.integers(0, 3),
        st.integers(1, 3),
        halves,
    ),
    st.tuples(st.just("renew"), st.lists(which, max_size=3, unique=True), st.sampled_from([LEASE, -1.0])),
    st.tuples(st.just("give_back"), which, st.booleans()),
    st.tuples(st.just("retry"), ids, st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 2 * LEASE])),
)


@dataclass
class Stage:
    """A store, and how time passes in it."""

    log: Log
    wait: Callable[[float], object]
    clear: Callable[[], object]


@pytest.fixture(params=["memory", *KINDS])
def stages(request: pytest.FixtureRequest) -> Iterator[Callable[[], Stage]]:
    """Makes stores without tickets: in memory a new one each time, of a database the same again."""
    if request.param == "memory":
        yield _in_memory
        return
    file = request.param == "sqlite"
    url = f"sqlite:///{request.getfixturevalue('sqlite_file')}" if file else request.getfixturevalue("postgres")
    log = open_log(Store(url))

    def again() -> Stage:
        # The clock is the database's own, so it is the leases that move.
        return Stage(
            log,
            lambda seconds: query(url, f"UPDATE tickets SET until = until - {seconds}"),
            lambda: query(url, "DELETE FROM tickets"),
        )

    yield again
    asyncio.run(log.close())


def _in_memory() -> Stage:
    now = [100.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    return Stage(MemoryLog(lambda: now[0]), wait, lambda: None)


conversations = (f"c{number}" for number in count())


class Performance:
    """The same steps, carried out by a store and by the model."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.queue, self.model = stage, stage.log.queue, QueueModel()
        self.scribe = Scribe(stage.log, next(conversations))
        self.claims: list[Claim] = []

    def claim(self, number: int) -> Claim:
        return self.claims[number % len(self.claims)] if self.claims else Claim("t0", "nobody")

    async def record(
        self, new: list[Ticket], rests: list[str], gone: list[str], which: int | None, ends: bool
    ) -> tuple[bool, bool]:
        claim = None if which is None else replace(self.claim(which), ends=ends)
        try:
            await self.scribe.write(*new, rests=rests, gone=gone, claim=claim)
        except ClaimLost:
            return False, self.model.record(new, rests, gone, claim)
        return True, self.model.record(new, rests, gone, claim)

    async def take(self, agents: list[str], lease: float, limit: int, most: int, now: float) -> tuple[Any, Any]:
        terms = (agents, f"w{len(self.claims)}", lease, limit, most, now)
        taken = await self.queue.take(Take(*terms))
        self.claims += [Claim(each.ticket.id, each.token) for each in taken]
        return taken, self.model.take(*terms)

    async def renew(self, numbers: list[int], lease: float) -> tuple[Any, Any]:
        claims = list(dict.fromkeys(self.claim(number) for number in numbers))
        return await self.queue.renew(claims, lease), self.model.renew(claims, lease)

    async def give_back(self, number: int, counted: bool) -> tuple[Any, Any]:
        claim = self.claim(number)
        return await self.queue.give_back(claim, counted), self.model.give_back(claim, counted)

    async def retry(self, id: str, offered: bool) -> tuple[Any, Any]:
        return await self.queue.retry(id, offered), self.model.retry(id, offered)

    async def wait(self, seconds: float) -> tuple[None, None]:
        self.stage.wait(seconds)
        self.model.now += seconds
        return None, None

    async def look(self) -> tuple[Any, Any]:
        return (
            [_untimed(await self.queue.tickets()), *[_untimed(await self.queue.lapsed(most)) for most in (1, 2)]],
            [self.model.tickets(), *[self.model.lapsed(most) for most in (1, 2)]],
        )


def _untimed(listed: list[Queued]) -> list[Queued]:
    """Without the time, which is the store's own; if somebody holds it there is one, and else none."""
    assert all((each.until is not None) == (each.owner != "") for each in listed)
    return [replace(each, until=None) for each in listed]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(steps, min_size=5, max_size=40))
def test_a_queue_does_what_its_model_does(stages: Callable[[], Stage], script: list[Step]):
    stage = stages()
    stage.clear()
    asyncio.run(_perform(Performance(stage), script))


async def _perform(performance: Performance, script: list[Step]) -> None:
    for verb, *terms in script:
        did, should = await getattr(performance, verb)(*terms)
        assert did == should, (verb, terms)
        did, should = await performance.look()
        assert did == should, (verb, terms)
