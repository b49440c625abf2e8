"""Many rows go to PostgreSQL in one statement, which does what one statement for each would have done."""

from collections.abc import Sequence
from math import inf

import pytest

from changeover.stores.listed import texts
from changeover.stores.projection.rows import Name
from changeover.stores.sql.database import Row
from changeover.stores.sql.dialects.bulk import Bulk, bulk
from changeover.stores.sql.dialects.postgres import Postgres, PostgresSession
from changeover.stores.sql.log import SqlLog
from changeover.stores.sql.statements import statements
from tests.stores.conftest import Opened
from tests.stores.entries import WORKING, opening, query

SQL = statements("postgresql")
INSERT = "INSERT INTO things (id, at, said) VALUES (%s::VARCHAR, %s, %s::VARCHAR)"
UPDATE = "UPDATE things SET at=%s, said=%s::VARCHAR WHERE things.id = %s::VARCHAR"
UPSERT = f"{INSERT} ON CONFLICT (id) DO UPDATE SET at = excluded.at, said = excluded.said"
DELETE = "DELETE FROM things WHERE things.id = %s::VARCHAR"

ONE_BY_ONE = ("fallen_handoffs", "retaken_handoffs", "decided_approvals", "withdrawn_approvals", "withdrawn_handoffs")
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
    assert bulk(SQL.writes[name].sql) is None


def test_an_upsert_that_keeps_something_is_done_row_by_row():
    assert bulk(UPSERT) is not None
    assert bulk(UPSERT.replace(", said = excluded.said", "")) is None
    assert bulk(f"{UPSERT} WHERE things.at > 0") is None


@pytest.mark.parametrize("name", [name for name in SQL.writes if "_" in name and bulk(SQL.writes[name].sql)])
async def test_what_is_changed_is_found_by_its_key_also_by_a_plan_that_was_made_for_a_small_table(
    bare_postgres: str, opened: Opened, name: Name
):
    session = await _writing(opened(bare_postgres))
    whole = bulk(SQL.writes[name].sql)
    assert isinstance(whole, Bulk)
    plan = "\n".join(
        line for (line,) in session.ask((f"EXPLAIN {whole.sql.replace('%s', chr(39) + '[]' + chr(39))}", ()))
    )
    assert "Seq Scan" not in plan
    assert "Hash" not in plan


async def test_the_last_legs_of_conversations_are_found_by_their_keys(bare_postgres: str, opened: Opened):
    session = await _writing(opened(bare_postgres))
    plan = "\n".join(line for (line,) in session.ask((f"EXPLAIN {SQL.views.legs.sql}", (texts(["a", "b"]),))))
    assert plan.count("Index") >= 2
    assert "Seq Scan" not in plan


async def _writing(log: SqlLog) -> PostgresSession:
    """The connection of somebody who has begun to write."""
    await log.append(opening("c"), WORKING)
    session = log._writer._session
    assert isinstance(session, PostgresSession)
    return session
