"""The queue of tickets: whose turn it is, who holds what and for how long; the same in memory and in databases."""

import pytest

from changeover.relay.ports.log import Log
from changeover.relay.ports.queue import Claim, Queued, Taken
from changeover.stores.memory.log import MemoryLog
from changeover.stores.sql.log import SqlLog
from tests.stores.conftest import Opened
from tests.stores.entries import WORKING, opening, query
from tests.stores.tickets import LONG, OVER, Scribe, standing, take, taken, ticket


async def test_the_highest_priority_is_taken_first_then_the_earliest_deadline_then_the_oldest(log: Log):
    await Scribe(log).write(
        ticket("young", at=9.0),
        ticket("old", at=3.0),
        ticket("late", deadline=70.0),
        ticket("soon", deadline=60.0, at=9.0),
        ticket("low", priority=-1, deadline=50.0),
        ticket("high", priority=2, at=10.0),
    )
    assert await taken(log) == ["high", "soon", "late", "old", "young", "low"]


async def test_each_is_taken_as_it_was_put(log: Log):
    put = ticket("t", root="c", at=4.5, priority=3, deadline=90.25)
    await Scribe(log).write(put, ticket("u", root="c", at=4.5))
    assert await take(log, token="mine") == [
        Taken(put, "mine", 1),
        Taken(ticket("u", root="c", at=4.5), "mine", 1),
    ]


async def test_no_more_are_taken_than_are_wanted_and_none_twice(log: Log):
    await Scribe(log).write(*(ticket(f"t{n}", at=float(n)) for n in range(5)))
    assert await taken(log, limit=2) == ["t0", "t1"]
    assert await taken(log, limit=0) == []
    assert await taken(log, limit=2, token="other") == ["t2", "t3"]
    assert await taken(log) == ["t4"]
    assert await taken(log) == []


async def test_who_works_for_several_agents_takes_the_most_urgent_whosever_it_is(log: Log):
    await Scribe(log).write(
        *(ticket(f"a{n}", "a", at=float(n)) for n in range(3)),
        ticket("b0", "b", at=0.5),
        ticket("b1", "b", priority=1, at=9.0),
        ticket("c0", "c", at=0.25),
    )
    assert await taken(log, "ab", limit=3) == ["b1", "a0", "b0"]
    assert await taken(log, "aab", limit=5) == ["a1", "a2"]
    assert await taken(log, "") == []
    assert await taken(log, "nobody knows c") == ["c0"]


async def test_what_has_to_be_taken_before_now_is_left_alone(log: Log):
    await Scribe(log).write(ticket("past", deadline=5.0), ticket("next", deadline=5.5), ticket("none"))
    assert await taken(log, now=5.0) == ["next", "none"]
    assert await taken(log, now=4.9) == ["past"]


async def test_who_fans_out_does_not_stand_before_everybody_else(log: Log):
    scribe = Scribe(log)
    await scribe.write(*(ticket(f"fan{n}", root="fan", at=10.0) for n in range(4)))
    await scribe.write(ticket("x", at=10.5), ticket("y", at=11.5))
    assert await taken(log) == ["fan0", "x", "fan1", "y", "fan2", "fan3"]


async def test_a_tree_stands_no_further_back_than_its_last_ticket_in_the_queue(log: Log):
    scribe = Scribe(log)
    await scribe.write(*(ticket(f"fan{n}", root="fan", at=10.0) for n in range(3)))
    await scribe.write(gone=["fan1", "fan2"])
    await scribe.write(
        ticket("other", at=11.5), ticket("held", root="fan", at=10.0), ticket("last", root="fan", at=50.0)
    )
    assert await taken(log, limit=2) == ["fan0", "held"]
    await scribe.write(ticket("young", at=50.5), ticket("more", root="fan", at=40.0))
    assert await taken(log) == ["other", "last", "young", "more"]


async def test_what_is_not_held_in_time_can_be_taken_again_and_that_is_counted(log: Log):
    await Scribe(log).write(ticket("t"))
    attempts = [(await take(log, token=f"w{n}", lease=OVER))[0].attempt for n in range(2)]
    [last] = await take(log, token="w2")
    assert [*attempts, last.attempt] == [1, 2, 3]
    assert await taken(log) == []


async def test_what_was_taken_too_often_is_left_alone_and_listed(log: Log):
    await Scribe(log).write(ticket("bad", at=1.0), ticket("worse", at=0.0), ticket("good", at=2.0))
    for number in range(2):
        assert await taken(log, token=f"w{number}", lease=OVER, most=2, limit=2) == ["worse", "bad"]
    assert await taken(log, most=2) == ["good"]
    worn = await log.queue.lapsed(2)
    assert worn == [Queued(ticket("worse", at=0.0), attempts=2), Queued(ticket("bad", at=1.0), attempts=2)]
    assert await log.queue.lapsed(3) == []
    assert await taken(log, most=3) == ["worse", "bad"]


