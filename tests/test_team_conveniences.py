"""What makes a team easier to use: several members at once, names beside ids, retries, options of one run."""

import asyncio
from math import nan
from typing import Any

import pytest

from changeover import Agent, Full, MessageOnly, Recent, Team, Variable, delegate, handoff, tool
from changeover.errors import MisconfiguredError, ModelError, PackageError
from changeover.protocol import Context, HandoffPackage, Metadata, Task
from changeover.testing import ManualClock, ScriptedModel, calls, delegates, fails, hands_off, says
from tests.any_store import any_store, postgres, sqlite_file

__all__ = ["any_store", "postgres", "sqlite_file"]

SCRIPT = {"triage": [hands_off("billing", "refund")], "billing": [says("Refunded.")]}


def desk(*members: Agent, script: Any = None, **options: Any) -> Any:
    """A team of these members, or of triage and billing."""
    return Team(members or (Agent("triage"), Agent("billing")), model=ScriptedModel(script or SCRIPT), **options)


async def test_several_members_are_registered_at_once():
    team = desk(Agent("triage"))
    team.register(Agent("billing"), Agent("sales"))
    assert set(team.roster.seats) == {"triage", "billing", "sales"}


async def test_members_are_registered_together_or_not_at_all():
    team = desk(Agent("triage"))
    with pytest.raises(MisconfiguredError, match="triage"):
        team.register(Agent("billing"), Agent("triage"))
    assert set(team.roster.seats) == {"triage"}


async def test_a_disabled_start_agent_is_refused(any_store: str | None):
    async with desk(store=any_store) as team:
        await team.router.disable("triage")
        with pytest.raises(MisconfiguredError, match="'triage' is disabled"):
            await team.run("hello", conversation="story")
        assert (await team.run("hello", agent="billing", conversation="story")).output == "Refunded."


NESTED: dict[str, dict[str, Any]] = {
    "in a dict": {"a": {"b": nan}},
    "in a list": {"a": [1.0, nan]},
    "on top": {"a": nan},
    "infinite": {"a": -1e999},
}


@pytest.mark.parametrize("where", NESTED)
async def test_a_nested_nan_in_a_context_is_refused(where: str):
    with pytest.raises(MisconfiguredError, match="finite"):
        await desk().run("hello", context=NESTED[where])


@pytest.mark.parametrize("where", NESTED)
def test_a_nested_nan_in_a_package_is_refused(where: str):
    with pytest.raises(PackageError):
        HandoffPackage(Task("x"), Context(variables=NESTED[where]), Metadata(receiver="billing"))


async def test_results_carry_the_names_of_agents_beside_their_ids():
    team = desk(Agent("triage", name="Front Desk"), Agent("billing", name="Billing Office"))
    result = await team.run("hello")
    [made] = result.handoff_chain
    assert (result.final_agent, result.final_agent_name) == ("billing", "Billing Office")
    assert (made.sender_name, made.receiver_name) == ("Front Desk", "Billing Office")


async def test_what_code_offered_and_what_a_delegate_brings_name_the_agent():
    team = desk(Agent("triage"), Agent("billing", name="Billing Office"))
    result = await team.offer(HandoffPackage(Task("x"), metadata=Metadata(receiver="billing")))
    assert (result.agent, result.agent_name) == ("billing", "Billing Office")


async def test_names_are_in_the_log_as_they_were(any_store: str | None):
    async with desk(Agent("triage", name="Front Desk"), Agent("billing"), store=any_store) as team:
        await team.run("hello", conversation="story")
        [made] = await team.handoffs("story")
        assert (made.sender_name, made.receiver_name) == ("Front Desk", "billing")
        assert (await team.resume("story")).final_agent_name == "billing"


async def test_an_agent_without_a_name_is_named_by_its_id():
    assert (await desk().run("hello")).final_agent_name == "billing"


@pytest.mark.parametrize(
    "way", [handoff("billing", instructions="Count twice."), delegate("billing", instructions="Count twice.")]
)
async def test_a_senders_model_reads_what_the_receiver_is_told(way: Any):
    model = ScriptedModel({"triage": [says("Hello.")]})
    await Team([Agent("triage", handoffs=[way]), Agent("billing")], model=model).run("hello")
    [definition] = model.requests[0].tools
    assert "The receiver is told: Count twice." in definition.description


async def test_retries_of_models_are_set_on_the_team():
    script = {"triage": [fails("busy")] * 9}
    for retries in (0, 4):
        model = ScriptedModel(script)
        options: dict[str, Any] = {"model_retries": retries, "clock": ManualClock(auto=True)}
        team = Team([Agent("triage")], model=model, **options)
        with pytest.raises(ModelError):
            await team.run("hello")
        assert len(model.requests) == retries + 1


