"""`history` and `follow` from a position on, items for readers of a stream, and results with a limit of time."""

from typing import Any

import pytest

import changeover
from changeover import Agent, HandoffPackage, Metadata, Task, Team
from changeover.errors import MisconfiguredError
from changeover.testing import ScriptedModel, delegates, hands_off, says
from tests.public_api import public

SCRIPT = {"triage": [hands_off("billing", "x")], "billing": [says("Refunded."), says("Again.")]}

no_after = pytest.mark.xfail(strict=True, reason="there is no after=")


def desk(store: str | None = None) -> Any:
    return Team([Agent("triage"), Agent("billing")], model=ScriptedModel(SCRIPT), store=store)


@no_after
async def test_history_begins_after_a_seq(any_store: str | None):
    async with desk(any_store) as team:
        await team.run("hello", conversation="story")
        whole = await team.history("story")
        assert await team.history("story", after=whole[2].seq) == whole[3:]
        assert await team.history("story", after=whole[-1].seq) == []
        assert await team.history("story", after=0) == whole


@no_after
async def test_follow_begins_after_a_seq(any_store: str | None):
    async with desk(any_store) as team:
        await team.run("hello", conversation="story")
        whole = [item async for item in team.follow("story")]
        seqs = [item.seq for item in whole if isinstance(item, changeover.Recorded)]
        rest = [item async for item in team.follow("story", after=seqs[2])]
        assert [item.seq for item in rest if isinstance(item, changeover.Recorded)] == seqs[3:]
        assert isinstance(rest[-1], changeover.RunFinished)


@pytest.mark.parametrize("after", [-1, "3", 1.5])
@no_after
async def test_after_is_a_seq(after: Any):
    async with desk() as team:
        await team.run("hello", conversation="story")
        with pytest.raises(MisconfiguredError, match="after"):
            await team.history("story", after=after)


@pytest.mark.xfail(strict=True, reason="a stream has no item for a change of the active agent")
async def test_a_stream_says_when_the_active_agent_changes():
    changed = public(changeover, "AgentChanged")
    found = [item async for item in desk().stream("hello", conversation="story") if isinstance(item, changed)]
    assert [(item.previous, item.agent, item.conversation) for item in found] == [
        *(("", "triage", "story"), ("triage", "billing", "story")),
    ]


@pytest.mark.xfail(strict=True, reason="a stream has no item for a change of the active agent")
async def test_a_delegate_is_the_active_agent_of_its_own_conversation_only():
    changed = public(changeover, "AgentChanged")
    script = {"boss": [delegates("clerk", "count"), says("Done.")], "clerk": [says("Three.")]}
    members = [Agent("boss", handoffs=[changeover.delegate("clerk")]), Agent("clerk")]
    team = Team(members, model=ScriptedModel(script))
    found: list[Any] = [item async for item in team.stream("hello", conversation="story") if isinstance(item, changed)]
    assert [(item.agent, item.conversation) for item in found] == [("boss", "story"), ("clerk", "story/3.0")]


@pytest.mark.xfail(strict=True, reason="event classes have no public home")
async def test_event_classes_are_public_for_readers_of_a_stream():
    from importlib import import_module

    events = import_module("changeover.events")
    async with desk() as team:
        await team.run("hello", conversation="story")
        kinds = {type(each.event) for each in await team.history("story")}
    assert {kind.__name__ for kind in kinds} <= set(events.__all__)
    assert {getattr(events, kind.__name__) for kind in kinds} == kinds


@pytest.mark.xfail(strict=True, reason="result() has no cancel=")
async def test_a_result_that_does_not_come_in_time_may_cancel_its_ticket(any_store: str | None):
    async with Team([Agent("clerk", pull=True)], store=any_store) as team:
        ticket = await team.submit(HandoffPackage(Task("count"), metadata=Metadata(receiver="clerk")))
        waits: Any = team.result
        with pytest.raises(TimeoutError):
            await waits(ticket, timeout=0.02, cancel=True)
        assert (await team.status(ticket)).state == "RETURNED"
        assert await team.claim("clerk") == []


async def test_a_result_that_does_not_come_in_time_leaves_its_ticket_alone_unless_told():
    async with Team([Agent("clerk", pull=True)]) as team:
        ticket = await team.submit(HandoffPackage(Task("count"), metadata=Metadata(receiver="clerk")))
        with pytest.raises(TimeoutError):
            await team.result(ticket, timeout=0.02)
        assert len(await team.claim("clerk")) == 1