async def test_a_worker_takes_tickets_of_its_own_team_only(log: Log):
    await Scribe(log).write(ticket("ours", team="sales", at=2.0), ticket("theirs", team="support", at=1.0))
    assert await taken(log) == []
    [claimed] = await take(log, team="sales", lease=OVER)
    assert claimed.ticket == ticket("ours", team="sales", at=2.0)
    await take(log, team="support", lease=OVER)
    worn = [[each.ticket.id for each in await log.queue.lapsed(1, team)] for team in ("sales", "support", None)]
    assert worn == [["ours"], ["theirs"], ["theirs", "ours"]]


async def test_nothing_is_worn_out_while_somebody_holds_it(log: Log):
    await Scribe(log).write(ticket("t"))
    await take(log, token="first", most=1)
    assert await log.queue.lapsed(1) == []
    await log.queue.renew([Claim("t", "first")], OVER)
    assert [each.ticket.id for each in await log.queue.lapsed(1)] == ["t"]


async def test_what_was_given_back_in_good_order_does_not_count(log: Log):
    await Scribe(log).write(ticket("t"))
    for number in range(4):
        [each] = await take(log, token=f"w{number}", most=1)
        assert each.attempt == 1
        assert await log.queue.give_back(Claim("t", f"w{number}"), counted=False)
    assert await standing(log, "t") == Queued(ticket("t"))


async def test_what_was_given_back_otherwise_counts(log: Log):
    await Scribe(log).write(ticket("t"))
    await take(log)
    assert await log.queue.give_back(Claim("t", "me"), counted=True)
    assert await standing(log, "t") == Queued(ticket("t"), attempts=1)
    assert (await take(log))[0].attempt == 2


async def test_only_who_holds_it_can_give_it_back(log: Log):
    await Scribe(log).write(ticket("t"))
    assert not await log.queue.give_back(Claim("t", "me"), counted=False)
    await take(log, token="theirs")
    assert not await log.queue.give_back(Claim("t", "me"), counted=False)
    assert not await log.queue.give_back(Claim("no such ticket", "me"), counted=False)
    assert (await standing(log, "t")).owner == "theirs"


async def test_what_is_renewed_is_held_for_longer(log: Log):
    await Scribe(log).write(ticket("t"), ticket("u"), ticket("v"))
    await take(log, token="mine", lease=OVER)
    claims = [Claim(id, "mine") for id in ("t", "u")]
    assert await log.queue.renew(claims, LONG) == ["t", "u"]
    assert await taken(log, token="theirs") == ["v"]
    before = (await standing(log, "t")).until
    assert await log.queue.renew(claims[:1], 2 * LONG) == ["t"]
    after = (await standing(log, "t")).until
    assert before is not None
    assert after is not None
    assert LONG / 2 < after - before < 2 * LONG


async def test_who_did_not_renew_in_time_is_told_what_is_lost(log: Log):
    await Scribe(log).write(ticket("t"), ticket("u"))
    await take(log, token="mine", lease=OVER)
    assert await taken(log, token="theirs", limit=1) == ["t"]
    claims = [Claim("t", "mine"), Claim("u", "mine"), Claim("no such ticket", "mine")]
    assert await log.queue.renew(claims, LONG) == [], "both were free to be taken, whoever took them"
    assert await log.queue.renew([Claim("t", "theirs")], LONG) == ["t"]
    assert await log.queue.renew([], LONG) == []


async def test_a_retry_lets_anybody_take_it_as_if_nobody_ever_had(log: Log):
    scribe = Scribe(log)
    await scribe.write(ticket("held"), ticket("worn"), ticket("rests"))
    await take(log, token="w", most=1)
    await log.queue.give_back(Claim("worn", "w"), counted=True)
    await scribe.write(rests=["rests"])
    for id in ("held", "worn", "rests"):
        assert await log.queue.retry(id)
        assert await standing(log, id) == Queued(ticket(id))
    assert not await log.queue.retry("no such ticket")
    assert await taken(log, most=1) == ["held", "rests", "worn"]
    assert await log.queue.renew([Claim("held", "w")], LONG) == []


@pytest.mark.parametrize(("offered", "order"), [(True, ["soon", "any"]), (False, ["any", "soon"])])
async def test_what_is_still_offered_keeps_its_deadline_and_its_place_in_a_retry(
    log: Log, offered: bool, order: list[str]
):
    await Scribe(log).write(ticket("any"), ticket("soon", deadline=60.0))
    assert await taken(log, limit=1) == ["soon"]
    assert await log.queue.retry("soon", offered)
    assert (await standing(log, "soon")).ticket.deadline == (60.0 if offered else None)
    assert await taken(log) == order


