"""What the tree of a run may spend is counted on its root, in the transaction of the append."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import psycopg
import pytest

from changeover.errors import Conflict, ConversationNotFound, Exhausted, Owned
from changeover.relay.ports.log import Log, Reserve
from changeover.relay.projection.rows import Rows
from changeover.stores.sql.database import Session, Write
from changeover.stores.sql.log import SqlLog
from tests.stores.conftest import Opened
from tests.stores.entries import LEFT, WORKING, child, delegate, more, opening, query, stored

Another = Callable[..., SqlLog]


def wants(turns: int = 0, handoffs: int = 0, max_turns: int = 10, max_handoffs: int = 3, anew: bool = False) -> Reserve:
    return Reserve(turns, handoffs, max_turns, max_handoffs, anew)


async def refused(attempt: Awaitable[None]) -> tuple[str, int | float, int]:
    """What the log says to somebody who wants too much: the limit, its figure, and what is left of it."""
    with pytest.raises(Exhausted) as caught:
        await attempt
    return caught.value.limit, caught.value.figure, caught.value.left


async def test_a_tree_may_spend_all_that_it_may_and_no_more(log: Log):
    await log.append(opening("r"), WORKING, wants(turns=4, anew=True))
    await log.append(child("r/1", "r"), WORKING, wants(turns=4))
    assert await refused(log.append(more(3, "", "r"), WORKING, wants(turns=3))) == ("max_turns", 10, 2)
    await log.append(more(3, "", "r"), WORKING, wants(turns=2))
    assert await refused(log.append(more(2, "", "r/1", "r"), WORKING, wants(turns=1))) == ("max_turns", 10, 0)


async def test_who_is_refused_has_written_nothing_and_can_go_on(log: Log):
    await log.append(opening("r"), WORKING, wants(handoffs=3))
    assert await refused(log.append(more(3, "", "r"), WORKING, wants(1, 1))) == ("max_handoffs", 3, 0)
    assert await refused(log.append(child("r/1", "r"), WORKING, wants(1, 1))) == ("max_handoffs", 3, 0)
    assert (await log.find("r", "said@3"), await log.read("r/1")) == (None, [])
    await log.append(more(3, "", "r"), WORKING, wants(turns=10))
    assert await stored(log, "r") == [(0, "said@1", 1), (3, "said@3", 4)]


async def test_handoffs_are_looked_at_before_turns(log: Log):
    await log.append(opening("r"), WORKING)
    assert await refused(log.append(more(3, "", "r"), WORKING, wants(11, 4))) == ("max_handoffs", 3, 3)
    assert await refused(log.append(more(3, "", "r"), WORKING, wants(11, 3))) == ("max_turns", 10, 10)


async def test_a_new_run_of_the_root_begins_with_nothing_spent(log: Log):
    await log.append(opening("r"), WORKING, wants(10, 3))
    assert await refused(log.append(more(3, "", "r"), WORKING, wants(11, anew=True))) == ("max_turns", 10, 10)
    assert await refused(log.append(more(3, "", "r"), WORKING, wants(1))) == ("max_turns", 10, 0)
    await log.append(more(3, "", "r"), WORKING, wants(1, anew=True))
    await log.append(more(4, "", "r"), WORKING, wants(9, 3))


async def test_what_was_not_needed_is_given_back(log: Log):
    await log.append(opening("r"), WORKING, wants(10, 3))
    await log.append(more(3, "", "r"), WORKING, wants(-2, -1))
    assert await refused(log.append(more(4, "", "r"), WORKING, wants(3))) == ("max_turns", 10, 2)
    await log.append(more(4, "", "r"), WORKING, wants(2, 1))


async def test_whoever_takes_nothing_is_not_refused_though_the_limit_was_lowered(log: Log):
    await log.append(opening("r"), WORKING, wants(10, 3))
    await log.append(more(3, "", "r"), WORKING, wants(0, 0, max_turns=1, max_handoffs=0))
    await log.append(more(4, "", "r"), WORKING, wants(-1, 0, max_turns=1, max_handoffs=0))
    assert await refused(log.append(more(5, "", "r"), WORKING, wants(1, max_turns=5))) == ("max_turns", 5, 0)


async def test_every_root_has_counters_of_its_own(log: Log):
    await log.append(opening("a"), WORKING, wants(10))
    await log.append(opening("b"), WORKING, wants(10))


async def test_a_conflict_and_a_missing_root_are_told_before_what_is_spent(log: Log):
    with pytest.raises(ConversationNotFound):
        await log.append(child("x/1", "x"), WORKING, wants(11))
    await log.append(opening("r"), WORKING, wants(10))
    for late in (more(2, "", "r"), more(3, "said@1", "r")):
        with pytest.raises(Conflict):
            await log.append(late, WORKING, wants(1))


async def test_that_another_process_works_on_it_is_told_before_what_is_spent(another: Another):
    mine, theirs = another(), another()
    await mine.append(opening("r"), WORKING, wants(10))
    with pytest.raises(Owned):
        await theirs.append(more(3, "", "r"), WORKING, wants(1))


async def test_what_is_refused_with_a_conflict_is_not_counted(log: Log):
    await log.append(opening("r"), WORKING, wants(9))
    with pytest.raises(Conflict):
        await log.append(more(2, "", "r"), WORKING, wants(1))
    await log.append(more(3, "", "r"), WORKING, wants(1))


async def test_a_root_and_its_children_in_one_transaction_count_together(log: Log):
    await log.append(opening("r"), LEFT, wants(3, anew=True))
    entries = [more(3, "", "r"), *(child(f"r/{number}", "r") for number in range(20)), opening("other")]
    # Without rows to compute first, the appends reach the writer in this order.
    appends = [log.append(entry, LEFT, wants(1), rows=Rows()) for entry in entries]
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert (outcomes[0], outcomes[-1]) == (None, None)
    assert [outcome is None for outcome in outcomes[:21]] == [True] * 7 + [False] * 14
    assert all(isinstance(outcome, Exhausted) and outcome.left == 0 for outcome in outcomes[7:21])
    assert len(await log.tree("r")) == 8


async def test_a_tree_that_begins_in_one_transaction_counts_from_its_first_entry(log: Log):
    begun = [opening("r"), *(child(f"r/{number}", "r") for number in range(5))]
    outcomes = await asyncio.gather(
        *(log.append(entry, LEFT, wants(2, anew=entry.conversation == "r", max_turns=8)) for entry in begun),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 4 + [Exhausted] * 2


async def test_the_counters_are_kept_on_the_row_of_the_root(another: Another, shared_store: str):
    log = another()
    await log.append(opening("r"), WORKING, wants(4, 1, anew=True))
    await log.append(delegate("r/1", "r"), WORKING, wants(3, 1))
    counted = query(shared_store, "SELECT id, turns, handoffs FROM conversations ORDER BY id")
    assert counted == [("r", 7, 2), ("r/1", 0, 0)]
    await log.close()
    assert await refused(another().append(more(3, "", "r"), WORKING, wants(4))) == ("max_turns", 10, 3)


async def test_processes_that_spend_at_once_never_spend_more_than_the_tree_may(another: Another, shared_store: str):
    logs = [another(), another()]
    await logs[0].append(opening("r"), LEFT, wants(anew=True))
    granted: list[str] = []
    threads = [
        threading.Thread(target=_in_a_loop_of_its_own, args=(log, f"{number}.{thread}", granted))
        for number, log in enumerate(logs)
        for thread in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert len(granted) == 101
    assert query(shared_store, "SELECT turns, handoffs FROM conversations WHERE id = 'r'") == [(101, 0)]
    assert sorted({entry.conversation for entry in await logs[0].tree("r")} - {"r"}) == sorted(granted)


def _in_a_loop_of_its_own(log: SqlLog, name: str, granted: list[str]) -> None:
    async def try_many() -> None:
        ids = [f"r/{name}.{number}" for number in range(40)]
        tries = [log.append(child(id, "r"), LEFT, wants(1, max_turns=101)) for id in ids]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, Exhausted) for outcome in outcomes)
        granted.extend(id for id, outcome in zip(ids, outcomes, strict=True) if outcome is None)

    asyncio.run(try_many())


async def test_processes_that_go_on_in_children_of_one_root_see_what_the_other_spent(another: Another):
    logs = [another(), another()]
    await logs[0].append(opening("r"), LEFT, wants(anew=True))
    for number, log in enumerate(logs):
        await log.append(delegate(f"r/{number}", "r"), WORKING)

    async def spend(number: int) -> int:
        for position in range(3, 103):
            try:
                await logs[number].append(more(position, "", f"r/{number}", "r"), WORKING, wants(1, max_turns=60))
            except Exhausted:
                return position - 3
        raise AssertionError("nobody stopped it")

    spent = await asyncio.gather(spend(0), spend(1))
    assert sum(spent) == 60


async def test_a_commit_of_which_nobody_heard_is_counted_once(postgres: str, opened: Opened):
    log = opened(postgres)
    await log.append(opening("r"), WORKING, wants(anew=True))
    lost = _loses_its_connection_after_the_next_commit(log)
    await log.append(more(3, "", "r"), WORKING, wants(6, 3))
    assert lost, "nothing was lost, so nothing is shown"
    assert query(postgres, "SELECT turns, handoffs FROM conversations") == [(6, 3)]
    await log.append(more(4, "", "r"), WORKING, wants(4))


def _loses_its_connection_after_the_next_commit(log: SqlLog) -> list[Session]:
    session: Any = log._writer._session
    commit, lost = session.commit, list[Session]()

    def commit_and_lose(writes: Sequence[Write] = ()) -> None:
        commit(writes)
        lost.append(session)
        session.close()
        raise psycopg.OperationalError("the connection was lost")

    session.commit = commit_and_lose
    return lost
