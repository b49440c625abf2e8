"""Stories of runs that reach a limit."""

from collections.abc import Sequence

from changeover import Agent, Limits, Variable, handoff
from changeover.errors import EconomicLimitExceeded, MaxHandoffsExceededError
from changeover.messages import Assistant, Message, ToolResult
from changeover.relay.events import CallRefused
from changeover.testing import Reply, ScriptedModel, calls, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.scripts import names_its_tools, shown
from tests.stories.stage import CONVERSATION, Stage, events, story

THREE = {
    "triage": [hands_off("billing", "about money")],
    "billing": [hands_off("refunds", "give it back")],
    "refunds": [says("Done.")],
}


def three_agents() -> list[Agent]:
    return [Agent("triage"), Agent("billing"), Agent("refunds")]


@story
async def a_ring_is_stopped_and_the_error_has_the_whole_chain(stage: Stage) -> None:
    ring = {"a": "b", "b": "c", "c": "a"}
    lap = [Variable("lap", type="integer")]
    members = [Agent(id, handoffs=[handoff(after, variables=lap)]) for id, after in ring.items()]

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        turns = sum(isinstance(message, Assistant) for message in messages)
        return hands_off(ring[agent], f"round {turns}", lap=turns)

    team = stage.team(members, ScriptedModel(play), limits=Limits(max_handoffs=5))
    error = await stage.error(MaxHandoffsExceededError, team, "who does it?")
    assert (error.limit, error.limit_name) == (5, "max_handoffs")
    assert [(h.sender, h.receiver) for h in error.chain] == [("a", "b"), ("b", "c"), ("c", "a"), ("a", "b"), ("b", "c")]
    assert [h.variables["lap"] for h in error.chain] == [0, 1, 2, 3, 4]
    assert "max_handoffs=5" in str(error)
    assert "a -> b -> c -> a -> b -> c" in str(error)
    assert error.result is not None
    assert (error.result.status, error.result.final_agent, error.result.output) == ("failed", "c", "")
    assert error.result.handoff_chain == error.chain
    assert [h.state for h in error.chain] == ["COMPLETE"] * 4 + ["FAILED"]
    assert error.result.context["lap"] == 4
    assert error.ledger == error.result.ledger
    assert len(await team.handoffs(CONVERSATION)) == 5


