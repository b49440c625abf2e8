"""Stories of members that are plain Python."""

import asyncio
from collections.abc import Sequence

from changeover import Agent, Function, RunContext, Variable, handoff
from changeover.errors import FunctionError
from changeover.messages import Message
from changeover.testing import Reply, ScriptedModel, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.scripts import recites
from tests.stories.stage import Stage, story


@story
async def a_function_answers(stage: Stage) -> None:
    def refund(ctx: RunContext) -> str:
        """Give money back."""
        stage.effects.append(ctx.idempotency_key)
        received = ctx.accept_handoff()
        assert received is not None
        return f"{received.sender} says {received.message!r} about {received.context['order']}: {ctx.input}"

    way = handoff("refunds", variables=[Variable("order")])
    model = ScriptedModel({"triage": [hands_off("refunds", "give it back", order="17")]})
    team = stage.team([Agent("triage", handoffs=[way]), Function("refunds", refund)], model)
    result = await stage.say(team, "charged twice")
    assert result.output == "triage says 'give it back' about 17: charged twice"
    assert (result.final_agent, result.handoff_chain[0].state) == ("refunds", "COMPLETE")
    assert len(stage.did) == 1


@story
async def an_async_function_answers_too(stage: Stage) -> None:
    async def refund(ctx: RunContext) -> str:
        await asyncio.sleep(0)
        return f"Refunded for {ctx.user}."

    model = ScriptedModel({"triage": [hands_off("refunds", "x")]})
    team = stage.team([Agent("triage"), Function("refunds", refund)], model)
    assert (await stage.say(team, "charged twice", user="ana")).output == "Refunded for ana."


@story
async def a_function_that_was_sent_nothing_knows_it(stage: Stage) -> None:
    def echo(ctx: RunContext) -> str:
        return f"{ctx.accept_handoff()} {ctx.input} {ctx.context}"

    team = stage.team([Function("echo", echo)])
    result = await stage.say(team, "hello", context={"order": "17"})
    assert (result.output, result.final_agent) == ("None hello {'order': '17'}", "echo")


@story
async def a_function_that_raises(stage: Stage) -> None:
    def refund(ctx: RunContext) -> str:
        if ctx.input != "again":
            raise ConnectionError("the bank is closed")
        return "Refunded."

    model = ScriptedModel({"triage": [hands_off("refunds", "x")]})
    team = stage.team([Agent("triage"), Function("refunds", refund)], model)
    error = await stage.error(FunctionError, team, "charged twice")
    assert (error.agent, str(error)) == (
        "refunds",
        "the function of 'refunds' raised ConnectionError: the bank is closed",
    )
    assert error.result is not None
    assert (error.result.status, error.result.handoff_chain[0].state) == ("failed", "FAILED")
    assert (await stage.say(team, "again")).output == "Refunded."


@story
async def a_function_that_returns_no_text(stage: Stage) -> None:
    async def number(ctx: RunContext) -> int:
        return 5

    error = await stage.error(FunctionError, stage.team([Function("number", number)]), "hello")
    assert "a function must return a str or a Command, not int" in str(error)


@story
async def a_function_that_lets_a_cancellation_out(stage: Stage) -> None:
    async def cancelled(ctx: RunContext) -> str:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner
        return "never"

    async with asyncio.timeout(5):
        error = await stage.error(FunctionError, stage.team([Function("cancelled", cancelled)]), "hello")
    assert error.agent == "cancelled"


@story
async def what_a_function_said_is_read_by_the_next_agent(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return recites(agent, messages, tools)

    team = stage.team([Function("greeter", lambda ctx: "Welcome."), Agent("solo")], ScriptedModel(play))
    assert (await stage.say(team, "hello")).output == "Welcome."
    result = await stage.say(team, "what was said?", agent="solo")
    assert "Assistant(agent='greeter', text='Welcome.'" in result.output


@story
async def models_are_told_what_a_function_is_for(stage: Stage) -> None:
    def refund(ctx: RunContext) -> str:
        """Give money back.

        Only once.
        """
        return "Refunded."

    members: list[Agent | Function] = [
        Agent("triage"),
        Function("refunds", refund),
        Function("echo", lambda ctx: "", description="says nothing"),
    ]
    await stage.say(stage.team(members, ScriptedModel({"triage": [says("Hello.")]})), "hello")
    for request in stage.requests("triage"):
        [generic] = request.tools
        assert "- refunds: Give money back.\n- echo: says nothing" in generic.description


@story
async def what_a_function_is_told_has_its_metrics(stage: Stage) -> None:
    def report(ctx: RunContext) -> str:
        received = ctx.accept_handoff()
        assert received is not None
        return f"{received.metrics.tokens} tokens, {received.metrics.retries} retries, {received.artifacts}"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return hands_off("report", "x")

    team = stage.team([Agent("triage"), Function("report", report)], ScriptedModel(play))
    assert (await stage.say(team, "hello")).output == "0 tokens, 0 retries, {}"
