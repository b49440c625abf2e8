"""`history` and `follow` from a position on, items for readers of a stream, and results with a limit of time."""

from collections.abc import AsyncIterable
from typing import Any, get_args

import pytest

from changeover import Agent, Team, delegate, events
from changeover.errors import MisconfiguredError
from changeover.protocol import HandoffPackage, Metadata, Task
from changeover.stream import AgentChanged, Recorded, RunFinished
from changeover.testing import ScriptedModel, delegates, hands_off, says

SCRIPT = {"triage": [hands_off("billing", "x")], "billing": [says("Refunded."), says("Again.")]}


def desk(store: str | None = None) -> Team:
    return Team([Agent("triage"), Agent("billing")], model=ScriptedModel(SCRIPT), store=store)


async def test_history_begins_after_a_seq(any_store: str | None):
    async with desk(any_store) as team:
        await team.run("hello", conversation="story")
        whole = await team.history("story")
        assert await team.history("story", after=whole[2].seq) == whole[3:]
        assert await team.history("story", after=whole[-1].seq) == []
        assert await team.history("story", after=0) == whole


async def test_follow_begins_after_a_seq(any_store: str | None):
    async with desk(any_store) as team:
        await team.run("hello", conversation="story")
        whole = [item async for item in team.follow("story")]
        seqs = [item.seq for item in whole if isinstance(item, Recorded)]
        rest = [item async for item in team.follow("story", after=seqs[2])]
        assert [item.seq for item in rest if isinstance(item, Recorded)] == seqs[3:]
        assert isinstance(rest[-1], RunFinished)


@pytest.mark.parametrize("after", [-1, "3", 1.5])
async def test_after_is_a_seq(after: Any):
    async with desk() as team:
        await team.run("hello", conversation="story")
        with pytest.raises(MisconfiguredError, match="after"):
            await team.history("story", after=after)
        with pytest.raises(MisconfiguredError, match="after"):
            team.follow("story", after=after)


async def changes(stream: AsyncIterable[Any]) -> list[tuple[str, str, str]]:
    found = [item async for item in stream if isinstance(item, AgentChanged)]
    return [(item.previous, item.agent, item.conversation) for item in found]


async def test_a_stream_says_when_the_active_agent_changes():
    assert await changes(desk().stream("hello", conversation="story")) == [
        *(("", "triage", "story"), ("triage", "billing", "story")),
    ]


async def test_the_active_agent_does_not_change_when_the_next_message_comes():
    team = desk()
    await team.run("hello", conversation="story")
    assert await changes(team.stream("and again", conversation="story")) == []


async def test_a_delegate_is_the_active_agent_of_its_own_conversation_only():
    script = {"boss": [delegates("clerk", "count"), says("Done.")], "clerk": [says("Three.")]}
    members = [Agent("boss", handoffs=[delegate("clerk")]), Agent("clerk")]
    team = Team(members, model=ScriptedModel(script))
    assert await changes(team.stream("hello", conversation="story")) == [
        *(("", "boss", "story"), ("", "clerk", "story/3.0")),
    ]


async def test_a_rollback_makes_the_sender_the_active_agent_again():
    script = {"triage": [hands_off("billing", "x"), says("I have it back.")]}
    team = Team([Agent("triage"), Agent("billing", pull=True)], model=ScriptedModel(script))
    async with team:
        waiting = await team.run("hello", conversation="story")
        [claim] = await team.claim("billing")
        await claim.accept()

        async def undo() -> None:
            await team.rollback(waiting.pending[0].id)

        assert (await changes(team.follow("story", undo)))[1:] == [
            *(("triage", "billing", "story"), ("billing", "triage", "story")),
        ]


async def test_a_reader_that_goes_on_after_a_seq_hears_only_of_later_changes():
    async with desk() as team:
        await team.run("hello", conversation="story")
        [started] = [each for each in await team.history("story") if isinstance(each.event, events.RunStarted)]
        assert await changes(team.follow("story", after=started.seq)) == [("triage", "billing", "story")]


async def test_event_classes_are_public_for_readers_of_a_stream():
    async with desk() as team:
        await team.run("hello", conversation="story")
        kinds = {type(each.event) for each in await team.history("story")}
    assert {getattr(events, kind.__name__) for kind in kinds} == kinds
    assert {kind.__name__ for kind in get_args(events.Event)} <= set(events.__all__)


async def test_a_result_that_does_not_come_in_time_may_cancel_its_ticket(any_store: str | None):
    async with Team([Agent("clerk", pull=True)], store=any_store) as team:
        ticket = await team.submit(HandoffPackage(Task("count"), metadata=Metadata(receiver="clerk")))
        with pytest.raises(TimeoutError, match="is cancelled"):
            await team.result(ticket, timeout=0.02, cancel=True)
        assert (await team.status(ticket)).state == "RETURNED"
        assert await team.claim("clerk") == []


async def test_a_result_that_does_not_come_in_time_leaves_its_ticket_alone_unless_told():
    async with Team([Agent("clerk", pull=True)]) as team:
        ticket = await team.submit(HandoffPackage(Task("count"), metadata=Metadata(receiver="clerk")))
        with pytest.raises(TimeoutError):
            await team.result(ticket, timeout=0.02)
        assert len(await team.claim("clerk")) == 1
