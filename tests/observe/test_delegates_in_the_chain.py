"""The chain of a run and the lists of tasks show all that happened, also what delegates handed on."""

import pytest

from changeover import Agent, Limits, Team, delegate
from changeover.errors import MaxHandoffsExceededError
from changeover.stream import RunFinished
from changeover.testing import ScriptedModel, delegates, hands_off, says
from tests.stories.delegates import cast


def desk(store: str | None = None) -> Team:
    """The boss asks a clerk, who hands on to a deputy."""
    script = {
        "boss": [delegates("clerk", "count"), says("Done.")],
        "clerk": [hands_off("deputy", "please")],
        "deputy": [says("Three.")],
    }
    members = [
        Agent("boss", handoffs=[delegate("clerk")]),
        Agent("clerk", handoffs=["deputy"]),
        Agent("deputy", handoffs=()),
    ]
    return Team(members, model=ScriptedModel(script), store=store)


async def test_the_chain_includes_what_delegates_handed_on(any_store: str | None):
    async with desk(any_store) as team:
        result = await team.run("how many?", conversation="story")
        assert [(each.sender, each.receiver, str(each.mode)) for each in result.handoff_chain] == [
            *(("boss", "clerk", "delegate"), ("clerk", "deputy", "transfer")),
        ]
        assert result.handoff_chain == await team.handoffs("story")


async def test_the_chain_of_a_limit_includes_what_delegates_handed_on():
    members = [
        Agent("boss", handoffs=[delegate("clerk")]),
        Agent("clerk", handoffs=["deputy"]),
        Agent("deputy", handoffs=()),
    ]
    model = cast(boss=delegates("clerk", "count"), clerk=hands_off("deputy", "please"), deputy=says("Three."))
    team = Team(members, model=model, limits=Limits(max_handoffs=2), guards=())
    with pytest.raises(MaxHandoffsExceededError) as caught:
        await team.run("how many?")
    assert [(each.sender, each.receiver) for each in caught.value.chain] == [("boss", "clerk"), ("clerk", "deputy")]
    assert "boss -> clerk, clerk -> deputy" in str(caught.value)


async def test_a_stream_ends_with_the_same_chain():
    async with desk() as team:
        [finished] = [item async for item in team.stream("how many?") if isinstance(item, RunFinished)]
    assert len(finished.result.handoff_chain) == 2
