"""`Team(name=…)`: several teams share a store, and each takes up its own conversations only."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Team, handoff
from changeover.errors import MisconfiguredError
from changeover.protocol import HandoffPackage, Metadata, Task
from changeover.testing import ScriptedModel, hands_off, says
from tests.any_store import postgres, shared_store, sqlite_file
from tests.cli.process import changeover
from tests.public_api import soon

__all__ = ["postgres", "shared_store", "sqlite_file"]


class Desk:
    """A team of this name; its model thinks until it is let go, and says who it is."""

    def __init__(self, url: str, name: str | None, held: bool = False) -> None:
        self.begun, self.let_go, self._name = asyncio.Event(), asyncio.Event(), name or "default"
        if not held:
            self.let_go.set()
        options: dict[str, Any] = {"name": name} if name else {}
        members = [Agent("desk", handoffs=[handoff("boss", approval=True)]), Agent("boss"), Agent("clerk", pull=True)]
        self.team = Team(members, model=ScriptedModel(self._play), store=url, **options)

    async def _play(self, agent: str, messages: Any, tools: Any) -> Any:
        self.begun.set()
        await self.let_go.wait()
        return hands_off("boss", "x") if messages[-1].text == "ask" else says(f"{self._name} here")

    async def leaves(self, conversation: str) -> None:
        """Begin a conversation, and go while the model thinks."""
        run = asyncio.ensure_future(self.team.run("hello", conversation=conversation))
        await asyncio.wait_for(self.begun.wait(), 5)
        await self.team.close()
        await asyncio.gather(run, return_exceptions=True)


async def test_a_team_takes_up_only_its_own_conversations(shared_store: str):
    for name in ("sales", "support"):
        await Desk(shared_store, name, held=True).leaves(name)
    async with Desk(shared_store, "sales").team as team:

        async def is_done() -> bool:
            return any(type(each.event).__name__ == "RunCompleted" for each in await team.history("sales"))

        assert await soon(is_done, 2)
        await asyncio.sleep(0.05)
        assert all(type(each.event).__name__ != "RunCompleted" for each in await team.history("support"))
    async with Desk(shared_store, "support").team as team:
        assert (await team.resume("support")).output == "support here"


async def test_a_conversation_without_a_name_belongs_to_default(shared_store: str):
    await Desk(shared_store, None, held=True).leaves("old")
    async with Desk(shared_store, "sales").team as team:
        await asyncio.sleep(0.05)
        assert all(type(each.event).__name__ != "RunCompleted" for each in await team.history("old"))
    async with Desk(shared_store, "default").team as team:
        assert (await team.resume("old")).output == "default here"


async def test_the_conversation_of_another_team_is_refused(shared_store: str):
    async with Desk(shared_store, "sales").team as team:
        await team.run("hello", conversation="story")
    async with Desk(shared_store, "support").team as team:
        before = len(await team.history("story"))
        with pytest.raises(MisconfiguredError, match="'story' belongs to the team 'sales'"):
            await team.run("hello", conversation="story")
        assert len(await team.history("story")) == before


async def test_a_team_claims_and_decides_only_what_is_its_own(shared_store: str):
    package = HandoffPackage(Task("count"), metadata=Metadata(receiver="clerk"))
    async with Desk(shared_store, "sales").team as team:
        await team.submit(package)
        await team.run("ask", conversation="story")
    async with Desk(shared_store, "support").team as team:
        assert (await team.claim("clerk"), await team.approvals()) == ([], [])
    async with Desk(shared_store, "sales").team as team:
        assert (len(await team.claim("clerk")), len(await team.approvals())) == (1, 1)


async def test_the_name_is_shown_beside_the_conversation(sqlite_file: Path):
    url = f"sqlite:///{sqlite_file}"
    async with Desk(url, "sales").team as team:
        await team.run("hello", conversation="story")
    listed = await asyncio.to_thread(changeover, "conversations", "--store", url, "--json")
    assert [each["team"] for each in json.loads(listed.stdout)] == ["sales"]


@pytest.mark.parametrize("name", ["", "two words", "a/b", 7, None])
def test_a_name_is_a_slug(name: Any):
    options: dict[str, Any] = {"name": name}
    with pytest.raises(MisconfiguredError, match="name"):
        Team([Agent("desk")], model="offline", **options)


def test_a_team_has_a_name():
    team: Any = Team([Agent("desk")], model="offline")
    assert team.name == "default"
