"""`tasks list`: a task is running while its agent works, and interrupted when the process that worked on it is gone.
`conversations` says the same of conversations.

Both are worked out when the list is read, from who owns the conversation; the table keeps what was recorded.
"""

import asyncio
import json
import signal
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Store, Team, handoff
from changeover.testing import ScriptedModel, hands_off, says
from tests.cli.process import Started, changeover, wait_for

RECORDED = {"pending", "running", "waiting", "completed", "failed", "cancelled"}

TEAM = """
import asyncio, sys
from changeover import Agent, Store, Team
from changeover.testing import ScriptedModel, hands_off, says


async def play(agent, messages, tools):
    if agent == "triage":
        return hands_off("billing", "x")
    print("billing thinks", file=sys.stderr, flush=True)
    await asyncio.sleep(30)


team = Team([Agent("triage"), Agent("billing")], model=ScriptedModel(play), store=Store("sqlite:///changeover.db", 0.3))
"""


class Desk:
    """Triage hands over to billing, whose model thinks until it is let go."""

    def __init__(self, url: str) -> None:
        self.url, self.begun, self.let_go = url, asyncio.Event(), asyncio.Event()
        members = [Agent("triage"), Agent("billing")]
        self.team = Team(members, model=ScriptedModel(self._play), store=Store(url, lease=0.3))

    async def _play(self, agent: str, messages: Any, tools: Any) -> Any:
        if agent == "triage":
            return hands_off("billing", "x")
        self.begun.set()
        await self.let_go.wait()
        return says("Refunded.")

    async def listed(self, *options: str) -> dict[str, str]:
        """The status of each agent's task."""
        return await asyncio.to_thread(listed, self.url, *options)


def listed(url: str, *options: str, at: Path | None = None) -> dict[str, str]:
    done = changeover("tasks", "list", "--store", url, "--json", *options, at=at)
    return {each["agent"]: each["status"] for each in json.loads(done.stdout)}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(f"sqlite:///{tmp_path / 'changeover.db'}")
    yield desk
    desk.let_go.set()
    await desk.team.close()


async def test_a_task_is_running_while_the_receivers_model_works(desk: Desk):
    run = asyncio.ensure_future(desk.team.run("hello"))
    await asyncio.wait_for(desk.begun.wait(), 5)
    during = await desk.listed()
    desk.let_go.set()
    await run
    assert (during, await desk.listed()) == (
        {"triage": "completed", "billing": "running"},
        {"triage": "completed", "billing": "completed"},
    )


async def test_a_task_is_interrupted_when_its_team_was_closed(desk: Desk):
    run = asyncio.ensure_future(desk.team.run("hello"))
    await asyncio.wait_for(desk.begun.wait(), 5)
    await desk.team.close()
    await asyncio.gather(run, return_exceptions=True)
    assert (await desk.listed())["billing"] == "interrupted"
    assert await desk.listed("--status", "interrupted") == {"billing": "interrupted"}


@pytest.mark.parametrize("which", [signal.SIGKILL, signal.SIGINT], ids=lambda each: each.name)
def test_a_task_is_interrupted_when_its_process_is_gone(which: signal.Signals, tmp_path: Path):
    (tmp_path / "slow.py").write_text(TEAM)
    with Started("run", "slow.py", "hello", at=tmp_path) as command:
        command.until("billing thinks")
        command.hears(which)
        command.ends()
    url = f"sqlite:///{tmp_path / 'changeover.db'}"
    wait_for(lambda: listed(url).get("billing") == "interrupted", 10)
    for options in ([], ["--status", "interrupted"]):
        done = changeover("conversations", "--store", url, "--json", *options)
        assert [each["status"] for each in json.loads(done.stdout)] == ["interrupted"]
    with sqlite3.connect(tmp_path / "changeover.db") as connection:
        assert {status for (status,) in connection.execute("SELECT status FROM tasks")} <= RECORDED
        assert connection.execute("SELECT status FROM conversations").fetchall() == [("running",)]
    connection.close()


async def test_a_task_that_waits_for_a_person_is_neither_running_nor_interrupted(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'changeover.db'}"
    members = [Agent("triage", handoffs=[handoff("billing", approval=True)]), Agent("billing")]
    async with Team(members, model=ScriptedModel({"triage": [hands_off("billing", "x")]}), store=url) as team:
        assert (await team.run("hello")).status == "waiting"
    assert await asyncio.to_thread(listed, url) == {"triage": "waiting"}