async def test_all_are_listed_in_the_order_in_which_they_would_be_taken_with_who_holds_them(log: Log):
    scribe = Scribe(log)
    await scribe.write(ticket("free", "b", at=3.0), ticket("held", at=2.0), ticket("lapsed", at=1.0))
    await scribe.write(ticket("rests", priority=1), rests=["rests"])
    assert await taken(log, token="w") == ["lapsed", "held"]
    await log.queue.renew([Claim("lapsed", "w")], OVER)
    listed = await log.queue.tickets()
    assert [(each.ticket.id, each.owner, each.attempts, each.rests) for each in listed] == [
        ("rests", "", 0, True),
        ("lapsed", "", 1, False),
        ("held", "w", 1, False),
        ("free", "", 0, False),
    ]
    assert await log.queue.tickets("no such ticket") == []


async def test_who_holds_it_is_named_only_in_time(log: Log):
    await Scribe(log).write(ticket("t"))
    await take(log, token="w")
    held = await standing(log, "t")
    assert (held.owner, held.until is not None) == ("w", True)
    await log.queue.renew([Claim("t", "w")], OVER)
    assert await standing(log, "t") == Queued(ticket("t"), attempts=1)


async def test_leases_in_memory_run_by_the_clock_that_the_log_is_given():
    now = 100.0
    log = MemoryLog(lambda: now)
    await Scribe(log).write(ticket("t"))
    await take(log, token="mine", lease=5.0)
    assert (await standing(log, "t")).until == 105.0
    now = 104.9
    assert await taken(log) == []
    await log.queue.renew([Claim("t", "mine")], 5.0)
    now = 109.8
    assert await taken(log) == []
    now = 109.9
    assert await taken(log) == ["t"]


class Compared(str):
    """An id that counts how often it is compared."""

    times = 0

    def __lt__(self, other: str) -> bool:
        Compared.times += 1
        return str.__lt__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("count", [100, 20_000])
async def test_what_is_first_in_memory_is_found_without_looking_at_all_that_wait(count: int):
    log = MemoryLog()
    await Scribe(log).write(*(ticket(Compared(f"t{n:05}")) for n in range(count)))
    Compared.times = 0
    assert await taken(log, limit=3) == ["t00000", "t00001", "t00002"]
    assert 0 < Compared.times < 200


async def test_tickets_that_left_from_the_middle_leave_no_trace_in_memory():
    log = MemoryLog()
    scribe = Scribe(log)
    await scribe.write(ticket("first", at=0.0))
    for number in range(50):
        await scribe.write(*(ticket(f"t{number}.{n}") for n in range(20)))
        await scribe.write(gone=[f"t{number}.{n}" for n in range(20)])
    [line] = log.queue._lines.values()
    assert len(line._heap) < 50
    assert await taken(log) == ["first"]


async def test_the_queue_needs_no_lease_of_the_process(shared_store: str, opened: Opened):
    writer, worker = opened(shared_store), opened(shared_store)
    await Scribe(writer).write(ticket("t"))
    assert await taken(worker, token="w") == ["t"]
    assert await worker.queue.renew([Claim("t", "w")], LONG) == ["t"]
    assert await worker.queue.give_back(Claim("t", "w"), counted=False)
    assert await worker.queue.retry("t")
    assert worker.epoch == 0
    assert len(query(shared_store, "SELECT id FROM processes")) == 1


async def test_the_queue_goes_on_when_the_process_has_lost_its_lease(shared_store: str, opened: Opened):
    log: SqlLog = opened(shared_store)
    await Scribe(log).write(ticket("t"))
    query(shared_store, "DELETE FROM processes")
    assert await taken(log) == ["t"]
    assert await log.queue.renew([Claim("t", "me")], LONG) == ["t"]


@pytest.mark.parametrize("count", [1, 3])
async def test_a_conversation_without_tickets_asks_nothing_about_them(sqlite_file, opened: Opened, count: int):
    log = opened(f"sqlite:///{sqlite_file}")
    await log.append(opening("first"), WORKING)
    asked: list[str] = []
    log._writer._session.connection.set_trace_callback(asked.append)  # type: ignore[attr-defined]
    for number in range(count):
        await log.append(opening(f"c{number}"), WORKING)
    log._writer._session.connection.set_trace_callback(None)  # type: ignore[attr-defined]
    assert asked
    assert not [sql for sql in asked if "tickets" in sql]
