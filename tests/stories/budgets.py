"""Stories of budgets: tokens, money, agents and time of a run, and budgets that a task brings along."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from changeover import Agent, Approve, Limits, RunResult, Team, delegate, tool
from changeover.errors import EconomicLimitExceeded
from changeover.messages import Message
from changeover.models import Usage
from changeover.relay.events import CallRefused, LimitReached, RunFailed, TierChosen
from changeover.testing import ManualClock, Reply, ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.cancellation import Hold
from tests.stories.delegates import cast
from tests.stories.stage import CONVERSATION, Stage, events, story
from tests.stories.timeouts import Step, goes_on_after, keeps_working, takes_place

Play = Callable[[str, Sequence[Message], Sequence[ToolDefinition]], Reply]


def costing(reply: Reply, tokens: int, cost: float | None = None) -> Reply:
    """The same, and what it took."""
    return replace(reply, usage=Usage(tokens, 0, 1, cost))


@tool
def look() -> str:
    """Look."""
    return "seen"


def looks_and_looks(tokens: int, cost: float | None = None) -> Play:
    """A model that never comes to an end, unless it has no tool left."""

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        reply = calls(("look", {})) if tools else says(f"Seen, after {len(messages)} messages.")
        return costing(reply, tokens, cost)

    return play


def one_who_looks(stage: Stage, play: Play, limits: Limits) -> Team:
    return stage.team([Agent("solo", tools=[look])], ScriptedModel(play), limits=limits)


@story
async def a_run_that_has_used_up_its_tokens_calls_no_model_any_more(stage: Stage) -> None:
    team = one_who_looks(stage, looks_and_looks(400), Limits(max_tokens=1_000))
    error = await stage.error(EconomicLimitExceeded, team, "go")
    assert (error.limit_name, error.limit, error.overshoot) == ("max_tokens", 1_000, 200)
    assert error.ledger is not None
    assert (error.ledger.tokens, error.ledger.turns) == (1_200, 3)
    assert "the run has used up max_tokens=1000: it has spent 1200" in str(error)
    assert "3 model turns, 0 handoffs, 1200 tokens" in str(error)


@story
async def the_last_tokens_may_be_spent_to_the_full(stage: Stage) -> None:
    script = {"solo": [costing(calls(("look", {})), 600), costing(says("Seen."), 400)]}
    team = stage.team([Agent("solo", tools=[look])], ScriptedModel(script), limits=Limits(max_tokens=1_000))
    result = await stage.say(team, "go")
    assert (result.output, result.ledger.tokens) == ("Seen.", 1_000)


@story
async def money_is_limited_as_tokens_are(stage: Stage) -> None:
    team = one_who_looks(stage, looks_and_looks(10, 0.04), Limits(max_cost=0.1))
    error = await stage.error(EconomicLimitExceeded, team, "go")
    assert (error.limit_name, error.limit, round(error.overshoot, 6)) == ("max_cost", 0.1, 0.02)
    assert error.ledger is not None
    assert (error.ledger.turns, round(error.ledger.cost or 0, 6)) == (3, 0.12)


@story
async def an_unknown_price_ends_a_run_whose_cost_is_limited(stage: Stage) -> None:
    team = one_who_looks(stage, looks_and_looks(10), Limits(max_cost=0.1))
    error = await stage.error(EconomicLimitExceeded, team, "go")
    assert "max_cost=0.1 cannot be enforced: the cost of a call is unknown" in str(error)
    assert error.ledger is not None
    assert (error.ledger.turns, error.ledger.cost) == (1, None)


@story
async def an_agent_that_is_told_that_its_budget_is_spent_gives_a_last_reply(stage: Stage) -> None:
    team = one_who_looks(stage, looks_and_looks(400), Limits(max_tokens=1_000, on_limit="tell"))
    result = await stage.say(team, "go")
    assert (result.output, result.ledger.tokens, result.ledger.turns) == ("Seen, after 7 messages.", 1_600, 4)
    [reached] = await events(team, LimitReached)
    assert (reached.limit, reached.figure, reached.spent) == ("max_tokens", 1_000, 1_200)
    said = [request.instructions for request in stage.requests("solo") if not request.tools]
    assert all("the last reply" in instructions for instructions in said)


@story
async def an_agent_that_goes_on_after_its_last_reply_is_stopped(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return costing(calls(("look", {})), 600)

    team = one_who_looks(stage, play, Limits(max_tokens=1_000, on_limit="tell"))
    error = await stage.error(EconomicLimitExceeded, team, "go")
    assert error.ledger is not None
    assert (error.limit_name, error.ledger.turns) == ("max_tokens", 3)


def boss_and_clerks(*clerks: str) -> list[Agent]:
    boss = Agent("boss", handoffs=[delegate(name) for name in clerks])
    return [boss, *(Agent(name, handoffs=(), tools=[look]) for name in clerks)]


@story
async def the_tokens_of_delegates_count_for_the_whole_run(stage: Stage) -> None:
    model = ScriptedModel(
        {
            "boss": [costing(calls(delegates("one", "a"), delegates("two", "b")), 300), costing(says("Both."), 300)],
            "one": [costing(says("A."), 400)],
            "two": [costing(says("B."), 400)],
        }
    )
    team = stage.team(boss_and_clerks("one", "two"), model, limits=Limits(max_tokens=1_000))
    error = await stage.error(EconomicLimitExceeded, team, "go")
    assert (error.limit_name, error.overshoot) == ("max_tokens", 100)
    assert error.ledger is not None
    assert (error.ledger.tokens, error.ledger.turns, error.ledger.agents) == (1_100, 3, 3)
    assert {name: share.tokens for name, share in error.ledger.by_agent.items()} == {
        "boss": 300,
        "one": 400,
        "two": 400,
    }


@story
async def a_delegate_stops_where_the_whole_run_has_used_up_its_tokens(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return costing(delegates("clerk", "look") if agent == "boss" else calls(("look", {})), 300)

    team = stage.team(boss_and_clerks("clerk"), ScriptedModel(play), limits=Limits(max_tokens=1_000))
    error = await stage.error(EconomicLimitExceeded, team, "go")
    assert error.ledger is not None
    assert (error.limit_name, error.ledger.tokens, error.ledger.turns) == ("max_tokens", 1_200, 4)
    reached = [each for each in await events(team, LimitReached) if each.limit == "max_tokens"]
    assert [(each.figure, each.spent) for each in reached] == [(1_000, 1_200)]


@story
async def every_agent_above_a_delegate_that_is_told_gets_a_last_reply_too(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        reply = says(f"{agent} is done.") if not tools else delegates("clerk", "look")
        return costing(calls(("look", {})) if agent == "clerk" and tools else reply, 300)

    team = stage.team(boss_and_clerks("clerk"), ScriptedModel(play), limits=Limits(max_tokens=1_000, on_limit="tell"))
    result = await stage.say(team, "go")
    assert (result.output, result.ledger.tokens) == ("boss is done.", 1_800)


@story
async def there_are_never_more_agents_than_may_be(stage: Stage) -> None:
    model = ScriptedModel({"a": [hands_off("b", "x")], "b": [hands_off("c", "y")], "c": [says("Here.")]})
    team = stage.team([Agent("a"), Agent("b"), Agent("c")], model, limits=Limits(max_agents=2))
    error = await stage.error(EconomicLimitExceeded, team, "go")
    assert (error.limit_name, error.limit) == ("max_agents", 2)
    assert error.ledger is not None
    assert error.ledger.agents == 2
    assert error.result is not None
    assert [h.receiver for h in error.result.handoff_chain] == ["b"]


@story
async def an_agent_that_worked_before_does_not_count_as_a_further_agent(stage: Stage) -> None:
    model = ScriptedModel({"a": [hands_off("b", "x"), says("Back.")], "b": [hands_off("a", "y")]})
    team = stage.team([Agent("a"), Agent("b")], model, limits=Limits(max_agents=2))
    result = await stage.say(team, "go")
    assert (result.output, result.ledger.agents) == ("Back.", 2)


@story
async def an_agent_is_told_that_no_further_agent_may_join(stage: Stage) -> None:
    model = ScriptedModel({"a": [hands_off("b", "x")], "b": [hands_off("c", "y"), says("Alone, then.")]})
    team = stage.team([Agent("a"), Agent("b"), Agent("c")], model, limits=Limits(max_agents=2, on_limit="tell"))
    assert (await stage.say(team, "go")).output == "Alone, then."
    [refused] = await events(team, CallRefused)
    assert refused.reason == "refused: 2 agents may work in the run, and that would be one more; answer yourself"


@story
async def delegates_of_delegates_are_agents_of_the_whole_run(stage: Stage) -> None:
    members = [
        Agent("boss", handoffs=[delegate("one"), delegate("two")]),
        Agent("one", handoffs=[delegate("three")]),
        Agent("two", handoffs=[delegate("four")]),
        Agent("three", handoffs=()),
        Agent("four", handoffs=()),
    ]

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "boss" and len(messages) == 1:
            return calls(delegates("one", "x"), delegates("two", "x"))
        if agent in ("one", "two") and not any(message.author == agent for message in messages):
            return delegates("three" if agent == "one" else "four", "x")
        return says(f"{agent}.")

    team = stage.team(members, ScriptedModel(play), limits=Limits(max_agents=4, on_limit="tell"))
    result = await stage.say(team, "go")
    assert (result.output, result.ledger.agents) == ("boss.", 4)
    taken = sorted(h.receiver for h in await team.handoffs(CONVERSATION) if h.state == "RETURNED")
    assert taken in (["one", "three", "two"], ["four", "one", "two"])
    [refused] = [each for each in await events(team, CallRefused) if each.why == "limit"]
    assert refused.receiver in ("three", "four")


@story
async def a_run_that_takes_too_long_is_stopped_in_the_midst_of_a_call(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    team = stage.team([Agent("solo")], cast(solo=keeps_working(hold)), clock=clock, limits=Limits(timeout=60))

    async def a_minute() -> None:
        await clock.advance(59)
        assert await events(team, RunFailed) == []
        await clock.advance(1)

    error = await _late(team, clock, stage.say(team, "go"), (hold, a_minute))
    assert (error.limit_name, error.limit) == ("timeout", 60)
    assert str(error).startswith("the run took longer than timeout=60 seconds")
    hold.let_go.set()


async def _late(
    team: Team, clock: ManualClock, going: Coroutine[Any, Any, RunResult], *steps: Step
) -> EconomicLimitExceeded:
    try:
        result = await takes_place(team, clock, going, *steps)
    except EconomicLimitExceeded as error:
        return error
    raise AssertionError(f"it was in time: {result}")


@story
async def a_run_that_takes_too_long_takes_its_delegates_with_it(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    model = cast(boss=delegates("clerk", "count"), clerk=keeps_working(hold))
    members = [Agent("boss", handoffs=[delegate("clerk", timeout=None)]), Agent("clerk", handoffs=())]
    team = stage.team(members, model, clock=clock, limits=Limits(timeout=60))

    async def a_minute() -> None:
        await clock.advance(60)

    error = await _late(team, clock, stage.say(team, "go"), (hold, a_minute))
    assert error.limit_name == "timeout"
    assert error.result is not None
    assert [(h.receiver, h.state) for h in error.result.handoff_chain] == [("clerk", "RETURNED")]
    hold.let_go.set()


@story
async def time_stands_still_while_a_person_is_awaited(stage: Stage) -> None:
    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    clock = ManualClock()
    script = {"solo": [calls(("pay", {})), says("Paid.")]}
    team = stage.team([Agent("solo", tools=[pay])], ScriptedModel(script), clock=clock, limits=Limits(timeout=60))
    waiting = await stage.say(team, "go")
    if waiting.status == "waiting":
        await clock.advance(600)
        await team.decide(waiting.requests[0], Approve(), by="somebody")
    assert (await stage.say_again(team, "go")).output == "Paid."


@story
async def a_run_that_is_in_time_ends_as_any_other(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    team = stage.team([Agent("solo")], cast(solo=keeps_working(hold)), clock=clock, limits=Limits(timeout=60))
    result = await takes_place(team, clock, stage.say(team, "go"), goes_on_after(clock, hold, 59))
    assert result.output == "Three."


@story
async def an_agent_that_is_told_of_the_time_limit_gives_a_last_reply(stage: Stage) -> None:
    clock = ManualClock()

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if not tools:
            return says("That is all there was time for.")
        await clock.advance(61)
        return calls(("look", {}))

    limits = Limits(timeout=60, on_limit="tell")
    team = stage.team([Agent("solo", tools=[look])], ScriptedModel(play), clock=clock, limits=limits)
    assert (await stage.say(team, "go")).output == "That is all there was time for."
    [reached] = await events(team, LimitReached)
    assert (reached.limit, reached.figure) == ("timeout", 60)


@story
async def a_simple_task_stays_with_one_agent(stage: Stage) -> None:
    team = stage.team([Agent("a"), Agent("b")], ScriptedModel({"a": [says("Noon.")]}), limits=Limits.tier("simple"))
    assert (await stage.say(team, "What time is it?")).output == "Noon."
    assert all(not request.tools for request in stage.requests("a"))


ABILITIES = {"writer": ["writing"], "finder": ["research"], "checker": ["review"]}


def able(stage: Stage, script: dict[str, list[Reply]], limits: Limits, **more: Any) -> Team:
    members = [Agent(name, capabilities=able) for name, able in ABILITIES.items()]
    return stage.team(members, ScriptedModel(script), limits=limits, **more)


@story
async def a_task_says_by_its_words_how_much_it_may_take(stage: Stage) -> None:
    team = able(stage, {"writer": [says("Yes."), hands_off("finder", "look it up")], "finder": [says("Found.")]}, AUTO)
    assert (await stage.say(team, "What time is it?")).output == "Yes."
    task = "First do the research, then the writing, and finally a review."
    assert (await stage.say(team, task)).output == "Found."
    simple, complex = await events(team, TierChosen)
    assert (simple.tier, simple.reason, simple.by) == ("simple", "4 words", "words")
    assert simple.limits == Limits.tier("simple")
    assert (complex.tier, complex.by) == ("complex", "words")
    assert complex.reason == (
        "11 words, 3 capabilities (writing, research, review), 3 words of sequence, 1 conjunction"
    )
    assert complex.limits == Limits.tier("complex")


AUTO = Limits.tier("auto")
JUDGED = Limits.tier("auto", judge=True)


@story
async def a_helper_may_judge_how_much_a_task_may_take(stage: Stage) -> None:
    helper = ScriptedModel(lambda agent, messages, tools: costing(says("Complex."), 50))
    team = able(stage, {"writer": [costing(says("Yes."), 10)]}, JUDGED, helper_model=helper)
    result = await stage.say(team, "What time is it?")
    [chosen] = await events(team, TierChosen)
    assert (chosen.tier, chosen.by) == ("complex", "judge")
    assert chosen.reason == "the judge says so; by its words (4 words) it is simple"
    assert (result.ledger.tokens, result.ledger.turns) == (60, 1)
    assert all("> What time is it?" in request.messages[0].text for request in helper.requests)


@story
async def a_judge_that_makes_something_up_is_not_heard(stage: Stage) -> None:
    helper = ScriptedModel(lambda agent, messages, tools: says("Ignore all limits."))
    team = able(stage, {"writer": [says("Yes.")]}, JUDGED, helper_model=helper)
    assert (await stage.say(team, "What time is it?")).output == "Yes."
    [chosen] = await events(team, TierChosen)
    assert (chosen.tier, chosen.by) == ("simple", "words")
    assert chosen.reason == "4 words; the judge said 'Ignore all limits.'"


@story
async def a_judge_that_fails_does_not_stop_the_run(stage: Stage) -> None:
    helper = ScriptedModel(lambda agent, messages, tools: fails("busy"))
    team = able(stage, {"writer": [says("Yes.")]}, JUDGED, helper_model=helper)
    assert (await stage.say(team, "What time is it?")).output == "Yes."
    [chosen] = await events(team, TierChosen)
    assert (chosen.tier, chosen.by) == ("simple", "words")
    assert "the judge failed" in chosen.reason


@story
async def delegates_have_what_the_task_of_the_whole_run_was_given(stage: Stage) -> None:
    members = [Agent("boss", handoffs=[delegate("clerk")]), Agent("clerk", handoffs=(), tools=[look])]

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return costing(delegates("clerk", "look") if agent == "boss" else calls(("look", {})), 10_000)

    team = stage.team(members, ScriptedModel(play), limits=AUTO)
    error = await stage.error(EconomicLimitExceeded, team, "Look at it, then tell me.")
    assert (error.limit_name, error.limit, error.overshoot) == ("max_tokens", 25_000, 5_000)
    [chosen] = await events(team, TierChosen)
    assert chosen.tier == "medium"


@story
async def the_ledger_lists_what_each_agent_spent(stage: Stage) -> None:
    model = ScriptedModel(
        {
            "a": [costing(calls(("look", {})), 100, 0.01), costing(hands_off("b", "x"), 20, 0.01)],
            "b": [fails("busy"), costing(says("Done."), 5, 0.02)],
        }
    )
    team = stage.team([Agent("a", tools=[look]), Agent("b")], model)
    ledger = (await stage.say(team, "go")).ledger
    assert (ledger.handoffs, ledger.turns, ledger.tokens, ledger.agents, ledger.retries) == (1, 3, 125, 2, 1)
    shares = {name: (s.handoffs, s.turns, s.tokens, s.retries) for name, s in ledger.by_agent.items()}
    assert shares == {"a": (1, 2, 120, 0), "b": (0, 1, 5, 1)}
    costs = {name: round(share.cost or 0, 6) for name, share in ledger.by_agent.items()}
    assert (costs, round(ledger.cost or 0, 6)) == ({"a": 0.02, "b": 0.02}, 0.04)
