"""The circuits of receivers: kept beside the log, and changed in the transaction of the append."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from changeover.errors import CircuitsOpen, Conflict, Exhausted
from changeover.guards import Circuit
from changeover.guards.breaker import Ended
from changeover.relay.ports.log import Circuits, Log, Reserve
from changeover.relay.ports.tables import Opened
from changeover.stores.sql.log import SqlLog
from tests.guards.circuit_table import BREAKER, TABLE, WHO, End, Force, Offer, Reset, Stand, Step
from tests.stores import conftest
from tests.stores.entries import LEFT, WORKING, more, opening, query

Another = Callable[..., SqlLog]


def offer(*handoffs: str, to: str = WHO) -> Circuits:
    return Circuits(offers=tuple((handoff, to) for handoff in handoffs))


def failed(*handoffs: str, by: str = WHO) -> Circuits:
    return Circuits(ended=tuple(Ended(handoff, by, False, 0.0, BREAKER) for handoff in handoffs))


class Scribe:
    """Writes entries that mean something for circuits, one after the other."""

    def __init__(self, log: Log, conversation: str = "c") -> None:
        self._log, self._conversation, self._end = log, conversation, 0

    async def write(self, circuits: Circuits | None = None, at: float = 1.0) -> None:
        entry = more(self._end, conversation=self._conversation, at=at)
        await self._log.append(entry, LEFT, None, None, circuits)
        self._end += 1


async def refused(log: Log, circuits: Circuits, at: float = 1.0) -> list[tuple[str, str, int, float | None, float]]:
    """What the log says to an entry that offers something to those who are left alone."""
    with pytest.raises(CircuitsOpen) as caught:
        await Scribe(log, "refused").write(circuits, at)
    return list(caught.value.offers)


async def take(log: Log, scribe: Scribe, step: Step, who: str) -> None:
    match step:
        case Offer(handoff, at, None):
            await scribe.write(offer(handoff, to=who), at)
        case Offer(handoff, at, until):
            [(found, receiver, _, then, _)] = await refused(log, offer(handoff, to=who), at)
            assert (found, receiver, then) == (handoff, who, until or None)
        case End(handoff, ok, at, began, breaker):
            await scribe.write(Circuits(ended=(Ended(handoff, who, ok, began, breaker),)), at)
        case Force(at):
            await log.breakers.force(who, at)
        case Reset(at, changed):
            assert await log.breakers.reset(who, at) is changed


async def test_circuits_that_are_kept_stand_as_the_table_says(log: Log):
    scribe = Scribe(log)
    for what_happens, (steps, _) in TABLE.items():
        for step in steps:
            await take(log, scribe, step, what_happens)
    kept = {circuit.receiver: circuit for circuit in await log.breakers.listed()}
    for what_happens, (_, stand) in TABLE.items():
        circuit = kept.get(what_happens, Circuit(what_happens))
        found = Stand(circuit.state, circuit.failures, circuit.openings, circuit.until, circuit.probe)
        assert found == stand, what_happens


async def test_an_entry_that_is_refused_is_not_there_and_names_all_that_stand_in_its_way(log: Log):
    scribe = Scribe(log)
    await scribe.write(failed("a", "b", "c"))
    await scribe.write(failed("a", "b", "c", by="other"))
    wanted = Circuits(offers=(("x", WHO), ("y", "idle"), ("z", "other"), ("w", WHO)))
    assert await refused(log, wanted) == [
        *(("x", WHO, 3, 31.0, 1.0), ("z", "other", 3, 31.0, 1.0), ("w", WHO, 3, 31.0, 1.0)),
    ]
    assert await log.read("refused") == []
    assert [circuit.receiver for circuit in await log.breakers.listed()] == [WHO, "other"]


async def test_of_many_offers_in_one_entry_one_is_let_through(log: Log):
    await Scribe(log).write(failed("a", "b", "c"))
    found = await refused(log, offer("x", "y", "z"), at=31.0)
    assert [handoff for handoff, *_ in found] == ["y", "z"]
    await Scribe(log, "later").write(offer("y"), 31.0)


async def test_what_an_entry_ends_counts_before_what_it_offers(log: Log):
    scribe = Scribe(log)
    await scribe.write(failed("a", "b", "c"))
    await scribe.write(offer("p"), 31.0)
    done = Ended("p", WHO, True, 31.0, BREAKER)
    await scribe.write(Circuits(offers=(("q", WHO),), ended=(done,)), 32.0)
    assert [circuit.state for circuit in await log.breakers.listed()] == ["closed"]


async def test_who_is_refused_for_another_reason_changes_no_circuit(log: Log):
    await log.append(opening("r"), WORKING, Reserve(0, 0, 10, 3, True))
    too_much = Reserve(11, 0, 10, 3)
    for entry, reserve, kind in ((more(2, "", "r"), None, Conflict), (more(3, "", "r"), too_much, Exhausted)):
        with pytest.raises(kind):
            await log.append(entry, WORKING, reserve, None, failed("a"))
    assert await log.breakers.listed() == []


async def test_an_open_circuit_is_told_before_what_is_spent(log: Log):
    await log.breakers.force(WHO, 1.0)
    with pytest.raises(CircuitsOpen):
        await log.append(opening("r"), WORKING, Reserve(11, 0, 10, 3), None, offer("a"))


async def test_a_receiver_that_never_failed_leaves_no_trace(another: Another, shared_store: str):
    scribe = Scribe(another())
    await scribe.write(offer("a"))
    await scribe.write(Circuits(ended=(Ended("a", WHO, True, 1.0, BREAKER),)))
    await scribe.write(Circuits(ended=(Ended("a", WHO, None, 1.0, BREAKER),)))
    assert query(shared_store, "SELECT count(*) FROM breakers") == [(0,)]


async def test_each_opening_is_kept_with_its_time(another: Another, shared_store: str):
    scribe = Scribe(another())
    await scribe.write(failed("a", "b", "c"), 1.0)
    await scribe.write(offer("p"), 31.0)
    await scribe.write(Circuits(ended=(Ended("p", WHO, False, 31.0, BREAKER),)), 32.0)
    await scribe.write(offer("q"), 62.0)
    await scribe.write(Circuits(ended=(Ended("q", WHO, True, 62.0, BREAKER),)), 63.0)
    again = tuple(Ended(name, WHO, False, 64.0, BREAKER) for name in "xyz")
    await scribe.write(Circuits(ended=again), 65.0)
    kept = query(shared_store, "SELECT receiver, number, at FROM breaker_openings ORDER BY number")
    assert kept == [(WHO, 1, 1.0), (WHO, 2, 65.0)]


async def test_a_circuit_that_a_person_opens_is_not_counted_as_an_opening(log: Log):
    await log.breakers.force(WHO, 1.0)
    assert await log.measures.opened(0.0, 10.0) == []
    await log.breakers.reset(WHO, 2.0)
    await Scribe(log).write(Circuits(ended=tuple(Ended(name, WHO, False, 3.0, BREAKER) for name in "abc")), 3.0)
    await log.breakers.force(WHO, 4.0)
    assert await log.measures.opened(0.0, 10.0) == [Opened(WHO, 1)]


async def test_failures_that_come_in_one_transaction_are_counted_one_by_one(log: Log):
    await asyncio.gather(*(Scribe(log, f"c{number}").write(failed(f"h{number}")) for number in range(20)))
    [circuit] = await log.breakers.listed()
    assert (circuit.failures, circuit.openings, circuit.state) == (3, 1, "open")


async def test_other_processes_find_a_circuit_as_it_was_left(another: Another):
    mine, theirs = another(), another()
    await Scribe(mine).write(failed("a", "b", "c"))
    assert await refused(theirs, offer("d")) == [("d", WHO, 3, 31.0, 1.0)]
    assert await theirs.breakers.reset(WHO, 2.0)
    await Scribe(mine, "again").write(offer("d"), 2.0)


def in_threads(work: Callable[[int], object], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def test_processes_that_count_at_once_lose_no_failure(another: Another, shared_store: str):
    logs = [another() for _ in range(4)]
    patient = Ended("", WHO, False, 0.0, type(BREAKER)(threshold=10_000))

    def fails_often(number: int) -> None:
        async def often() -> None:
            scribe = Scribe(logs[number], f"c{number}")
            for _ in range(20):
                await scribe.write(Circuits(ended=(patient,)))

        asyncio.run(often())

    await asyncio.to_thread(in_threads, fails_often, 4)
    assert query(shared_store, "SELECT failures FROM breakers") == [(80,)]


async def test_of_processes_that_ask_at_once_one_is_let_through(another: Another):
    logs = [another() for _ in range(4)]
    await Scribe(logs[0]).write(failed("a", "b", "c"))
    let_through: list[str] = []

    def asks(number: int) -> None:
        async def ask() -> None:
            for turn in range(5):
                name = f"p{number}-{turn}"
                try:
                    await Scribe(logs[number], name).write(offer(name), 31.0)
                    let_through.append(name)
                except CircuitsOpen:
                    pass

        asyncio.run(ask())

    await asyncio.to_thread(in_threads, asks, 4)
    [circuit] = await logs[0].breakers.listed()
    assert let_through == [circuit.probe]


async def test_whoever_hands_over_to_one_who_works_waits_for_nobody(postgres: str, opened: conftest.Opened):
    """Though its row is there: it failed once, long ago."""
    mine, theirs = opened(postgres), opened(postgres)
    await Scribe(mine).write(failed("a"))
    await mine.breakers.reset(WHO, 2.0)
    session = mine._writer._database.connect()
    session.begin()
    session.run([mine._sql.breakers.lock(receivers=mine._sql.listed([WHO]))])
    async with asyncio.timeout(5):
        scribe = Scribe(theirs, "free")
        await scribe.write(offer("b"), 3.0)
        await scribe.write(Circuits(ended=(Ended("b", WHO, True, 3.0, BREAKER),)), 4.0)
    session.rollback()
    session.close()
