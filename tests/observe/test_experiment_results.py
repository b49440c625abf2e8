"""Results of a team's experiments, the same on every store."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from changeover import Agent, Approve, Function, Member, Person, Summary, Team, delegate, tool
from changeover.errors import ConversationNotFound, MisconfiguredError, ModelError
from changeover.messages import Message, ToolResult
from changeover.models import Usage
from changeover.relay.events import VariantChosen
from changeover.relay.ports.log import Log
from changeover.routing import Experiment
from changeover.routing.statistics import Measured, draw
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ManualClock, Reply, ScriptedModel, calls, delegates, fails, says
from changeover.tools.tool import ToolDefinition
from tests.databases import KINDS, postgres, sqlite_file

__all__ = ["postgres", "sqlite_file"]

PAID = Usage(100, 20, 1, 0.25)
WORDS = Experiment("words", {"plain": "Be plain.", "fancy": "Be fancy."}, on="instructions")


@tool(approval=True)
def sign() -> str:
    """Sign."""
    return "signed"


@pytest.fixture(params=["memory", *KINDS])
async def team(request: pytest.FixtureRequest) -> AsyncIterator[Team]:
    """A boss and a clerk that takes two seconds, on each kind of store."""
    clock = ManualClock(auto=True)

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        said = messages[-1]
        if agent == "clerk":
            await clock.sleep_until(clock.now() + 2.0)
            return says("Three.", usage=PAID)
        if isinstance(said, ToolResult):
            return says("Done.", usage=PAID)
        if said.text == "fail":
            return fails("out", retryable=False)
        if said.text == "plain":
            return says("Yes.")
        turn = calls(("sign", {})) if said.text == "sign" else delegates("clerk", "count")
        return replace(turn, usage=PAID)

    store = None
    if request.param == "sqlite":
        store = f"sqlite:///{request.getfixturevalue('sqlite_file')}"
    elif request.param == "postgresql":
        store = request.getfixturevalue("postgres")
    boss = Agent("boss", tools=[sign], handoffs=[delegate("clerk")])
    members = [boss, Agent("clerk", handoffs=())]
    team = Team(members, model=ScriptedModel(play), store=store, clock=clock, experiments=[WORDS])
    yield team
    await team.close()


async def measured(team: Team, experiment: str = "words") -> list[Measured]:
    return await team.log.trials.measured(experiment)


async def test_results_of_experiments_are_the_same_on_every_store(team: Team):
    for talk, *texts in (["a", "count"], ["b", "fail"], ["c", "fail", "count", "count"], ["d", "count", "fail"]):
        for text in texts:
            with suppress(ModelError):
                await team.run(text, conversation=talk)
    await team.run("sign", conversation="e")
    await team.measure("a", "content", 3)
    await team.measure("a", "content", 4.5)
    await team.measure("c", "polite", 1)
    expected = [
        Measured(WORDS.variant_of("a"), True, 360, 0.75, 2.0, {"content": 4.5}),
        Measured(WORDS.variant_of("b"), False, 0, 0.0, 0.0),
        Measured(WORDS.variant_of("c"), True, 720, 1.5, 4.0, {"polite": 1.0}),
        Measured(WORDS.variant_of("d"), False, 360, 0.75, 2.0),
    ]
    assert await measured(team) == expected
    [request] = await team.approvals()
    await team.decide(request, Approve(), by="ana@example.org")
    await team.resume("e")
    assert await measured(team) == [*expected, Measured(WORDS.variant_of("e"), True, 240, 0.5, 0.0)]


async def test_an_unknown_cost_is_left_out(team: Team):
    await team.run("plain", conversation="a")
    assert [(each.success, each.cost) for each in await measured(team)] == [(True, None)]


async def test_conversations_outside_an_experiment_are_not_counted(team: Team):
    await team.run("plain", conversation="a")
    assert await measured(team, "another") == []
    assert await team.log.trials.variants() == {"words": [WORDS.variant_of("a")]}


async def test_a_root_that_is_not_there_cannot_be_measured(team: Team):
    await team.run("count", conversation="a")
    below = {record.conversation for record in await team.history("a")} - {"a"}
    for id in ("nowhere", *below):
        with pytest.raises(ConversationNotFound):
            await team.measure(id, "content", 1)


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("success", 1, "'success' is measured for every conversation anyway; choose another name"),
        ("how content", 1, "a measure is called 'how content'; use letters, digits, '-' and '_', at most 64"),
        ("content", float("nan"), "the value nan is not a number that can be counted with"),
        ("content", "much", "the value 'much' is not a number that can be counted with"),
    ],
)
async def test_a_value_that_cannot_be_counted_is_refused_as_a_measure(name: str, value: Any, fault: str):
    team = Team([Agent("a")], model="offline")
    with pytest.raises(MisconfiguredError) as caught:
        await team.measure("a", name, value)
    assert caught.value.faults == (fault,)
    await team.close()


async def chosen(team: Team, conversation: str) -> list[str]:
    history = await team.history(conversation)
    return [record.event.variant for record in history if isinstance(record.event, VariantChosen)]


def a_clerk(log: Log, experiments: Sequence[Experiment]) -> tuple[Team, ScriptedModel]:
    model = ScriptedModel(lambda agent, messages, tools: says("Well."))
    return Team([Agent("clerk", instructions="Be you.")], model=model, store=log, experiments=experiments), model


async def test_the_chosen_variant_holds_when_the_split_changes():
    log = MemoryLog()
    team, _ = a_clerk(log, [WORDS])
    await team.run("hello", conversation="a")
    [before] = await chosen(team, "a")
    split = {variant: float(variant != before) for variant in WORDS.variants}
    later, model = a_clerk(log, [Experiment("words", WORDS.variants, split, on="instructions")])
    await later.run("hello", conversation="a")
    await later.run("hello", conversation="b")
    assert await chosen(later, "a") == [before]
    assert [request.instructions == WORDS.variants[before] for request in model.requests] == [True, False]
    assert [before in await chosen(later, talk) for talk in ("a", "b")] == [True, False]


async def test_a_variant_that_was_given_up_leaves_an_agent_as_it_is():
    log = MemoryLog()
    team, _ = a_clerk(log, [WORDS])
    await team.run("hello", conversation="a")
    others = Experiment("words", {"short": "Be short.", "long": "Be long."}, on="instructions")
    for experiments in ([others], []):
        later, model = a_clerk(log, experiments)
        await later.run("hello", conversation="a")
        assert [request.instructions for request in model.requests] == ["Be you."]
    assert len(await chosen(team, "a")) == 1


async def test_a_team_without_experiments_writes_nothing_of_them():
    team, _ = a_clerk(MemoryLog(), [])
    await team.run("hello", conversation="a")
    assert await chosen(team, "a") == []
    assert await team.experiments() == []


async def said_after(rates: dict[str, float], count: int) -> str:
    """What a team says after so many conversations, in which each variant succeeds at its rate."""

    def thinks(variant: str) -> ScriptedModel:
        def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
            luck = draw("luck", messages[-1].text)
            return says("Done.") if luck < rates[variant] else fails("out", retryable=False)

        return ScriptedModel(play)

    experiment = Experiment("size", {variant: thinks(variant) for variant in rates}, on="model")
    team = Team([Agent("clerk")], model="offline", experiments=[experiment])
    for number in range(count):
        with suppress(ModelError):
            await team.run(str(number), conversation=f"c{number}")
    [said] = await team.experiments()
    assert sum(arm.n for arm in said.arms) == count
    await team.close()
    return said.sentence


async def test_a_real_difference_is_called():
    assert (await said_after({"small": 0.4, "large": 0.9}, 120)).startswith("large is better by ")


async def test_of_two_that_are_the_same_none_is_better():
    assert (await said_after({"small": 0.7, "large": 0.7}, 120)).startswith("not yet distinguishable (")


def faults_of(*experiments: Any, **options: Any) -> tuple[str, ...]:
    members: list[Member] = [Agent("a"), Agent("b"), Function("fn", lambda ctx: ""), Person("ana")]
    with pytest.raises(MisconfiguredError) as caught:
        Team(members, model="offline", experiments=list(experiments), **options)
    return caught.value.faults


def test_the_faults_of_experiments_are_found_together_with_all_others():
    unknown = Experiment("one", {"x": "X", "y": "Y"}, on="instructions", agents=("c", "fn"))
    nobody = Experiment("two", {"x": "a", "y": "c"}, on="receiver")
    unthinkable = Experiment("three", {"x": "offline", "y": 7}, on="model")
    assert faults_of(unknown, nobody, unthinkable, "four", start="zed") == (
        "start='zed' is not in the team; choose one of a, ana, b, fn",
        "'four' is not an Experiment(…)",
        "experiment 'one' is about 'c', which is not in the team; choose among a, b, fn, ana",
        "experiment 'one' is about the instructions of 'fn', which is not an Agent",
        "experiment 'two' names no agents for which its receivers stand in; give agents=[…]",
        "experiment 'two' variant 'y' hands over to 'c', which is not in the team; choose among a, b, fn, ana",
        "experiment 'three' variant 'y' has a model of type int; give the name of a model, or an object with reply()"
        " and stream()",
    )


def test_two_experiments_do_not_try_the_same_of_the_same_agent():
    one = Experiment("one", {"x": "X", "y": "Y"}, on="instructions", agents=("a",))
    other = Experiment("two", {"x": "X", "y": "Y"}, on="instructions")
    again = Experiment("one", {"x": Summary(), "y": None}, agents=("a",))
    clash = "experiments 'one' and 'two' both try the instructions of a; keep one of them"
    assert clash in faults_of(one, other)
    assert "two experiments are called 'one'; give each a name of its own" in faults_of(one, again)
    assert faults_of("words")[0] == "'words' is not an Experiment(…)"