@story
async def ten_handoffs_are_allowed_if_nothing_is_said(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return hands_off("pong" if agent == "ping" else "ping", f"{len(messages)}")

    error = await stage.error(
        MaxHandoffsExceededError, stage.team([Agent("ping"), Agent("pong")], ScriptedModel(play), guards=()), "play"
    )
    assert (error.limit, len(error.chain)) == (10, 10)


@story
async def a_limit_of_one_allows_exactly_one_handoff(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "triage":
            return hands_off("billing", "about money")
        return says("Done.") if messages[0].text == "one will do" else hands_off("refunds", "one more")

    team = stage.team(three_agents(), ScriptedModel(play), limits=Limits(max_handoffs=1))
    assert (await stage.say(team, "one will do", conversation="one")).output == "Done."
    error = await stage.error(MaxHandoffsExceededError, team, "two are needed", conversation="two")
    assert [(h.sender, h.receiver) for h in error.chain] == [("triage", "billing")]
    assert error.limit == 1


@story
async def a_limit_of_zero_offers_no_handoff_tool(stage: Stage) -> None:
    members = [Agent("triage", handoffs=["billing", handoff("triage")]), Agent("billing")]
    team = stage.team(members, ScriptedModel(names_its_tools), limits=Limits(max_handoffs=0))
    assert (await stage.say(team, "whom do you know?")).output == ""


@story
async def a_handoff_that_was_not_offered_is_over_the_limit_of_zero(stage: Stage) -> None:
    team = stage.team(three_agents(), ScriptedModel(THREE), limits=Limits(max_handoffs=0))
    error = await stage.error(MaxHandoffsExceededError, team, "charged twice")
    assert (error.limit, error.chain) == (0, [])


@story
async def a_run_may_have_limits_of_its_own(stage: Stage) -> None:
    team = stage.team(three_agents(), ScriptedModel(THREE), limits=Limits(max_handoffs=1))
    result = await stage.say(team, "charged twice", limits=Limits(max_handoffs=2))
    assert (result.output, len(result.handoff_chain)) == ("Done.", 2)


@story
async def handoffs_are_counted_anew_in_each_run(stage: Stage) -> None:
    model = ScriptedModel(
        {
            "a": [hands_off("b", "1"), says("Here."), hands_off("b", "3")],
            "b": [says("Yes."), hands_off("a", "2"), says("Yes.")],
        }
    )
    team = stage.team([Agent("a"), Agent("b")], model, limits=Limits(max_handoffs=1))
    chains = [(await stage.say(team, text)).handoff_chain for text in ("one", "two", "three")]
    assert [[(h.sender, h.receiver) for h in chain] for chain in chains] == [[("a", "b")], [("b", "a")], [("a", "b")]]
    assert len(await team.handoffs(CONVERSATION)) == 3


@story
async def an_agent_that_is_told_of_the_limit_answers_itself(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        last = messages[-1]
        if agent == "triage":
            return hands_off("billing", "about money")
        if isinstance(last, ToolResult) and not last.ok:
            return says(f"Then I do it. [{last.text}] [{shown(tools)}]")
        return hands_off("refunds", "give it back")

    team = stage.team(three_agents(), ScriptedModel(play), limits=Limits(max_handoffs=1, on_limit="tell"))
    result = await stage.say(team, "charged twice")
    assert (result.status, result.final_agent, len(result.handoff_chain)) == ("completed", "billing", 1)
    assert result.output.startswith("Then I do it. [refused: the run has made all its 1 handoffs")
    assert result.output.endswith(" []")  # the handoff tool is withdrawn
    assert [refused.why for refused in await events(team, CallRefused)] == ["limit"]


@story
async def handoffs_are_next_offer_in_the_next_run_after_a_limit(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "a" and isinstance(messages[-1], ToolResult):
            return says(f"[{shown(tools)}]")
        return hands_off("b", "x") if agent == "a" else hands_off("a", "y") if tools else says("Mine.")

    team = stage.team([Agent("a"), Agent("b")], ScriptedModel(play), limits=Limits(max_handoffs=1, on_limit="tell"))
    assert (await stage.say(team, "one")).output == "Mine."
    assert (await stage.say(team, "two")).output == "[handoff(a, b)]"


@story
async def a_run_that_turns_for_ever_is_stopped(stage: Stage) -> None:
    def look() -> str:
        """Look again."""
        return "nothing"

    team = stage.team(
        [Agent("solo", tools=[look])], ScriptedModel(lambda *_: calls(("look", {}))), limits=Limits(max_turns=3)
    )
    error = await stage.error(EconomicLimitExceeded, team, "find it")
    assert not isinstance(error, MaxHandoffsExceededError)
    assert (error.limit_name, error.limit) == ("max_turns", 3)
    assert error.ledger is not None
    assert error.ledger.turns == 3
    assert "max_turns=3" in str(error)
    assert error.result is not None
    assert error.result.status == "failed"


@story
async def an_agent_that_is_told_that_its_last_turn_has_come_answers(stage: Stage) -> None:
    def look() -> str:
        """Look again."""
        return "nothing"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return calls(("look", {})) if tools else says("I looked in vain.")

    team = stage.team(
        [Agent("solo", tools=[look], instructions="Search."), Agent("other")],
        ScriptedModel(play),
        limits=Limits(max_turns=3, on_limit="tell"),
    )
    result = await stage.say(team, "find it")
    assert (result.output, result.ledger.turns) == ("I looked in vain.", 3)
    for request in stage.requests("solo"):
        assert ("last reply" in request.instructions) == (not request.tools)
        assert request.instructions.startswith("Search.")


@story
async def turns_are_counted_over_all_agents_of_a_run(stage: Stage) -> None:
    error = await stage.error(
        EconomicLimitExceeded,
        stage.team(three_agents(), ScriptedModel(THREE), limits=Limits(max_turns=2)),
        "charged twice",
    )
    assert error.limit_name == "max_turns"
    assert error.result is not None
    assert [h.receiver for h in error.result.handoff_chain] == ["billing", "refunds"]
