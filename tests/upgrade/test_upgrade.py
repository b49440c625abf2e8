"""Code may change while conversations are under way."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from changeover import Agent, Team, tool
from changeover.errors import EngineError
from changeover.messages import Message
from changeover.relay.events import Entry, ToolFinished, Unreadable
from changeover.stores.memory.log import MemoryLog
from changeover.testing import Reply, ScriptedModel, assert_valid_history, calls, hands_off, says
from changeover.tools.tool import ToolDefinition


async def begun(team: Team, text: str) -> None:
    """Begin a run, and end the process while it is under way."""
    run = asyncio.ensure_future(team.run(text, conversation="c", key="one"))
    await asyncio.sleep(0.05)
    assert not run.done()
    await team.close()
    with pytest.raises(EngineError):
        await run


@tool(timeout=None)
async def look_up(order: str) -> str:
    """Look an order up."""
    await asyncio.sleep(60)
    return "never"


LOOKS_UP = ScriptedModel({"solo": [calls(("look_up", {"order": "1"}))]})


@tool(at_most_once=True, timeout=None)
async def pay(amount: int) -> str:
    """Pay."""
    await asyncio.sleep(60)
    return "never"


def recites(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    return says(" | ".join(message.text for message in messages[1:] if message.text))


async def test_a_tool_that_was_taken_away_is_answered_for_and_the_conversation_ends():
    log = MemoryLog()
    old = Team(
        [Agent("solo", tools=[look_up])], model=ScriptedModel({"solo": [calls(("look_up", {"order": "1"}))]}), store=log
    )
    await begun(old, "where is it?")
    model = ScriptedModel(recites)
    new = Team([Agent("solo")], model=model, store=log)
    result = await new.resume("c")
    assert result.output == "there is no tool called 'look_up'; your tools: none"
    assert_valid_history(model.requests[-1])
    await new.close()


async def test_a_tool_that_works_another_way_now_is_called_as_it_is_now():
    log = MemoryLog()
    old = Team(
        [Agent("solo", tools=[look_up])], model=ScriptedModel({"solo": [calls(("look_up", {"order": "1"}))]}), store=log
    )
    await begun(old, "where is it?")

    @tool(name="look_up")
    def better(order: str, depth: int = 2) -> str:
        """Look deeper."""
        return f"{order} at depth {depth}"

    new = Team([Agent("solo", tools=[better])], model=ScriptedModel(recites), store=log)
    assert (await new.resume("c")).output == "1 at depth 2"
    await new.close()


@pytest.mark.parametrize("still_there", [True, False])
async def test_new_code_does_not_begin_an_at_most_once_tool_again(still_there: bool):
    log = MemoryLog()
    old = Team([Agent("solo", tools=[pay])], model=ScriptedModel({"solo": [calls(("pay", {"amount": 5}))]}), store=log)
    await begun(old, "pay")
    new = Team([Agent("solo", tools=[pay] if still_there else [])], model=ScriptedModel(recites), store=log)
    assert "cannot be known whether it took effect" in (await new.resume("c")).output
    finished = [r.event for r in await new.history("c") if isinstance(r.event, ToolFinished)]
    assert [event.unknown for event in finished] == [True]
    await new.close()


async def test_an_agent_that_left_the_team_is_followed_by_the_one_that_starts():
    log = MemoryLog()
    model = ScriptedModel({"triage": [hands_off("billing", "x")], "billing": [says("Hello from billing.")]})
    old = Team([Agent("triage"), Agent("billing")], model=model, store=log)
    assert (await old.run("hello", conversation="c")).final_agent == "billing"
    await old.close()
    new = Team([Agent("triage")], model=ScriptedModel(lambda *_: says("Hello from triage.")), store=log)
    assert (await new.run("again", conversation="c")).output == "Hello from triage."
    await new.close()


class FromTheFuture(MemoryLog):
    """A log into which a newer version wrote."""

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        newer = Unreadable("thought_transferred", b'{"event":"thought_transferred"}')
        entries = await super().read(conversation, after)
        return [*entries, Entry("c", "c", 5, "9", 1.0, (newer,), 6)] if entries else []

    async def tree(self, conversation: str) -> list[Entry]:
        return await self.read(conversation)


async def test_a_conversation_with_an_event_from_the_future_is_left_alone():
    log = FromTheFuture()
    asked: list[Any] = []

    def play(*request: Any) -> Reply:
        asked.append(request)
        return says("Hi.")

    team = Team([Agent("solo")], model=ScriptedModel(play), store=log)
    await team.run("hello", conversation="c")
    await team.close()
    before = await MemoryLog.read(log, "c")
    newcomer = team.on(log)
    async with newcomer:
        for attempt in (newcomer.run("more", conversation="c"), newcomer.resume("c")):
            with pytest.raises(EngineError, match="newer version of changeover wrote \\(thought_transferred\\)"):
                await attempt
        assert isinstance((await newcomer.history("c"))[-1].event, Unreadable)
    assert (await MemoryLog.read(log, "c"), len(asked)) == (before, 1)
