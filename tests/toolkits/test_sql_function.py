"""SQL functions on a real PostgreSQL: arguments of every type, injection, read-only transactions, limits, PostgREST."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from changeover import Agent, Team, Variable
from changeover.errors import MisconfiguredError
from changeover.relay.ports.world import ToolOutcome
from changeover.testing import ScriptedModel
from changeover.toolkits.connections import Connections
from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools import Bearer, SqlFunction
from tests.databases import drop_schema, fresh_schema
from tests.public_api import soon
from tests.toolkits.function_call import CONTEXT
from tests.toolkits.http_server import serving

FUNCTIONS = """
CREATE TABLE orders (id int, note text);
INSERT INTO orders SELECT n, 'note ' || n FROM generate_series(1, 5) n;
CREATE FUNCTION echo_text(given text) RETURNS text LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_varchar(given varchar) RETURNS varchar LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_smallint(given smallint) RETURNS smallint LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_int(given int) RETURNS int LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_bigint(given bigint) RETURNS bigint LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_numeric(given numeric) RETURNS numeric LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_real(given double precision) RETURNS double precision LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_bool(given boolean) RETURNS boolean LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_uuid(given uuid) RETURNS uuid LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_date(given date) RETURNS date LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_time(given timestamptz) RETURNS boolean LANGUAGE sql AS 'SELECT given = ''2026-01-02T03:04:05Z''';
CREATE FUNCTION echo_json(given json) RETURNS json LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_jsonb(given jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_ints(given int[]) RETURNS int[] LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION echo_texts(given text[]) RETURNS text[] LANGUAGE sql AS 'SELECT given';
CREATE FUNCTION find_orders(first int DEFAULT 1, last int DEFAULT 100) RETURNS SETOF orders LANGUAGE sql STABLE
  AS 'SELECT * FROM orders WHERE id BETWEEN first AND last ORDER BY id';
CREATE FUNCTION add_order(id int) RETURNS void LANGUAGE sql AS 'INSERT INTO orders VALUES (id, ''new'')';
CREATE FUNCTION backend() RETURNS int LANGUAGE sql AS 'SELECT pg_backend_pid()';
CREATE FUNCTION settle() RETURNS text LANGUAGE sql AS 'SELECT set_config(''shop.customer'', ''ana'', false)';
CREATE FUNCTION settled() RETURNS text LANGUAGE sql
  AS 'SELECT coalesce(current_setting(''shop.customer'', true), '''')';
CREATE FUNCTION dawdle() RETURNS text LANGUAGE sql AS 'SELECT pg_sleep(30)::text';
CREATE FUNCTION complain() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no such customer'
  USING DETAIL = 'customer 7', HINT = 'ask for the number'; END $$;
CREATE FUNCTION the_key() RETURNS text LANGUAGE sql AS 'SELECT current_setting(''changeover.idempotency_key'')';
"""


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    url = fresh_schema()
    with psycopg.connect(url) as connection:
        connection.execute(FUNCTIONS)
    yield url
    drop_schema(url)


@pytest.fixture
async def connections(database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connections]:
    monkeypatch.setenv("SHOP", database)
    connections = Connections()
    yield connections
    await connections.close()


async def call(connections: Connections, name: str, args: dict[str, Any] | None = None, **options: Any) -> ToolOutcome:
    tool = SqlFunction(name, database="${SHOP}", **options)
    toolkit = AgentToolkit([tool], backoff=0.001, connections=connections)
    assert toolkit.faults == []
    if wrong := toolkit.misfit(name, args or {}, CONTEXT):
        return ToolOutcome(wrong, ok=False)
    return await toolkit.call(name, args or {}, CONTEXT)


BUSY = """SELECT count(*) FROM pg_stat_activity
WHERE query LIKE '%dawdle%' AND state = 'active' AND pid <> pg_backend_pid()"""
UUID = "6f1d1cde-5c1b-4b9e-9a57-1f1f6e1f0e11"
VALUES: list[tuple[str, Any, Any]] = [
    *(("text", "string", text) for text in ("", "O'Brien", "{a,b}", '["x"]', "\\", "ä€😀", "null", "$1", "%s")),
    ("varchar", "string", "x"),
    *((name, "integer", 7) for name in ("smallint", "int", "bigint", "numeric", "real")),
    ("bigint", "integer", 2**60),
    ("numeric", "number", 12.5),
    ("real", "number", -0.25),
    ("bool", "boolean", True),
    ("bool", "boolean", False),
    ("uuid", "string", UUID),
    ("date", "string", "2026-02-28"),
    ("json", "object", {"a": [1, {"b": None}]}),
    ("jsonb", "object", {"it's": '"'}),
    ("jsonb", "array", [1, "two"]),
    ("ints", "array", [1, 2, None]),
    ("ints", "array", []),
    ("texts", "array", ["a,b", '"', "\\", "NULL", "{}", ""]),
]


@pytest.mark.parametrize(("name", "type", "value"), VALUES)
async def test_arguments_of_every_common_type_arrive_as_they_were_written(
    connections: Connections, name: str, type: Any, value: Any
):
    outcome = await call(connections, f"echo_{name}", {"given": value}, parameters=[Variable("given", type)])
    assert outcome.ok, outcome.text
    assert json.loads(outcome.text) == value


async def test_a_moment_is_read_as_the_type_of_the_argument(connections: Connections):
    given = {"given": "2026-01-02T04:04:05+01:00"}
    assert (await call(connections, "echo_time", given, parameters=[Variable("given")])).text == "true"


INJECTIONS = ["'; DROP TABLE orders; --", "1); DROP TABLE orders; --", "' OR '1'='1", '"; DROP TABLE orders; --']


@pytest.mark.parametrize("text", INJECTIONS)
@pytest.mark.parametrize("name", ["text", "int", "numeric", "bool", "uuid", "date", "jsonb", "texts", "ints"])
async def test_an_argument_is_never_part_of_the_statement(
    connections: Connections, database: str, name: str, text: str
):
    arrays = name in ("texts", "ints")
    parameter = Variable("given", "array" if arrays else "string")
    outcome = await call(
        connections, f"echo_{name}", {"given": [text] if arrays else text}, parameters=[parameter], read_only=False
    )
    assert not outcome.ok or json.loads(outcome.text) in (text, [text])
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM orders WHERE id <= 5").fetchone() == (5,)


async def test_rows_are_read_as_json_up_to_a_limit(connections: Connections):
    optional = [Variable(name, "integer", required=False) for name in ("first", "last")]
    outcome = await call(connections, "find_orders", {"first": 2, "last": 3}, parameters=optional)
    assert json.loads(outcome.text) == [{"id": 2, "note": "note 2"}, {"id": 3, "note": "note 3"}]
    assert json.loads((await call(connections, "find_orders", {"last": 0}, parameters=optional)).text) == []
    few = await call(connections, "find_orders", parameters=optional, max_rows=1)
    assert few.text == '[{"id":1,"note":"note 1"}]\n[cut: the first 1 rows are shown]'


async def test_a_write_is_refused_unless_the_declaration_allows_it(connections: Connections, database: str):
    options: dict[str, Any] = {"parameters": [Variable("id", "integer")], "function": "add_order"}
    refused = await call(connections, "add", {"id": 50}, **options)
    assert refused.text == "add failed: cannot execute INSERT in a read-only transaction"
    assert (await call(connections, "add", {"id": 51}, read_only=False, **options)).text == "done: it returned nothing"
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT id FROM orders WHERE id >= 50").fetchall() == [(51,)]
        connection.execute("DELETE FROM orders WHERE id >= 50")


async def test_a_statement_that_takes_too_long_is_ended_by_the_server(connections: Connections, database: str):
    outcome = await call(connections, "dawdle", timeout=0.2)
    assert "took longer than 0.2 seconds" in outcome.text or "statement timeout" in outcome.text
    with psycopg.connect(database, autocommit=True) as connection:
        for _ in range(100):
            busy = connection.execute(BUSY).fetchone()
            if busy == (0,):
                return
            await asyncio.sleep(0.02)
        pytest.fail("the statement goes on")


async def test_an_error_of_the_function_is_told_in_its_words(connections: Connections):
    outcome = await call(connections, "complain")
    assert outcome.text == "complain failed: no such customer (customer 7; ask for the number)"


async def test_the_function_can_read_the_idempotency_key(connections: Connections):
    assert json.loads((await call(connections, "the_key")).text) == CONTEXT.idempotency_key


async def test_calls_share_a_connection_that_keeps_nothing_of_the_call_before(connections: Connections, database: str):
    async def backend() -> int:
        return int((await call(connections, "backend")).text)

    first = await backend()
    assert (await call(connections, "settle", read_only=False)).ok
    assert (await call(connections, "settled")).text == '""'
    assert await backend() == first
    assert not (await call(connections, "add_order", {"id": 9}, parameters=[Variable("id", "integer")])).ok
    second = await backend()  # a connection on which a call failed is not used again
    assert second != first
    with psycopg.connect(database) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (second,))
    third = await backend()  # the server ended the connection between two calls
    assert third not in (first, second)
    pids = {third, *await asyncio.gather(*(backend() for _ in range(6)))}
    await connections.close()
    with psycopg.connect(database, autocommit=True) as other:
        left = "SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)"

        async def gone() -> bool:
            return not other.execute(left, ([*pids],)).fetchall()

        assert await soon(gone, 10.0)


async def test_a_function_that_is_not_there_is_named(connections: Connections):
    assert (
        "the database has no function nowhere.nothing"
        in (await call(connections, "act", function="nowhere.nothing")).text
    )
    wrong = await call(connections, "act", {"x": 1}, function="echo_int", parameters=[Variable("x", "integer")])
    assert "the database has no function echo_int that takes x" in wrong.text


async def test_nothing_of_the_address_is_told_when_the_database_is_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWAY", "postgresql://ana:pa55-word-123@127.0.0.1:9/shop")
    connections = Connections()
    toolkit = AgentToolkit([SqlFunction("act", database="${AWAY}")], connections=connections)
    outcome = await toolkit.call("act", {}, CONTEXT)
    assert outcome.text.startswith("act failed: ")
    assert "pa55-word-123" not in outcome.text


async def test_the_same_function_behind_postgrest(connections: Connections, monkeypatch: pytest.MonkeyPatch):
    """As its documentation describes the request; no server of its own is at hand."""
    monkeypatch.setenv("REST_KEY", "s3cret-value")
    with serving() as server:
        tool = SqlFunction(
            "find_orders",
            rest=f"{server.url}/rest/v1/",
            function="shop.find_orders",
            parameters=[Variable("first", "integer"), Variable("last", "integer", required=False)],
            auth=Bearer("${REST_KEY}"),
            headers={"apikey": "${REST_KEY}"},
            allow_private=True,
        )
        toolkit = AgentToolkit([tool], connections=connections)
        assert (await toolkit.call("find_orders", {"first": 2}, CONTEXT)).ok
        [seen] = server.seen
    assert (seen.method, seen.path) == ("POST", "/rest/v1/rpc/find_orders")
    assert json.loads(seen.body) == {"first": 2}
    assert seen.query == {"limit": ["100"]}
    assert seen.headers["content-profile"] == "shop"
    assert (seen.headers["authorization"], seen.headers["apikey"]) == ("Bearer s3cret-value", "s3cret-value")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({}, "needs database=, a reference such as '${DATABASE_URL}', or rest=, the address of a PostgREST server"),
        ({"database": "postgresql://ana:pa55word@db/shop"}, "has a password in its database"),
        ({"database": "${DB}", "function": "a.b.c"}, "has function='a.b.c'; give a name"),
        ({"database": "${DB}", "max_rows": 0}, "has max_rows=0; use a number of rows, 1 or more"),
        ({"rest": "https://example.org", "auth": Bearer("abc")}, "has a literal token"),
    ],
)
def test_faults_are_reported_when_the_team_is_built(options: dict[str, Any], fault: str):
    with pytest.raises(MisconfiguredError) as caught:
        Team([Agent("solo", tools=[SqlFunction("act", **options)])], model=ScriptedModel({}))
    assert [each.startswith(f"agent 'solo': tool 'act' {fault}") for each in caught.value.faults] == [True]
    assert "pa55word" not in str(caught.value)
