"""Teams whose members and settings come from the store, alone or beside code: in one process and in several."""

import asyncio
import logging
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Limits, Team, Worker
from changeover.errors import DeclarationConflict, MisconfiguredError, UnknownAgentError
from changeover.facts import Ticket
from changeover.relay.events import RunStarted
from changeover.relay.ports.declarations import Edit
from changeover.relay.ports.log import Log
from changeover.stores.memory.log import MemoryLog
from changeover.testing import Reply, ScriptedModel, hands_off, says
from tests.any_store import any_store, postgres, shared_store, sqlite_file
from tests.cli.process import changeover
from tests.stores.entries import query

__all__ = ["any_store", "postgres", "shared_store", "sqlite_file"]

ROOT = Path(__file__).parents[1]


@pytest.fixture
def store(any_store: str | None) -> str | Log:
    """An empty store of each kind, which several teams can share."""
    return any_store or MemoryLog()


def echo(agent: str, messages: Any, tools: Any) -> Reply:
    return says(f"{agent}: {' '.join(sorted(tool.name for tool in tools))}")


async def editions(team: Team, conversation: str) -> list[int]:
    return [each.event.edition for each in await team.history(conversation) if isinstance(each.event, RunStarted)]


async def test_a_team_may_come_from_the_store_alone(store: str | Log):
    team = Team(store=store, model=ScriptedModel(echo))
    await team.declarations.write(
        [
            Edit("agent", "zoe", {"description": "Greets.", "handoffs": ["adam"]}),
            Edit("agent", "adam", {"handoffs": []}),
            Edit("team", "default", {"start": "zoe"}),
        ],
        by="ana",
    )
    assert (await team.run("hello", conversation="c")).output == "zoe: handoff"
    assert await editions(team, "c") == [1]
    assert list(team.roster.seats) == ["zoe", "adam"]
    await team.close()


async def test_a_team_without_any_agent_says_so_when_a_run_begins_and_records_nothing(store: str | Log):
    async with Team(store=store, model=ScriptedModel(echo)) as team:
        with pytest.raises(MisconfiguredError, match="the team has no agents: give it some, or declare them"):
            await team.run("hello", conversation="c")
        assert await team.log.read("c") == []
        await team.declarations.put("agent", "desk", {})
        assert (await team.run("hello", conversation="c")).final_agent == "desk"


def test_a_team_without_members_and_without_a_store_is_refused():
    with pytest.raises(MisconfiguredError, match="the team has no agents"):
        Team()


async def test_without_a_start_the_agent_that_was_declared_first_begins_also_if_the_start_is_removed(
    store: str | Log,
):
    team = Team(store=store, model=ScriptedModel(echo))
    await team.declarations.write([Edit("agent", name, {"handoffs": []}) for name in ("carl", "dora", "bea")])
    assert (await team.run("hello")).final_agent == "carl"
    await team.declarations.put("team", "default", {"start": "bea"})
    assert (await team.run("hello")).final_agent == "bea"
    await team.declarations.set_state("agent", "bea", "removed")
    assert (await team.run("hello")).final_agent == "carl"
    await team.declarations.set_state("agent", "carl", "disabled")
    assert (await team.run("hello")).final_agent == "dora"
    await team.close()


async def test_settings_in_the_store_hold_where_code_leaves_them_open(
    store: str | Log, caplog: pytest.LogCaptureFixture
):
    team = Team([Agent("desk"), Agent("billing")], start="billing", model=ScriptedModel(echo), store=store)
    await team.declarations.put("team", "default", {"start": "desk", "limits": {"max_turns": 3}})
    await team.declarations.put("team", "other", {"limits": {"max_turns": 1}})
    with caplog.at_level(logging.WARNING, "changeover.team"):
        assert (await team.run("hello")).final_agent == "billing"
        await team.declarations.put("team", "default", {"start": "desk", "limits": {"max_turns": 4}})
        await team.run("hello")
    assert team.roster.limits == Limits(max_turns=4)
    told = [record.message for record in caplog.records]
    assert told == ["'start' of the team is declared in code and in the store; the code holds"]
    await team.close()


async def test_code_wins_over_a_row_of_the_same_name_with_one_warning(
    store: str | Log, caplog: pytest.LogCaptureFixture
):
    team = Team([Agent("desk", handoffs=[])], model=ScriptedModel(echo), store=store)
    await team.declarations.put("agent", "desk", {"instructions": "data"})
    with caplog.at_level(logging.WARNING, "changeover.team"):
        await team.run("hello")
        await team.declarations.put("agent", "desk", {"instructions": "other data"})
        await team.run("hello")
    assert [record.message for record in caplog.records] == [
        "agent 'desk' is declared in code and in the store; the code holds"
    ]
    await team.close()


