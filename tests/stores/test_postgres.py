"""PostgreSQL: bulk statements and pipelines do what single statements would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import psycopg
import pytest

from changeover.errors import Conflict
from changeover.relay.projection.rows import Name
from changeover.stores.sql.database import Call, Row
from changeover.stores.sql.dialects.bulk import Bulk, bulk
from changeover.stores.sql.dialects.postgres import Pipeline, Postgres, PostgresSession
from changeover.stores.sql.log import SqlLog
from changeover.stores.sql.statements import statements
from tests.stores.conftest import Opened
from tests.stores.entries import WORKING, child, more, opening, query, stored

SQL = statements("postgresql")
INSERT = "INSERT INTO things (id, at, said) VALUES (%s::VARCHAR, %s, %s::VARCHAR)"
UPDATE = "UPDATE things SET at=%s, said=%s::VARCHAR WHERE things.id = %s::VARCHAR"
UPSERT = f"{INSERT} ON CONFLICT (id) DO UPDATE SET at = excluded.at, said = excluded.said"
DELETE = "DELETE FROM things WHERE things.id = %s::VARCHAR"

ONE_BY_ONE = ("fallen_handoffs", "retaken_handoffs", "decided_approvals", "withdrawn_approvals")
"""What they do to a row depends on how that stands, which another row of the same list may have changed."""


@pytest.fixture
def things(bare_postgres: str) -> str:
    query(bare_postgres, "CREATE TABLE things (id TEXT PRIMARY KEY, at DOUBLE PRECISION, said TEXT)")
    return bare_postgres


def written(store: str, *writes: tuple[str, Sequence[Row]]) -> list[Row]:
    """What the table holds when all this was written at once."""
    session = Postgres(store, lease=10.0).connect()
    session.begin()
    session.commit(writes)
    session.close()
    return query(store, "SELECT id, at, said FROM things ORDER BY id")


def test_rows_are_added_changed_and_removed_in_one_statement_each(things: str):
    added = INSERT, [("a", 1.5, "x"), ("b", 2.5, None), ("c", 3.5, "z")]
    assert written(things, added, (UPDATE, [(4.5, "y", "b")]), (DELETE, [("a",), ("none",)])) == [
        ("b", 4.5, "y"),
        ("c", 3.5, "z"),
    ]


@pytest.mark.parametrize("change", [UPDATE, UPSERT])
def test_of_several_changes_to_one_row_the_last_one_holds(things: str, change: str):
    order = (lambda id, at, said: (at, said, id)) if change is UPDATE else (lambda *row: row)
    changes = [order("a", 1.0, "first"), order("b", 1.0, "other"), order("a", 2.0, "last")]
    assert written(things, (INSERT, [("a", 0.0, ""), ("b", 0.0, "")]), (change, changes)) == [
        ("a", 2.0, "last"),
        ("b", 1.0, "other"),
    ]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("a\0b", "a\ufffdb"),
        (r"a\u0000b", r"a\u0000b"),
        ("\\\\\0", "\\\\\ufffd"),
        ('ä "quoted" \'; {} [] \n\t\x01 \U0001f600', 'ä "quoted" \'; {} [] \n\t\x01 \U0001f600'),
    ],
)
def test_texts_arrive_as_they_are_but_for_the_one_character_that_the_database_cannot_hold(
    things: str, said: str, kept: str
):
    assert written(things, (INSERT, [("a", 1.0, said)])) == [("a", 1.0, kept)]


@pytest.mark.parametrize("at", [inf, -inf, 1794736115.8941748, 5e-324, 0.1 + 0.2, None])
def test_numbers_arrive_as_they_are(things: str, at: float | None):
    assert written(things, (INSERT, [("a", at, "\0")])) == [("a", at, "\ufffd")]


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_what_depends_on_how_a_row_stands_is_done_row_by_row(name: Name):
    assert bulk(SQL.writes[name]) is None


def test_an_upsert_that_keeps_something_is_done_row_by_row():
    assert bulk(UPSERT) is not None
    assert bulk(UPSERT.replace(", said = excluded.said", "")) is None
    assert bulk(f"{UPSERT} WHERE things.at > 0") is None


@pytest.mark.parametrize("name", [name for name in SQL.writes if "_" in name and bulk(SQL.writes[name])])
async def test_what_is_changed_is_found_by_its_key_also_by_a_plan_that_was_made_for_a_small_table(
    bare_postgres: str, opened: Opened, name: Name
):
    session = await _writing(opened(bare_postgres))
    whole = bulk(SQL.writes[name])
    assert isinstance(whole, Bulk)
    assert_by_key(session, whole.sql)


def assert_by_key(session: PostgresSession, sql: str) -> None:
    lines = session.ask((f"EXPLAIN {sql.replace('%s', chr(39) + '[]' + chr(39))}", ()))
    plan = "\n".join(line for (line,) in lines)
    assert "Seq Scan" not in plan
    assert "Hash" not in plan


async def test_a_process_writes_to_a_conversation_that_it_owns_without_reading_it_first(
    bare_postgres: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
):
    log = opened(bare_postgres)
    await log.append(opening(), WORKING)
    asked: list[Sequence[Call]] = []
    ask = Pipeline.ask

    def noted(pipeline: Pipeline, calls: Sequence[Call]) -> list[list[Row]]:
        asked.append(calls)
        return ask(pipeline, calls)

    monkeypatch.setattr(Pipeline, "ask", noted)
    await log.append(more(3), WORKING)
    assert len(asked) == 1
    assert [position for position, _, _ in await stored(log)] == [0, 3]


async def test_what_another_process_changed_meanwhile_is_found_without_that_read(bare_postgres: str, opened: Opened):
    owner, other = opened(bare_postgres), opened(bare_postgres)
    await owner.append(opening(), WORKING)
    await other.append(more(3), None)
    with pytest.raises(Conflict):
        await owner.append(more(3, "of the owner"), WORKING)
    await owner.append(more(4), WORKING)
    await other.append(child("c/5", "c"), None)
    await owner.append(more(5), WORKING)
    assert [(position, seq) for position, _, seq in await stored(owner)] == [(0, 1), (3, 4), (4, 5), (5, 8)]


async def test_the_rows_that_are_written_unread_are_found_by_their_key(bare_postgres: str, opened: Opened):
    session, unmoved = await _writing(opened(bare_postgres)), SQL.log.unmoved
    assert unmoved is not None
    assert_by_key(session, unmoved.sql)


async def _writing(log: SqlLog) -> PostgresSession:
    """The connection of somebody who has begun to write."""
    await log.append(opening("c"), WORKING)
    session = log._writer._session
    assert isinstance(session, PostgresSession)
    return session


@pytest.fixture
def pipeline(bare_postgres: str) -> Iterator[Pipeline]:
    with psycopg.connect(bare_postgres, autocommit=True) as connection:
        pipeline = Pipeline(connection)
        pipeline.ask([("CREATE TABLE kept (number int PRIMARY KEY)", ())])
        yield pipeline
        pipeline.close()


def kept(pipeline: Pipeline) -> list[int]:
    [rows] = pipeline.ask([("SELECT number FROM kept ORDER BY number", ())])
    return [number for (number,) in rows]


KEEP = "INSERT INTO kept VALUES (%s)"


def test_each_statement_has_its_own_rows_and_one_that_finds_nothing_has_none(pipeline: Pipeline):
    calls = [("SELECT generate_series(1, %s)", (3,)), (KEEP, (1,)), ("SELECT 1 WHERE %s", (False,))]
    assert pipeline.ask(calls) == [[(1,), (2,), (3,)], [], []]
    assert pipeline.ask([]) == []


@pytest.mark.parametrize("value", ["text", "%s", "100%", None, 1, 2**40, 0.1, inf, True, "ä€😀"])
def test_what_is_bound_arrives_as_it_was_also_beside_a_percent_sign(pipeline: Pipeline, value: object):
    assert pipeline.ask([("SELECT '5%%', %s, '%%s'", (value,))]) == [[("5%", value, "%s")]]


def test_after_one_that_fails_none_is_carried_out_and_all_can_be_said_again(pipeline: Pipeline):
    with pytest.raises(psycopg.errors.UniqueViolation):
        pipeline.ask([("BEGIN", ()), (KEEP, (1,)), (KEEP, (1,)), ("DELETE FROM kept", ()), ("COMMIT", ())])
    pipeline.ask([("ROLLBACK", ())])
    assert kept(pipeline) == []
    pipeline.ask([(KEEP, (1,)), (KEEP, (2,))])
    assert kept(pipeline) == [1, 2]
    pipeline.ask([("DELETE FROM kept", ())])
    assert kept(pipeline) == []


def test_one_that_the_server_does_not_understand_says_so_and_harms_nothing_else(pipeline: Pipeline):
    for _ in range(2):
        with pytest.raises(psycopg.errors.UndefinedTable, match="nowhere"):
            pipeline.ask([("SELECT 1", ()), ("SELECT * FROM nowhere", ()), ("SELECT 2", ())])
    assert pipeline.ask([("SELECT 2", ()), ("SELECT 1", ())]) == [[(2,)], [(1,)]]


def test_of_statements_one_of_which_cannot_be_bound_none_is_sent(pipeline: Pipeline):
    with pytest.raises(psycopg.ProgrammingError, match="cannot adapt"):
        pipeline.ask([(KEEP, (1,)), (KEEP, (object(),))])
    assert kept(pipeline) == []


def test_much_goes_both_ways_at_once(pipeline: Pipeline):
    texts = [f"{number}" * 500_000 for number in range(10)]
    assert pipeline.ask([("SELECT %s", (text,)) for text in texts]) == [[(text,)] for text in texts]


def test_a_statement_is_prepared_once(pipeline: Pipeline):
    for number in range(3):
        pipeline.ask([(KEEP, (number,)), (KEEP, (number + 1_000,))])
    [[(count,)]] = pipeline.ask([("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'INSERT%%'", ())])
    assert count == 1


def test_a_connection_that_is_cut_is_reported(pipeline: Pipeline):
    with pytest.raises(psycopg.OperationalError):
        pipeline.ask([("SELECT pg_terminate_backend(pg_backend_pid())", ()), ("SELECT 1", ())])
    with pytest.raises(psycopg.OperationalError):
        pipeline.ask([("SELECT 1", ())])