async def test_retries_of_tools_are_set_on_the_team_and_a_tool_may_say_otherwise():
    tried: list[str] = []

    def flaky() -> str:
        """Fail."""
        tried.append("flaky")
        raise OSError("busy")

    @tool(retries=0)
    def once() -> str:
        """Fail."""
        tried.append("once")
        raise OSError("busy")

    script = {"triage": [calls(("flaky", {}), ("once", {})), says("Done.")]}
    team = desk(Agent("triage", tools=[flaky, once]), script=script, clock=ManualClock(auto=True), tool_retries=2)
    await team.run("hello")
    assert (tried.count("flaky"), tried.count("once")) == (3, 1)


@pytest.mark.parametrize("option", ["model_retries", "tool_retries"])
@pytest.mark.parametrize("value", [-1, 1.5, "2"])
def test_retries_are_whole_numbers(option: str, value: Any):
    with pytest.raises(MisconfiguredError, match=option):
        desk(**{option: value})


async def test_a_run_may_have_another_model():
    other = ScriptedModel({"triage": [says("The other.")], "billing": [says("The other.")]})
    team = desk(Agent("triage"))
    assert (await team.run("hello", model=other, conversation="story")).output == "The other."
    assert len(other.requests) == 1


async def test_the_model_of_a_run_is_for_its_delegates_too_and_for_no_other_run():
    script = {"boss": [delegates("clerk", "count"), says("Done.")], "clerk": [says("Three.")]}
    usual, other = ScriptedModel({"boss": [says("As usual.")]}), ScriptedModel(script)
    team = Team([Agent("boss", handoffs=[delegate("clerk")]), Agent("clerk")], model=usual)
    assert (await team.run("hello", model=other, conversation="story")).output == "Done."
    assert [request.agent for request in other.requests] == ["boss", "clerk", "boss"]
    assert (await team.run("hello", conversation="another")).output == "As usual."


async def test_an_agent_keeps_its_own_model_and_a_handoff_its_own_strategy():
    own, other = ScriptedModel({"billing": [says("My own.")]}), ScriptedModel({"triage": [hands_off("billing", "x")]})
    ways = [handoff("billing", strategy=Recent(1))]
    team = Team([Agent("triage", handoffs=ways), Agent("billing", model=own)], model=ScriptedModel({}))
    result = await team.run("hello", model=other, strategy=MessageOnly())
    assert (result.output, result.handoff_chain[0].strategy) == ("My own.", "recent")


async def test_a_message_that_waits_has_the_strategy_of_its_own_run():
    script = {
        "triage": [hands_off("billing", "x"), says("Done.")],
        "billing": [says("One."), hands_off("triage", "y")],
    }
    team = Team([Agent("triage"), Agent("billing")], model=ScriptedModel(script))
    first = asyncio.ensure_future(team.run("first", conversation="story", strategy=MessageOnly()))
    second = asyncio.ensure_future(team.run("second", conversation="story"))
    made = [each.strategy for run in (first, second) for each in (await run).handoff_chain]
    assert made == ["message_only", "full"]


async def test_a_run_may_have_another_strategy():
    model = ScriptedModel({"triage": [says("One."), hands_off("billing", "refund")], "billing": [says("Refunded.")]})
    team: Any = Team([Agent("triage"), Agent("billing")], model=model, strategy=Full())
    await team.run("first words", conversation="story")
    result = await team.run("second words", conversation="story", strategy=MessageOnly())
    assert (result.handoff_chain[0].strategy, "first words" in repr(model.requests[-1].messages)) == (
        "message_only",
        False,
    )


async def test_options_of_a_run_are_checked_before_anything_is_recorded():
    team = desk()
    for options in ({"strategy": 7}, {"model": 7}):
        with pytest.raises(MisconfiguredError):
            await team.run("hello", conversation="story", **options)


@pytest.mark.parametrize("strategy", [Full(exclude=["tool:*"]), Recent(9, exclude=["tool:*"])], ids=["full", "recent"])
async def test_what_leaves_out_tools_drops_calls_as_well_as_results(strategy: Any):
    def look(page: int) -> str:
        """Look."""
        return "the shelf is empty"

    script = {"triage": [calls(("look", {"page": 77})), hands_off("billing", "refund")], "billing": [says("Refunded.")]}
    model = ScriptedModel(script)
    members = [Agent("triage", tools=[look], handoffs=[handoff("billing", strategy=strategy)]), Agent("billing")]
    await Team(members, model=model).run("hello")
    seen = repr(model.requests[-1].messages)
    assert ("the shelf is empty" in seen, "77" in seen, "hello" in seen) == (False, False, True)


async def test_a_required_value_that_is_missing_is_reported_as_missing():
    needy = Agent("billing", requires=[Variable("amount", "integer")])
    script = {"triage": [delegates("billing", "x"), says("Done.")]}
    model = ScriptedModel(script)
    await Team([Agent("triage", handoffs=[delegate("billing")]), needy], model=model).run("hello")
    assert "amount" in model.requests[-1].messages[-1].text