async def test_what_is_no_team_is_refused_with_all_faults_and_nothing_is_stored(store: str | Log):
    team = Team([Agent("desk")], model=ScriptedModel(echo), store=store)
    wrong = [
        Edit("agent", "billing", {"handoffs": ["nobody"], "modle": "x"}),
        Edit("agent", "sales", {"tools": ["missing"], "skills": ["none"]}),
    ]
    with pytest.raises(MisconfiguredError) as caught:
        await team.declarations.write(wrong)
    told = str(caught.value)
    assert all(word in told for word in ("agents.billing", "nobody", "modle", "agents.sales", "missing", "none"))
    assert await team.declarations.edition() == 0
    await team.close()


async def test_agents_and_tools_may_be_removed_though_others_name_them(store: str | Log):
    team = Team([Agent("desk", handoffs=[])], model=ScriptedModel(echo), store=store)
    order = {"type": "http_api", "url": "https://api.example.org/orders/{id}", "parameters": ["id"]}
    await team.declarations.write(
        [
            Edit("tool", "get_order", order),
            Edit("agent", "lead", {"tools": ["get_order"], "handoffs": ["billing", {"to": "billing"}]}),
            Edit("agent", "billing", {"handoffs": []}),
        ]
    )
    assert (await team.run("1", agent="lead", conversation="c")).output == "lead: get_order handoff handoff_to_billing"
    await team.declarations.set_state("tool", "get_order", "disabled")
    await team.declarations.set_state("agent", "billing", "removed")
    assert (await team.run("2", conversation="c")).output == "lead: "
    await team.declarations.set_state("agent", "lead", "removed")
    assert (await team.run("3", conversation="c")).output == "desk: "
    await team.close()


async def test_the_second_of_two_editors_of_a_team_is_told_and_nothing_is_lost(shared_store: str):
    one, other = (Team([Agent("desk")], model=ScriptedModel(echo), store=shared_store) for _ in range(2))
    await one.declarations.put("agent", "billing", {"instructions": "one"}, by="ana")
    read = await other.declarations.one("agent", "billing")
    assert read is not None
    await one.declarations.put("agent", "billing", {"instructions": "two"}, by="ana", expected=1)
    with pytest.raises(DeclarationConflict, match="is at version 2, written by ana"):
        await other.declarations.put("agent", "billing", {"instructions": "three"}, by="ben", expected=read.version)
    documents = [each.document["instructions"] for each in await other.declarations.history("agent", "billing")]
    assert documents == ["one", "two"]
    for team in (one, other):
        await team.close()


def waiting(asked: asyncio.Event, go: asyncio.Event) -> ScriptedModel:
    """A model that says it was asked, and waits until it is let go."""

    async def play(agent: str, messages: Any, tools: Any) -> Reply:
        asked.set()
        await go.wait()
        return says(f"{agent}: {' '.join(sorted(tool.name for tool in tools))}")

    return ScriptedModel(play)


async def test_a_message_that_waited_for_a_run_is_answered_with_the_newest_declarations(store: str | Log):
    asked, go = asyncio.Event(), asyncio.Event()
    team = Team([Agent("desk")], model=waiting(asked, go), store=store)
    first = asyncio.ensure_future(team.run("first", conversation="c"))
    await asyncio.wait_for(asked.wait(), 5)
    second = asyncio.ensure_future(team.run("second", conversation="c"))
    await team.declarations.put("agent", "billing", {})
    await asyncio.sleep(0.05)
    go.set()
    assert [each.output for each in await asyncio.gather(first, second)] == ["desk: ", "desk: handoff"]
    assert await editions(team, "c") == [0, 1]
    await team.close()


async def test_a_run_that_another_process_takes_up_goes_on_with_its_own_edition(shared_store: str):
    asked, go = asyncio.Event(), asyncio.Event()
    gone = Team([Agent("desk")], model=waiting(asked, go), store=shared_store)
    await gone.declarations.put("agent", "billing", {})
    run = asyncio.ensure_future(gone.run("first", conversation="c"))
    await asyncio.wait_for(asked.wait(), 5)
    await gone.close()
    await asyncio.gather(run, return_exceptions=True)
    async with Team([Agent("desk")], model=ScriptedModel(echo), store=shared_store) as team:
        await team.declarations.set_state("agent", "billing", "removed")
        assert (await team.resume("c")).output == "desk: handoff"
        assert (await team.run("second", conversation="c")).output == "desk: "
        assert await editions(team, "c") == [1, 2]


async def elsewhere(url: str, folder: Path, *commands: str) -> None:
    """Change declarations by commands, each in a process of its own."""
    for each in commands:
        done = await asyncio.to_thread(changeover, *shlex.split(each), "--store", url, at=folder)
        assert done.returncode == 0, done.stderr


