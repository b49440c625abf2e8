"""Many who take at once, in one process and in several: each ticket is one's alone, and nobody waits in vain."""

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from changeover.errors import ClaimLost
from changeover.relay.ports.log import Log
from changeover.relay.ports.queue import Claim, Queued
from changeover.stores.memory.log import MemoryLog
from changeover.stores.sql.log import SqlLog
from tests.stores.conftest import Opened
from tests.stores.entries import LEFT, opening, query, until
from tests.stores.tickets import LONG, OVER, Scribe, standing, take, taken, ticket

Another = Callable[..., SqlLog]

COUNT = 120


async def fill(log: Log, count: int = COUNT) -> list[str]:
    """Tickets for two agents."""
    await Scribe(log).write(*(ticket(f"t{n:03}", "ab"[n % 2], at=float(n)) for n in range(count)))
    return [f"t{n:03}" for n in range(count)]


async def take_all(log: Log, name: str, agents: str = "ab") -> list[str]:
    """Take until nothing is left."""
    mine: list[str] = []
    while found := await taken(log, agents, token=f"{name}{len(mine)}", limit=3):
        mine += found
    return mine


async def test_each_ticket_is_taken_by_one_however_many_want_it(another: Another):
    logs = [another() for _ in range(4)]
    put = await fill(logs[0])
    wanted = [
        take_all(log, f"{n}{m}", agents) for n, log in enumerate(logs) for m, agents in enumerate(("ab", "a", "b"))
    ]
    got = await asyncio.gather(*wanted)
    assert Counter(id for each in got for id in each) == Counter(put)
    assert all(each.attempts == 1 for each in await logs[0].queue.tickets())


async def test_each_ticket_in_memory_is_taken_by_one_whichever_thread_wants_it():
    log, got = MemoryLog(), list[str]()
    put = await fill(log)

    def elsewhere(number: int) -> None:
        got.extend(asyncio.run(take_all(log, f"{number}")))

    threads = [threading.Thread(target=elsewhere, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
    assert Counter(got) == Counter(put)


@pytest.mark.parametrize("lease", [LONG, OVER], ids=["leases hold", "leases run out at once"])
async def test_each_ticket_is_finished_once_by_processes_that_take_it_from_each_other(
    shared_store: str, opened: Opened, lease: float
):
    log = opened(shared_store)
    put = await fill(log, 40)
    workers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.stores.worker", shared_store, f"p{number}", str(lease)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(3)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"ready\n"
    reports = await asyncio.gather(*(worker.communicate(b"go\n") for worker in workers))
    assert [worker.returncode for worker in workers] == [0] * 3
    assert Counter(b"".join(out for out, _ in reports).decode().split()) == Counter(put)
    done = query(shared_store, "SELECT id FROM conversations WHERE id <> 'c'")
    assert Counter(id.partition(" ")[0] for (id,) in done) == Counter(put), "somebody wrote without the claim"
    assert await log.queue.tickets() == []


async def test_takes_that_wait_at_once_share_a_transaction(another: Another):
    log = another()
    put = await fill(log, 100)
    before = log.commits
    got = await asyncio.gather(*(taken(log, "ba"[n % 2], token=f"w{n}", limit=2) for n in range(50)))
    assert Counter(id for each in got for id in each) == Counter(put)
    assert log.commits - before <= 3


async def test_a_take_gets_what_was_given_back_with_it(another: Another):
    log = another()
    await Scribe(log).write(ticket("t"))
    await take(log, token="mine")
    await asyncio.gather(log.append(opening("other"), LEFT), log.append(opening("another"), LEFT))
    found, given = await asyncio.gather(taken(log), log.queue.give_back(Claim("t", "mine"), counted=False))
    assert (found, given) in ((["t"], True), ([], True))


async def test_who_takes_passes_over_what_somebody_else_is_about_to_take(postgres: str, opened: Opened):
    log = opened(postgres)
    await Scribe(log).write(ticket("t", "a"), ticket("u", "a"), ticket("v", "b", at=5.0))
    other = log._database.connect()
    other.begin()
    how = {"team": "default", "token": "theirs", "lease": LONG, "most": 3, "now": 0.0}
    [[row]] = other.run([log._sql.queue.take(agent="a", limit=1, **how)])
    assert row[0] == "t"
    async with asyncio.timeout(1):
        assert await taken(log, "ab", limit=1) == ["u"]
        assert await taken(log, "ab", limit=1) == ["v"], "what others were quicker to take is made up for"
    other.commit()
    other.close()
    assert (await standing(log, "t")).owner == "theirs"


async def test_no_take_comes_between_the_check_of_a_claim_and_what_is_written_by_it(postgres: str, opened: Opened):
    log = opened(postgres)
    await Scribe(log).write(ticket("t"))
    await take(log, token="mine", lease=OVER)
    writer = log._database.connect()
    writer.begin()
    writer.run([log._sql.queue.lock(ids=log._sql.listed(["t"]))])
    async with asyncio.timeout(1):
        assert await taken(log, token="theirs") == []
    writer.commit()
    writer.close()
    assert await taken(log, token="theirs") == ["t"]


async def test_entries_that_end_each_others_tickets_do_not_wait_for_each_other_in_vain(
    another: Another, deadlocks: list[Exception]
):
    logs = [another(), another()]
    await Scribe(logs[0], "c").write(*(ticket(f"t{n:03}") for n in range(200)))
    await Scribe(logs[1], "first").write()
    await take(logs[0], token="w", limit=1_000)
    ids = [f"t{n:03}" for n in range(200)]
    crossed = zip(ids, reversed(ids), strict=True)
    writes = [
        Scribe(log, f"{n}-{claimed}").write(claim=Claim(claimed, "w"), gone=[gone])
        for claimed, gone in crossed
        for n, log in enumerate(logs)
    ]
    renewals = [log.queue.renew([Claim(id, "w") for id in order], LONG) for log in logs for order in (ids, ids[::-1])]
    outcomes = await asyncio.gather(*writes, *renewals, return_exceptions=True)
    assert deadlocks == []
    assert {type(each) for each in outcomes} == {type(None), list, ClaimLost}
    left = {each.ticket.id for each in await logs[0].queue.tickets()}
    assert [id in left for id in ids] == [id not in left for id in reversed(ids)], "of two, one ended the other"


async def test_who_renews_the_same_in_another_order_does_not_wait_in_vain(another: Another, deadlocks: list[Exception]):
    logs = [another(), another()]
    put = await fill(logs[0])
    await take(logs[0], "ab", token="w", limit=COUNT)
    claims = [Claim(id, "w") for id in put]
    for _ in range(5):
        renewed = await asyncio.gather(logs[0].queue.renew(claims, LONG), logs[1].queue.renew(claims[::-1], LONG))
        assert [*renewed] == [put, put[::-1]]
    assert deadlocks == []


async def test_what_was_taken_for_whoever_does_not_want_it_any_more_is_given_back(another: Another):
    log = another()
    await Scribe(log).write(ticket("t"), ticket("u"))
    taking = asyncio.ensure_future(take(log, token="mine"))
    await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    await log.queue.renew([], LONG)  # by then it was carried out
    await until(lambda: _is_as_it_was(log))


async def _is_as_it_was(log: SqlLog) -> bool:
    return await log.queue.tickets() == [Queued(ticket("t")), Queued(ticket("u"))]
