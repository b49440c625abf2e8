"""Statements that go to PostgreSQL together."""

from collections.abc import Iterator
from math import inf

import psycopg
import pytest

from changeover.stores.pipeline import Pipeline


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
