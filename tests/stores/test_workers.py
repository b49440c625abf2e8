"""Workers on every store: who serves which agents, and until when each counts as alive."""

from changeover.observe.backlog import backlog, reason_of, served_by, statuses
from changeover.relay.ports.log import Log
from changeover.relay.ports.queue import REMEMBERED, Queued, SeenWorker
from tests.stores.tickets import ticket

MOST = 3
"""Claims of a ticket that may fail."""


def seen(name: str = "w", at: float = 100.0, agents: tuple[str, ...] = ("b", "a")) -> SeenWorker:
    return SeenWorker(name=name, agents=agents, started_at=at, until=at + 60, team="desk")


async def test_a_worker_is_remembered_with_its_agents_and_its_first_start(log: Log):
    await log.workers.seen(seen(), 100.0)
    await log.workers.seen(seen(at=140.0), 140.0)
    assert await log.workers.all() == [
        SeenWorker(name="w", agents=("a", "b"), started_at=100.0, until=200.0, team="desk")
    ]


async def test_what_hardly_moves_the_end_is_not_written(log: Log):
    await log.workers.seen(seen(), 100.0)
    await log.workers.seen(seen(at=110.0), 110.0)
    assert [each.until for each in await log.workers.all()] == [160.0]


async def test_workers_of_the_day_before_are_forgotten_when_a_new_one_comes(log: Log):
    await log.workers.seen(seen("old"), 100.0)
    later = 161.0 + REMEMBERED
    await log.workers.seen(seen("new", at=later), later)
    assert [each.name for each in await log.workers.all()] == ["new"]


def test_a_ticket_is_stuck_if_no_live_worker_serves_its_agent():
    waits = Queued(ticket("t", "a", at=100.0))
    workers = [seen(at=100.0)]
    assert reason_of(waits, served_by(workers, 150.0), MOST, 150.0) == ""
    assert reason_of(waits, served_by(workers, 160.0), MOST, 160.0) == "No worker serves a."
    tried = Queued(ticket("t", "a", at=100.0), attempts=1)
    assert "Its worker stopped" in reason_of(tried, {}, MOST, 300.0)
    assert "claimed it 3 times" in reason_of(Queued(ticket("t", "a", at=100.0), attempts=3), {"a": 1}, MOST, 101.0)
    assert "deadline" in reason_of(Queued(ticket("t", "a", at=100.0, deadline=101.0)), {"a": 1}, MOST, 102.0)


def test_the_backlog_counts_each_ticket_once():
    tickets = [
        Queued(ticket("t1", "a", at=100.0)),
        Queued(ticket("t2", "a", at=90.0), attempts=3),
        Queued(ticket("t3", "a", at=80.0), owner="w#1", until=200.0),
        Queued(ticket("t4", "a", at=70.0), rests=True),
    ]
    found = backlog(tickets, [seen()], MOST, 120.0)
    assert list(found) == ["a", "b"]
    one = found["a"]
    assert (one.waiting, one.claimed, one.resting, one.stuck, one.oldest, one.workers) == (2, 1, 1, 1, 30.0, 1)
    assert (found["b"].waiting, found["b"].oldest, found["b"].workers) == (0, None, 1)


def test_a_worker_that_holds_a_ticket_is_alive_and_one_that_is_not_seen_is_gone():
    tickets = [Queued(ticket("t", "a"), owner="w#1", until=900.0), Queued(ticket("u", "a"), owner="other#1", until=9.0)]
    found = {each.name: each for each in statuses(tickets, [seen(), seen("gone")], 800.0)}
    assert {name: (each.alive, each.tickets) for name, each in found.items()} == {
        "gone": (False, ()),
        "other": (True, ("u",)),
        "w": (True, ("t",)),
    }
