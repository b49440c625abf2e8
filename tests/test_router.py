"""The router of a team: profiles in the store, members that join, and which agents are found."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import pytest

from changeover import Agent, Person, Store, Team, handoff
from changeover.errors import MisconfiguredError, UnknownAgentError
from changeover.messages import Message
from changeover.routing import Profile, Routing
from changeover.testing import Reply, ScriptedModel, calls, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.databases import postgres, shared_store, sqlite_file

__all__ = ["postgres", "shared_store", "sqlite_file"]

LAW = Agent("lawyer", description="Reads contracts and leases.", capabilities=["contract-law"])
TAX = Agent("accountant", description="Files taxes and books invoices.", capabilities=["taxes", "invoices"])
DESK = Agent("desk", description="Greets everybody.")


def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """The desk says to whom it can hand off; everybody else who it is."""
    if agent != "desk":
        return says(f"{agent} is here.")
    return says(", ".join(name for tool in tools for name in tool.receivers))


def team(*members: Agent | Person, store: Store | None = None, helper: ScriptedModel | None = None) -> Team:
    return Team(members or (DESK, LAW, TAX), model=ScriptedModel(play), store=store, helper_model=helper)


@pytest.fixture
async def two(shared_store: str) -> AsyncIterator[tuple[Team, Team]]:
    """Two teams on one store, as two processes would have them."""
    teams = [team(store=Store(shared_store, lease=1.5)) for _ in range(2)]
    yield teams[0], teams[1]
    for each in teams:
        await each.close()


async def names(of: Team) -> list[str]:
    return [profile.id for profile in await of.router.list_available_agents()]


async def offered(by: Team) -> str:
    """To whom the desk of a team can hand off."""
    return (await by.run("Who is there?", agent="desk")).text


async def until_offered(by: Team, wanted: str) -> None:
    deadline = time.monotonic() + 10
    while await offered(by) != wanted:
        assert time.monotonic() < deadline, "it was not seen"
        await asyncio.sleep(0.1)


async def test_a_change_that_one_team_makes_is_seen_by_the_other_within_seconds(two: tuple[Team, Team]):
    one, other = two
    assert await offered(one) == await offered(other) == "desk, lawyer, accountant"
    await one.router.disable("lawyer")
    assert await offered(one) == "desk, accountant"
    await until_offered(other, "desk, accountant")
    await other.router.enable("lawyer")
    await until_offered(one, "desk, lawyer, accountant")
    await one.router.remove("accountant")
    await until_offered(other, "desk, lawyer")


async def test_a_team_that_begins_later_knows_what_was_said_before(shared_store: str):
    before = team(store=Store(shared_store))
    await before.router.disable("lawyer")
    await before.close()
    later = team(store=Store(shared_store))
    assert await offered(later) == "desk, accountant"
    await later.close()


async def test_the_router_asks_the_store_and_need_not_wait(two: tuple[Team, Team]):
    one, other = two
    await one.router.put(Profile("lawyer", description="Sues.", specialization="lawsuits", max_concurrency=2))
    found = await other.router.find_agent_for_capability("Lawsuits")
    assert found is not None
    assert (found.agent, found.step) == ("lawyer", "exact")
    assert await other.router.find_agent_for_capability("contract-law") is not None
    await one.router.disable("lawyer")
    assert await names(other) == ["accountant", "desk"]
    assert await other.router.find_agent_for_capability("lawsuits") is None


async def test_where_the_store_says_something_else_than_the_code_the_code_holds_and_a_warning_says_so(
    caplog: pytest.LogCaptureFixture,
):
    mine = team()
    await mine.router.put(Profile("lawyer", description="Sues.", specialization="lawsuits"))
    [lawyer] = [each for each in await mine.router.list_available_agents() if each.id == "lawyer"]
    assert (lawyer.description, lawyer.specialization) == ("Reads contracts and leases.", "lawsuits")
    assert "code and store differ in the description of 'lawyer'; that of the code holds" in caplog.messages


async def test_what_code_declares_is_not_written_to_the_store_by_itself(two: tuple[Team, Team]):
    await two[0].run("Hello")
    assert await two[0].log.agents.all() == []


async def test_a_profile_of_somebody_who_is_not_in_the_team_is_found_by_nobody():
    mine = team()
    await mine.router.put(Profile("stranger", capabilities=("magic",)))
    assert await mine.router.find_agent_for_capability("magic") is None
    assert await names(mine) == ["accountant", "desk", "lawyer"]


async def test_a_profile_says_how_much_somebody_can_do_and_not_whether_it_takes_handoffs():
    mine = team(DESK, LAW, Agent("shy", accepts_handoffs=False))
    await mine.router.put(Profile("shy", capabilities=("secrets",)))
    await mine.router.put(Profile("lawyer", max_concurrency=3))
    assert await mine.router.find_agent_for_capability("secrets") is None
    [_, lawyer] = await mine.router.list_available_agents()
    assert (lawyer.id, lawyer.max_concurrency, lawyer.description) == ("lawyer", 3, "Reads contracts and leases.")


class Lull:
    """A tool that takes until it is let go, and whoever calls it."""

    def __init__(self, *callers: str) -> None:
        self._callers = callers
        self.begun, self.free = asyncio.Event(), asyncio.Event()

    async def wait(self) -> str:
        """Take a while."""
        self.begun.set()
        await self.free.wait()
        return "waited"

    def play(self, agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent in self._callers and messages[-1].text != "waited":
            return calls(("wait", {}))
        return hands_off("lawyer", "x") if len(messages) == 1 else says(f"{agent}: {messages[-1].text}")


async def test_a_limit_that_a_profile_sets_holds_for_handoffs():
    lull = Lull("lawyer")
    lawyer = Agent("lawyer", tools=[lull.wait], handoffs=())
    mine = Team([DESK, lawyer], model=ScriptedModel(lull.play))
    await mine.router.put(Profile("lawyer", max_concurrency=1))
    first = asyncio.ensure_future(mine.run("first"))
    await lull.begun.wait()
    second = await mine.run("second")
    lull.free.set()
    assert (await first).output == "lawyer: waited"
    assert "it works on 1 tasks, which is all it can do at once" in second.output


async def test_agents_are_found_by_capability_by_words_and_by_a_model():
    none = team()
    able = await none.router.find_agent_for_capability("taxes", "invoices")
    assert able is not None
    assert (able.agent, able.step) == ("accountant", "exact")
    assert await none.router.find_agent_for_capability("taxes", "contract law") is None
    found = await none.router.find_agent_for_task("Book these invoices and file the taxes.")
    assert found is not None
    assert (found.agent, found.step) == ("accountant", "text")
    assert await none.router.find_agent_for_task("Help me.") is None
    asks = team(helper=ScriptedModel(lambda *asked: says("3")))
    judged = await asks.router.find_agent_for_task("Help me.")
    assert judged is not None
    assert (judged.agent, judged.step) == ("lawyer", "judge")
    required = await asks.router.find_agent_for_task("Help me.", ["contract law"])
    assert required is not None
    assert (required.agent, required.step) == ("lawyer", "exact")


async def test_recommendations_are_ranked_and_explained():
    [first, *others] = await team().router.recommend("Who books invoices and reads leases?", n=2)
    assert len(others) <= 1
    assert first.agent in ("accountant", "lawyer")
    assert first.why
    assert await team().router.recommend("Book invoices", n=0) == []


async def test_what_cannot_be_kept_is_said_and_nothing_is_kept():
    mine = team()
    with pytest.raises(MisconfiguredError, match="'no id!' is not a valid id"):
        await mine.router.put(Profile("no id!"))
    with pytest.raises(MisconfiguredError, match="max_concurrency=0"):
        await mine.router.put(Profile("lawyer", max_concurrency=0))
    for change in (mine.router.enable, mine.router.disable, mine.router.remove):
        with pytest.raises(UnknownAgentError, match="no agent is called 'nobody'"):
            await change("nobody")
    assert await mine.log.agents.all() == []


async def test_a_member_that_joins_is_handed_to_and_works():
    def hands(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        there = [name for tool in tools for name in tool.receivers]
        return hands_off("lawyer", "x") if agent == "desk" and "lawyer" in there else says(f"{agent} is here.")

    mine = Team([DESK], model=ScriptedModel(hands))
    assert (await mine.run("Hello", conversation="c")).output == "desk is here."
    mine.register(LAW)
    result = await mine.run("Hello again", conversation="c")
    assert (result.output, result.final_agent) == ("lawyer is here.", "lawyer")
    assert await names(mine) == ["desk", "lawyer"]
    assert (await mine.run("You!", agent="lawyer")).output == "lawyer is here."


async def test_whoever_works_while_somebody_joins_goes_on():
    lull = Lull("desk")
    mine = Team([Agent("desk", tools=[lull.wait]), TAX], model=ScriptedModel(lull.play))
    run = asyncio.ensure_future(mine.run("Hello"))
    await lull.begun.wait()
    mine.register(LAW)
    lull.free.set()
    assert (await run).output == "desk: waited"


async def test_who_joins_a_team_is_checked_as_if_it_had_been_there_from_the_start():
    mine = team()
    with pytest.raises(MisconfiguredError, match="2 agents are called 'lawyer'"):
        mine.register(LAW)
    with pytest.raises(MisconfiguredError, match="hands off to 'nobody', which is not in the team"):
        mine.register(Agent("new", handoffs=[handoff("nobody")]))
    assert list(mine.roster.seats) == ["desk", "lawyer", "accountant"]
    mine.register(Person("ana", name="Ana"))
    assert await names(mine) == ["accountant", "ana", "desk", "lawyer"]


async def test_who_joins_may_have_been_disabled_before():
    mine = team()
    await mine.router.put(Profile("ana", enabled=False))
    mine.register(Person("ana"))
    assert await names(mine) == ["accountant", "desk", "lawyer"]
    assert await offered(mine) == "desk, lawyer, accountant"
    await mine.router.enable("ana")
    assert await offered(mine) == "desk, lawyer, accountant, ana"


async def test_texts_may_be_compared_by_what_their_words_mean():
    members = [
        DESK,
        Agent("vet", description="Cures cats and dogs."),
        Agent("cook", description="Makes soup and bread."),
    ]
    task = "My puppy is ill"
    found = {
        match: await Team(members, model=ScriptedModel(play), routing=Routing(match=match)).router.recommend(task, n=1)
        for match in ("words", "meaning")
    }
    assert [each.agent for each in found["meaning"]] == ["vet"]
    assert found["words"] == []
