"""What is asked of a database about tickets finds its way by an index, however many there are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from changeover.stores.sql.database import Call
from changeover.stores.sql.log import SqlLog
from changeover.stores.sql.tickets import QueueStatements
from tests.stores.conftest import Opened
from tests.stores.entries import plan_of, query
from tests.stores.tickets import Scribe, taken, ticket

COUNT = 20_000

_SERIES = "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {0}) SELECT n FROM s)"

TAKE = {"team": "default", "agent": "a", "most": 3, "now": 0.0, "limit": 5}
ASKED: dict[str, Callable[[QueueStatements], Call]] = {
    "tickets_waiting": lambda sql: sql.take(**TAKE, token="w", lease=30.0),
    "tickets_waiting, looked at": lambda sql: sql.peek(**TAKE),
    "tickets_held": lambda sql: sql.free(),
    "tickets_held, the next": lambda sql: sql.lease_left(),
    "tickets_tried": lambda sql: sql.lapsed(least=3, team="default"),
}
"""The index that each statement has to go by."""

COSTLY = ("SCAN tickets", "Seq Scan", "TEMP B-TREE FOR ORDER", "Sort")
ALLOWED = {("tickets_tried", "TEMP B-TREE FOR ORDER"), ("tickets_tried", "Sort")}
"""Few are worn out, and they may be sorted."""


@pytest.fixture
def full(bare_store: str, opened: Opened) -> tuple[SqlLog, str]:
    """A store in which many tickets wait for a few agents, some of which were taken before, and some are held."""
    log = opened(bare_store)
    numbers = "generate_series(1, {0})" if bare_store.startswith("postgres") else _SERIES
    rows = (
        "SELECT 't' || n, CASE n % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'c' END, 'c', 'c', 'r' || n % 1000, n % 4,"
        " CASE WHEN n % 2 = 0 THEN 1e300 ELSE n END, n, n,"
        " CASE WHEN n % 500 = 0 THEN 'w' END, CASE WHEN n % 500 = 0 THEN n END,"
        " CASE WHEN n % 250 = 0 THEN 3 ELSE 0 END, n % 1000 = 7, 'default'"
    )
    query(bare_store, f"INSERT INTO tickets {rows} FROM {numbers.format(COUNT)} AS n")
    query(bare_store, "ANALYZE")
    return log, bare_store


@pytest.mark.parametrize("index", ASKED)
def test_tickets_are_found_by_their_index(full: tuple[SqlLog, str], index: str):
    log, store = full
    plan = explained(store, ASKED[index](log._sql.queue))
    assert index.partition(",")[0] in plan, plan
    assert [costly for costly in COSTLY if costly in plan and (index, costly) not in ALLOWED] == [], plan


def test_the_last_of_a_tree_is_found_by_its_index(full: tuple[SqlLog, str]):
    log, store = full
    put = log._sql.queue
    plan = explained(store, (put.put.sql, put.row(ticket("new", root="r7", deadline=9.0))))
    assert "tickets_tree" in plan
    assert "Seq Scan" not in plan
    assert "SCAN tickets" not in plan


async def test_the_plan_that_is_kept_goes_by_the_index_though_few_tickets_waited_when_it_was_made(
    bare_postgres: str, opened: Opened
):
    log = opened(bare_postgres)
    await Scribe(log).write(ticket("t"))
    assert await taken(log, token="w", limit=1) == ["t"]
    session = log._writer._session
    takes = "strpos(statement, 'SKIP LOCKED') > 0 AND strpos(statement, 'attempts + 1') > 0"
    [(name,)] = session.ask((f"SELECT name FROM pg_prepared_statements WHERE {takes}", ()))
    given = ", ".join(f"'{each}'" for each in log._sql.queue.take(**TAKE, token="w", lease=30.0)[1])
    plan = "\n".join(line for (line,) in session.ask((f"EXPLAIN EXECUTE {name}({given})", ())))
    assert "agent = $" in plan, plan  # made for whomever it is asked, and kept
    assert "tickets_waiting" in plan
    assert [costly for costly in COSTLY if costly in plan] == [], plan


def explained(store: str, call: Call) -> str:
    """How a database goes about it."""
    if store.startswith("sqlite"):
        return plan_of(Path(store.removeprefix("sqlite:///")), call)
    sql, args = call
    with psycopg.connect(store) as connection:
        rows: list[Any] = connection.execute(f"EXPLAIN {sql}", args).fetchall()
    return "\n".join(line for (line,) in rows)