async def test_what_a_second_process_adds_and_removes_holds_from_the_next_run_on(shared_store: str, tmp_path: Path):
    asked, go = asyncio.Event(), asyncio.Event()
    model = waiting(asked, go)
    async with Team([Agent("desk")], model=model, store=shared_store) as team:
        run = asyncio.ensure_future(team.run("first", conversation="c"))
        await asyncio.wait_for(asked.wait(), 5)
        await elsewhere(
            shared_store,
            tmp_path,
            "tools add get_order --set type=http_api --set url=https://example.org/orders/{id} --set parameters=[id]",
            "agents add billing --description 'Sends money back.' --set tools=[get_order]",
        )
        go.set()
        assert (await run).output == "desk: "
        assert (await team.run("second", conversation="c")).output == "desk: handoff"
        assert (await team.run("third", agent="billing", conversation="c")).output == "billing: get_order handoff"
        await elsewhere(shared_store, tmp_path, "tools remove get_order", "agents remove billing")
        assert (await team.run("fourth", conversation="c")).output == "desk: "
        told = [message.text for message in model.requests[-1].messages if "no longer" in message.text]
        assert told == ["no longer available: agent 'billing', tool 'get_order'"]
        noted = "SELECT content FROM messages WHERE kind = 'status_change'"
        assert [row[0] for row in query(shared_store, noted)] == told
        assert await editions(team, "c") == [0, 2, 2, 4]


async def test_an_agent_that_another_process_has_just_declared_can_be_named(shared_store: str):
    one, other = (Team([Agent("desk")], model=ScriptedModel(echo), store=shared_store) for _ in range(2))
    await one.run("hello")
    await other.declarations.put("agent", "billing", {"handoffs": []})
    assert (await one.run("hello", agent="billing")).output == "billing: "
    await other.declarations.put("agent", "sales", {"handoffs": []})
    items = [item async for item in one.stream("hello", agent="sales")]
    assert items[-1].result.output == "sales: "  # type: ignore[union-attr]
    with pytest.raises(UnknownAgentError, match="no agent is called 'nobody'"):
        await one.run("hello", agent="nobody")
    for team in (one, other):
        await team.close()


WORKER = """
import asyncio, sys
from changeover import Agent, Team, Worker
from changeover.testing import ScriptedModel, says

team = Team([Agent("clerk")], model=ScriptedModel({"billing": [says("Sent back.")]}), store=sys.argv[1])
asyncio.run(Worker(team, ["billing"], lease=5.0).run())
"""


async def test_a_worker_process_serves_an_agent_that_only_the_store_declares(shared_store: str):
    model = ScriptedModel({"desk": [hands_off("billing", "Charged twice.")]})
    team = Team([Agent("desk")], model=model, store=shared_store)
    await team.declarations.put("agent", "billing", {"pull": True, "instructions": "Refund."})
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, shared_store, cwd=ROOT)
    try:
        [ticket] = (await team.run("I was charged twice!", conversation="c")).pending
        assert isinstance(ticket, Ticket)
        done = await team.result(ticket, timeout=30)
        assert (done.result, done.agent) == ("Sent back.", "billing")
    finally:
        process.kill()
        await process.wait()
        await team.close()


async def test_a_worker_for_an_agent_that_is_declared_nowhere_is_refused_when_it_begins(shared_store: str):
    team = Team([Agent("desk")], model=ScriptedModel(echo), store=shared_store)
    with pytest.raises(MisconfiguredError, match="no agent is called 'billing'"):
        await Worker(team, ["billing"]).run()
    await team.close()


async def test_a_team_whose_code_does_not_fit_new_rows_goes_on_as_it_was_and_logs_why(
    shared_store: str, caplog: pytest.LogCaptureFixture
):
    editor = Team([Agent("desk"), Agent("boss")], model=ScriptedModel(echo), store=shared_store)
    team = Team([Agent("desk")], model=ScriptedModel(echo), store=shared_store)
    await editor.declarations.put("agent", "billing", {"handoffs": ["boss"]})
    with caplog.at_level(logging.ERROR, "changeover.team"):
        for _ in range(2):
            assert (await team.run("hello")).output == "desk: "
    [record] = caplog.records
    assert "do not fit this team, which goes on as it was" in record.message
    assert "boss" in record.message
    await editor.declarations.put("agent", "billing", {"handoffs": ["desk"]})
    assert (await team.run("hello")).output == "desk: handoff"
    for each in (editor, team):
        await each.close()


async def test_a_document_that_is_refused_opens_no_connection(store: str | Log):
    team = Team([Agent("desk")], model=ScriptedModel(echo), store=store)
    server = {"type": "mcp_server", "command": ["no-such-program"]}
    with pytest.raises(MisconfiguredError, match="nobody"):
        await team.declarations.write(
            [Edit("tool", "shop", server), Edit("agent", "sales", {"tools": ["shop"], "handoffs": ["nobody"]})]
        )
    world = await team.engine.world()
    assert world.connections is not None
    assert not world.connections.serves
    await team.close()
