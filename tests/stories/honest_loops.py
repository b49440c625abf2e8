"""Stories of loops: work that goes back and forth is honest while something happens, and a cycle without progress is
named, also one of delegates."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, Command, Function, Limits, Reject, RunContext, Send, delegate
from changeover.errors import CircuitBreakerOpen, DeadlockDetected
from changeover.messages import Assistant, Message, ToolResult
from changeover.testing import Reply, calls, delegates, hands_off, says
from tests.stories.delegates import asks, came_back, cast
from tests.stories.escalations import failed
from tests.stories.offers import office, package
from tests.stories.service import error
from tests.stories.stage import Stage, story

CYCLE = "a → b → a"


def own_turns(agent: str, messages: Sequence[Message]) -> int:
    return sum(isinstance(each, Assistant) and each.agent == agent for each in messages)


@story
async def two_agents_may_alternate_with_the_same_message_while_tools_take_effect(stage: Stage) -> None:
    def plays(me: str, other: str, times: int) -> Any:
        def play(messages: Sequence[Message]) -> Reply:
            turn = own_turns(me, messages)
            if turn >= 2 * times:
                return says("All pages are done.")
            return hands_off(other, "next") if turn % 2 else calls(("work", {"page": turn}))

        return play

    def work(page: int) -> str:
        """Work on a page."""
        return f"page {page} is done"

    members = [Agent("a", tools=[work], handoffs=["b"]), Agent("b", tools=[work], handoffs=["a"])]
    team = stage.team(members, cast(a=plays("a", "b", 2), b=plays("b", "a", 2)))
    result = await stage.say(team, "write the book")
    assert (result.output, [each.receiver for each in result.handoff_chain]) == (
        *("All pages are done.", ["b", "a", "b", "a"]),
    )


@story
async def two_agents_may_alternate_while_a_variable_changes_on_the_way(stage: Stage) -> None:
    def flips(ctx: RunContext) -> Command:
        """Flip the page and flip it back."""
        return Command(update={"context": {"page": 1}})

    def back(ctx: RunContext) -> Command:
        """Flip it back."""
        return Command(update={"context": {"page": 0}})

    def play(messages: Sequence[Message]) -> Reply:
        turn = own_turns("a", messages)
        return says("Done.") if turn >= 4 else hands_off("b", "next") if turn % 2 else calls(("flips", {}))

    def plays_back(messages: Sequence[Message]) -> Reply:
        return hands_off("a", "next") if own_turns("b", messages) % 2 else calls(("back", {}))

    members = [Agent("a", tools=[flips], handoffs=["b"]), Agent("b", tools=[back], handoffs=["a"])]
    team = stage.team(members, cast(a=play, b=plays_back))
    result = await stage.say(team, "read", context={"page": 0})
    assert (result.output, len(result.handoff_chain)) == ("Done.", 4)


def asks_back(other: str) -> Any:
    """Ask the other the same question, and answer with what came back."""

    def play(messages: Sequence[Message]) -> Reply:
        last = messages[-1]
        return says(last.text) if isinstance(last, ToolResult) else delegates(other, "Who knows?")

    return play


@story
async def delegates_that_ask_each_other_the_same_are_a_cycle(stage: Stage) -> None:
    members = [Agent("a", handoffs=[delegate("b")]), Agent("b", handoffs=[delegate("a")])]
    team = stage.team(members, cast(a=asks_back("b"), b=asks_back("a")))
    result = await stage.say(team, "Who knows?")
    assert (result.status, "deadlock" in result.output, CYCLE in result.output) == ("completed", True, True)
    assert len(await team.handoffs("story")) <= 3


@story
async def a_delegate_that_is_asked_the_same_again_and_again_is_a_cycle(stage: Stage) -> None:
    def insists(messages: Sequence[Message]) -> Reply:
        last = messages[-1]
        stop = isinstance(last, ToolResult) and "deadlock" in last.text
        return says(last.text) if stop else delegates("b", "Who knows?")

    team = stage.team([Agent("a", handoffs=[delegate("b")]), Agent("b")], cast(a=insists, b=says("Not me.")))
    result = await stage.say(team, "Who knows?")
    assert (result.status, "a → b" in result.output) == ("completed", True)
    assert len(result.handoff_chain) <= 3


@story
async def a_delegate_may_be_asked_the_same_as_long_as_something_is_done_in_between(stage: Stage) -> None:
    def work() -> str:
        """Work a little."""
        return "done"

    def polls(messages: Sequence[Message]) -> Reply:
        asked = own_turns("a", messages)
        return says(f"asked {asked} times") if asked == 4 else calls(("work", {}), delegates("b", "Is it good?"))

    team = stage.team([Agent("a", tools=[work], handoffs=[delegate("b")]), Agent("b")], cast(a=polls, b=says("No.")))
    assert (await stage.say(team, "work")).output == "asked 4 times"


@story
async def several_may_be_asked_the_same_at_once(stage: Stage) -> None:
    turn = [delegates("b", "Roll the dice.")] * 3
    team = stage.team([Agent("a", handoffs=[delegate("b")]), Agent("b")], cast(a=asks(*turn), b=says("Six.")))
    assert [back.response for back in came_back(await stage.say(team, "play"))] == ["Six."] * 3


@story
async def delegates_that_ask_each_other_after_work_of_their_own_are_no_cycle(stage: Stage) -> None:
    """Each does something before it asks the other the same: that ends at the limit of depth, not as a cycle."""

    def work() -> str:
        """Work a little."""
        return "done"

    def plays(other: str) -> Any:
        def play(messages: Sequence[Message]) -> Reply:
            last = messages[-1]
            if not isinstance(last, ToolResult):
                return calls(("work", {}))
            return delegates(other, "Go on.") if last.name == "work" else says(last.text)

        return play

    members = [Agent("a", tools=[work], handoffs=[delegate("b")]), Agent("b", tools=[work], handoffs=[delegate("a")])]
    team = stage.team(members, cast(a=plays("b"), b=plays("a")), limits=Limits(max_depth=4))
    result = await stage.say(team, "Go on.")
    assert ("max_depth=4" in result.output, "deadlock" in result.output) == (True, False)
    assert len(await team.handoffs("story")) == 4


@story
async def delegates_that_ask_each_other_with_new_variables_are_no_cycle(stage: Stage) -> None:
    def down(ctx: RunContext) -> Command | str:
        if ctx.returned:
            return ctx.returned[0].response
        left = ctx.context["left"]
        onwards = Send("b", {"left": left - 1}) if ctx.agent == "a" else Send("a", {})
        return Command(goto=[onwards]) if left else "Lift-off."

    team = stage.team([Function("a", down), Function("b", down)])
    result = await stage.say(team, "count down", context={"left": 3})
    assert (result.output, len(await team.handoffs("story"))) == ("Lift-off.", 5)


@story
async def a_transfer_and_delegates_together_may_be_a_cycle(stage: Stage) -> None:
    def x(messages: Sequence[Message]) -> Reply:
        last = messages[-1]
        return says(last.text) if isinstance(last, ToolResult) else hands_off("a", "yours")

    def a(messages: Sequence[Message]) -> Reply:
        last = messages[-1]
        back = isinstance(last, ToolResult) and last.name == "delegate_to_b"
        return says(last.text) if back else delegates("b", "Who knows?")

    members = [Agent("x", handoffs=["a"]), Agent("a", handoffs=[delegate("b")]), Agent("b", handoffs=[delegate("x")])]
    team = stage.team(members, cast(x=x, a=a, b=asks_back("x")))
    result = await stage.say(team, "Who knows?")
    assert (result.final_agent, "x → a → b → x → a" in result.output) == ("a", True)


@story
async def a_function_that_sends_out_the_same_again_and_again_raises_deadlock_detected(stage: Stage) -> None:
    team = stage.team(
        [Function("a", lambda ctx: Command(goto=[Send("b", {"task": "go"})])), Agent("b", handoffs=())],
        cast(b=says("Gone.")),
    )
    told = await stage.error(DeadlockDetected, team, "go")
    assert (told.agent, told.cycle[:2], told.result is not None) == ("a", ("a", "b"), True)
    assert len(await team.handoffs("story")) == 2


@story
async def a_model_that_does_not_hear_of_a_cycle_raises_deadlock_detected(stage: Stage) -> None:
    team = stage.team(
        [Agent("a", handoffs=[delegate("b")]), Agent("b")], cast(a=delegates("b", "Who knows?"), b=says("Not me."))
    )
    told = await stage.error(DeadlockDetected, team, "Who knows?")
    assert (told.agent, told.cycle[:2]) == ("a", ("a", "b"))


@story
async def a_branch_that_reaches_max_depth_fails_alone(stage: Stage) -> None:
    members = [
        Agent("boss", handoffs=[delegate("deep"), delegate("flat")]),
        Agent("deep", handoffs=[delegate("deeper")]),
        Agent("deeper", handoffs=()),
        Agent("flat", handoffs=()),
    ]
    parts: dict[str, Any] = {
        "boss": asks(delegates("deep", "dig"), delegates("flat", "count")),
        "deep": delegates("deeper", "dig"),
        "deeper": says("Too deep."),
    }
    team = stage.team(members, cast(**parts, flat=says("Three.")), limits=Limits(max_depth=1))
    deep, flat = came_back(await stage.say(team, "go"))
    assert (deep.success, "max_depth" in deep.error) == (False, True)
    assert (flat.success, flat.response) == (True, "Three.")


@story
async def a_function_member_that_goes_round_raises_deadlock_detected(stage: Stage) -> None:
    def there(ctx: RunContext) -> Command:
        return Command(goto="b", message="you")

    def back(ctx: RunContext) -> Command:
        return Command(goto="a", message="you")

    team = stage.team([Function("a", there), Function("b", back)])
    told = await stage.error(DeadlockDetected, team, "go")
    assert (told.cycle, told.result is not None) == (("a", "b", "a", "b"), True)


@story
async def an_offer_to_an_open_circuit_raises_circuit_breaker_open(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    await team.force_breaker("clerk")
    told = await error(CircuitBreakerOpen, team.offer(package()))
    assert (told.circuit.receiver, told.circuit.state) == ("clerk", "open")


@story
async def a_function_member_that_goes_to_an_open_circuit_raises_circuit_breaker_open(stage: Stage) -> None:
    """As ever, a person is asked first; if that one gives it back, the error names the circuit."""
    team = stage.team([Function("rule", lambda ctx: Command(goto="clerk")), Agent("clerk", handoffs=())], cast())
    await team.force_breaker("clerk")
    told = await failed(stage, team, Reject("wait"), "go")
    assert isinstance(told, CircuitBreakerOpen)
    assert told.circuit.receiver == "clerk"


@story
async def an_offer_that_goes_round_raises_deadlock_detected(stage: Stage) -> None:
    def back(ctx: RunContext) -> Command:
        return Command(goto="b" if ctx.agent == "a" else "a", message="you")

    team = office(stage, Function("a", back), Function("b", back))
    told = await error(DeadlockDetected, team.offer(package("a", mode="transfer")))
    assert told.cycle == ("a", "b", "a", "b")
