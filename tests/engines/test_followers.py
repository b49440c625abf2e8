"""Following a run that was begun before or elsewhere: its past events, its new events, and its result."""

import asyncio
from typing import Any

import pytest

from changeover import Agent, Approve, Reject, Team, delegate, tool
from changeover.errors import ApprovalError, ConversationNotFound, ModelError
from changeover.relay.events import ApprovalDecided, RunCompleted, RunResumed, UserSpoke
from changeover.stream import Recorded, RunFinished, TextDelta
from changeover.testing import ScriptedModel, calls, delegates, fails, says
from tests.relay.world import dispatcher_of


@tool(approval=True)
def refund(amount: int) -> str:
    """Send money back."""
    return f"{amount} EUR sent back"


def asking(*after: Any) -> Team:
    script = {
        "desk": [says("Hello."), delegates("research", "all about it"), calls(("refund", {"amount": 5})), *after],
        "research": [says("It was paid twice.")],
    }
    agents = [Agent("desk", tools=[refund], handoffs=[delegate("research")]), Agent("research")]
    return Team(agents, model=ScriptedModel(script))


async def waiting(*after: Any) -> Team:
    team = asking(*after)
    await team.run("Good morning", conversation="ada")
    assert (await team.run("I was charged twice", conversation="ada")).status == "waiting"
    return team


@pytest.mark.parametrize("decision", [Approve(), Reject("no")])
async def test_what_is_written_after_a_decision_is_read_as_it_is_written(decision: Any):
    team = await waiting(says("All is done now."))
    [request] = await team.approvals("ada")

    async def decided() -> None:
        await team.decide(request, decision)

    items = [item async for item in team.follow("ada", decided)]
    after = [isinstance(item, Recorded) and isinstance(item.event, ApprovalDecided) for item in items].index(True)
    assert "".join(item.text for item in items[after:] if isinstance(item, TextDelta)) == "All is done now."
    assert isinstance(last := items[-1], RunFinished)
    assert last.result == await team.resume("ada")


async def test_a_run_is_followed_from_its_beginning_with_its_delegates_and_nothing_of_the_one_before():
    team = await waiting(says("All is done now."))
    [request] = await team.approvals("ada")

    async def decided() -> None:
        await team.decide(request, Approve())

    seen = [item for item in [item async for item in team.follow("ada", decided)] if isinstance(item, Recorded)]
    history = await team.history("ada")
    begun = next(i for i, each in enumerate(history) if each.event == UserSpoke("I was charged twice"))
    assert seen == history[begun:]
    assert {each.conversation.partition("/")[0] for each in seen} == {"ada"}
    assert any("/" in each.conversation for each in seen)
    assert isinstance(seen[-1].event, RunCompleted)


async def test_a_run_that_still_waits_says_so_and_one_that_ended_gives_its_result():
    team = await waiting(says("All is done now."))
    *_, last = [item async for item in team.follow("ada")]
    assert isinstance(last, RunFinished)
    assert (last.result.status, len(last.result.pending)) == ("waiting", 1)
    [request] = last.result.pending
    await team.decide(request, Approve())
    await team.resume("ada")
    *_, last = [item async for item in team.follow("ada")]
    assert isinstance(last, RunFinished)
    assert last.result.output == "All is done now."


async def test_a_failed_run_is_tried_again_and_followed():
    script = {"a": [fails("no line", retryable=False), says("Now it works.")]}
    team = Team([Agent("a")], model=ScriptedModel(script))
    with pytest.raises(ModelError):
        await team.run("Hello", conversation="ada")
    items = [item async for item in team.follow("ada")]
    assert any(isinstance(item, Recorded) and isinstance(item.event, RunResumed) for item in items)
    assert "".join(item.text for item in items if isinstance(item, TextDelta)) == "Now it works."


async def test_what_goes_wrong_is_raised_and_nobody_reads_on():
    team = await waiting()

    async def wrong() -> None:
        await team.decide("ada:1.0:x", Approve())

    with pytest.raises(ApprovalError):
        [item async for item in team.follow("ada", wrong)]
    with pytest.raises(ConversationNotFound):
        [item async for item in team.follow("nobody")]
    assert dispatcher_of(team).conversations.cached("ada").readers == []  # type: ignore[union-attr]


async def test_whoever_stops_reading_cancels_nothing():
    team = await waiting(says("All is done now."))
    [request] = await team.approvals("ada")
    done = asyncio.Event()

    async def decided() -> None:
        await team.decide(request, Approve())
        done.set()

    following = team.follow("ada", decided)
    await anext(following)
    await following.aclose()
    await done.wait()
    assert (await team.resume("ada")).output == "All is done now."
