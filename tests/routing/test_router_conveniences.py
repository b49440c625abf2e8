"""The router for people: recommendations unpack, names will do, and what was learned can be seen and reset."""

from typing import Any

import pytest

from changeover import Agent, Team, specialist
from changeover.protocol import HandoffPackage, Metadata, Task
from changeover.testing import ScriptedModel, calls, says
from tests.any_store import any_store, postgres, sqlite_file

__all__ = ["any_store", "postgres", "sqlite_file"]

MEMBERS = [
    Agent("front", handoffs=[specialist()]),
    Agent("lex-1", name="Contract Counsel", capabilities=["contract-law", "tax"], description="Knows contracts."),
    Agent("pix-1", name="Picture Desk", capabilities=["drawing"], description="Draws."),
]
WISH = {"specialist_type": "somebody wise", "task": "please help with this", "reason": ""}


def office(helper: Any = None, **options: Any) -> Any:
    """Any: what is called here does not exist yet."""
    script = {
        "front": [calls(("handoff_to_specialist", WISH)), says("Done.")],
        **{id: [says("Advised.")] * 5 for id in ("lex-1", "pix-1")},
    }
    return Team(MEMBERS, model=ScriptedModel(script), helper_model=helper, **options)


async def test_a_recommendation_unpacks_to_agent_score_and_why():
    [best, *_] = await office().router.recommend("a contract")
    agent, score, why = best
    assert (agent, score, why) == (best.agent, best.score, best.why)
    assert agent == "lex-1"


@pytest.mark.parametrize("answer", ["Contract Counsel", "contract counsel", "**Contract Counsel**", "lex-1"])
async def test_a_judge_may_answer_with_an_agents_name_or_id(answer: str):
    helper = ScriptedModel(lambda *_: says(answer))
    found = await office(helper).router.find_agent_for_task("please help with this")
    assert found is not None
    assert found.agent == "lex-1"


@pytest.mark.parametrize("answer", ["Contract Counselor", "The Boss", "NONE", "lex-1 or pix-1"])
async def test_a_name_that_nobody_has_is_nobody(answer: str):
    helper = ScriptedModel(lambda *_: says(answer))
    assert await office(helper).router.find_agent_for_task("please help with this") is None


async def learn(team: Team) -> None:
    """Let an agent be found by a capability, and succeed."""
    package = HandoffPackage(Task("a contract"), metadata=Metadata())
    for _ in range(2):
        await team.broker("contract-law", package)


async def test_the_router_shows_what_was_learned(any_store: str | None):
    async with office(store=any_store) as team:
        await learn(team)
        [learned] = await team.router.learned()
        assert (learned.capability, learned.agent, learned.tasks, learned.successes) == ("contract-law", "lex-1", 2, 2)
        assert await team.router.learned(agent="pix-1") == []
        assert len(await team.router.learned(capability="contract-law")) == 1


async def test_the_router_resets_what_was_learned(any_store: str | None):
    async with office(store=any_store) as team:
        await learn(team)
        assert await team.router.reset_learning(agent="pix-1") == 0
        assert await team.router.reset_learning(agent="lex-1") == 1
        assert await team.router.learned() == []


async def test_the_router_lists_capabilities_and_who_has_them(any_store: str | None):
    async with office(store=any_store) as team:
        assert await team.router.capabilities() == {
            "contract-law": ["lex-1"],
            "drawing": ["pix-1"],
            "tax": ["lex-1"],
        }
        await team.router.disable("pix-1")
        assert "drawing" not in await team.router.capabilities()
