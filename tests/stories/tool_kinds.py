"""Stories of tools that are no Python functions: HTTP requests, SQL functions, tools of MCP servers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg

from changeover import Agent, Approve, Variable
from changeover.relay.events import ToolFinished, ToolStarted
from changeover.testing import ScriptedModel, calls, says
from changeover.tools import Bearer, HttpTool, McpServer, SqlFunction
from tests.databases import fresh_schema
from tests.stories.stage import CONVERSATION, Stage, events, story
from tests.toolkits.http_server import Server, serving
from tests.toolkits.mcp_process import shared_shop

SECRET = "planted-in-stories"
LEDGER = """
CREATE TABLE refunds (id text PRIMARY KEY, euros int);
CREATE FUNCTION refund(euros int) RETURNS text LANGUAGE sql AS
$$ INSERT INTO refunds VALUES (current_setting('changeover.idempotency_key'), euros) ON CONFLICT DO NOTHING;
   SELECT 'refunded ' || euros $$;
CREATE FUNCTION refunded() RETURNS SETOF refunds LANGUAGE sql STABLE AS 'SELECT * FROM refunds ORDER BY id';
"""


@contextmanager
def shop(stage: Stage) -> Iterator[Server]:
    """An HTTP server that leaves what it is asked to do in the world of the story."""
    os.environ["STORY_TOKEN"] = SECRET
    with serving() as server:
        server.notes = stage.effects
        yield server


@cache
def ledger() -> str:
    """The address of a database with functions, by which it is known to the tools of stories."""
    os.environ["STORY_LEDGER"] = url = fresh_schema()
    with psycopg.connect(url) as connection:
        connection.execute(LEDGER)
    return url


def requests(server: Server, path: str, **options: Any) -> HttpTool:
    options = {"method": "POST", "parameters": [Variable("euros", "integer")], **options}
    return HttpTool("refund", url=server.url + path, auth=Bearer("${STORY_TOKEN}"), allow_private=True, **options)


def refunds(last: str = "Refunded.") -> ScriptedModel:
    return ScriptedModel({"solo": [calls(("refund", {"euros": 30})), says(last)]})


@story
async def an_http_request_carries_one_key_however_often_it_is_sent(stage: Stage) -> None:
    with shop(stage) as server:
        team = stage.team([Agent("solo", tools=[requests(server, "/refunds", select="method")])], refunds())
        assert (await stage.say(team, "30 euros back, please")).output == "Refunded."
    assert stage.did == ["POST /refunds story:3.0"]
    assert [(done.text, done.ok) for done in await events(team, ToolFinished)] == [("POST", True)]


@story
async def an_http_request_that_is_at_most_once_reaches_the_server_once(stage: Stage) -> None:
    with shop(stage) as server:
        tool = requests(server, "/refunds", select="method", at_most_once=True)
        team = stage.team([Agent("solo", tools=[tool])], refunds())
        assert (await stage.say(team, "30 euros back, please")).output == "Refunded."
    assert len(stage.effects) <= 1
    assert stage.effects or stage.lives > 1
    assert len(await events(team, ToolStarted)) == 1
    [done] = await events(team, ToolFinished)
    assert done.text == "POST" or (done.unknown and stage.lives > 1)


@story
async def an_http_request_that_fails_for_a_while_is_sent_again_with_the_same_key(stage: Stage) -> None:
    with shop(stage) as server:
        tool = requests(server, "/fails/503/1", select="method", retries=2)
        team = stage.team([Agent("solo", tools=[tool])], refunds())
        assert (await stage.say(team, "30 euros back, please")).output == "Refunded."
    assert set(stage.effects) == {"POST /fails/503/1 story:3.0"}
    assert [done.text for done in await events(team, ToolFinished)] == ["POST"]


@story
async def an_http_request_waits_for_the_person_who_has_to_approve_it(stage: Stage) -> None:
    with shop(stage) as server:
        team = stage.team([Agent("solo", tools=[requests(server, "/refunds", approval=True)])], refunds())
        result = await stage.say(team, "30 euros back, please")
        if result.status == "waiting":
            assert stage.effects == []
            await team.decide(result.pending[0], Approve(), by="ana")
        assert (await stage.say_again(team, "30 euros back, please")).output == "Refunded."
    assert stage.did == ["POST /refunds story:3.0"]


@story
async def what_a_server_repeats_of_a_secret_is_not_recorded(stage: Stage) -> None:
    with shop(stage) as server:
        team = stage.team([Agent("solo", tools=[requests(server, "/echo")])], refunds())
        await stage.say(team, "30 euros back, please")
    [done] = await events(team, ToolFinished)
    assert "Bearer ${STORY_TOKEN}" in done.text
    assert SECRET not in str(await team.history(CONVERSATION))


@story
async def an_sql_function_knows_the_key_of_its_call(stage: Stage) -> None:
    url = ledger()
    with psycopg.connect(url) as connection:
        if stage.lives == 1 and not stage.outcomes:
            connection.execute("DELETE FROM refunds")
    write = SqlFunction(
        "refund", database="${STORY_LEDGER}", parameters=[Variable("euros", "integer")], read_only=False
    )
    read = SqlFunction("refunded", database="${STORY_LEDGER}")
    script = [calls(("refund", {"euros": 30})), calls(("refunded", {})), says("Done.")]
    team = stage.team([Agent("solo", tools=[write, read])], ScriptedModel({"solo": script}))
    assert (await stage.say(team, "30 euros back, please")).output == "Done."
    done = [each.text for each in await events(team, ToolFinished)]
    assert done == ['"refunded 30"', '[{"id":"story:3.0","euros":30}]']


def number_of(stage: Stage) -> int:
    """A number that only this story uses, in all of its lives: the server serves all stories."""
    return id(stage.effects) % 1_000_000_007


@story
async def a_tool_of_an_mcp_server_is_offered_and_called(stage: Stage) -> None:
    url, log = shared_shop()
    number = number_of(stage)
    script = [
        calls(("shop_find_order", {"number": number}), ("shop_refund", {"number": number})),
        says("Refunded."),
    ]
    server = McpServer("shop", url=url, include=["find_order", "refund"])
    team = stage.team([Agent("solo", tools=[server])], ScriptedModel({"solo": script}))
    assert (await stage.say(team, "send it back")).output == "Refunded."
    done = [each.text for each in await events(team, ToolFinished)]
    assert done == [f'{{"number":{number},"note":""}}', f"refunded {number}"]
    assert {line for line in log.read_text().splitlines() if str(number) in line} == {f"refund {number} story:3.1"}
    for request in stage.requests("solo"):
        assert [tool.name for tool in request.tools] == ["shop_find_order", "shop_refund"]


@story
async def a_tool_of_an_mcp_server_that_is_at_most_once_is_called_once(stage: Stage) -> None:
    url, log = shared_shop()
    number = number_of(stage)
    script = [calls(("shop_refund", {"number": number})), says("Refunded.")]
    server = McpServer("shop", url=url, include=["refund"], at_most_once=True)
    team = stage.team([Agent("solo", tools=[server])], ScriptedModel({"solo": script}))
    assert (await stage.say(team, "send it back")).output == "Refunded."
    assert log.read_text().count(f"refund {number} ") <= 1
    assert len(await events(team, ToolStarted)) == 1
    [done] = await events(team, ToolFinished)
    assert done.text == f"refunded {number}" or (done.unknown and stage.lives > 1)
