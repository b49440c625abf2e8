"""Stories of models: what they are told, and how they fail."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from changeover import Agent, RunContext
from changeover.errors import ModelError
from changeover.messages import Message
from changeover.models import Usage
from changeover.relay.events import ModelFailed, ModelReplied
from changeover.testing import Reply, ScriptedModel, calls, fails, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.stage import Stage, events, story


@story
async def a_model_that_fails_then_works(stage: Stage) -> None:
    model = ScriptedModel(
        {
            "triage": [fails("overloaded"), hands_off("billing", "x")],
            "billing": [TimeoutError("too slow"), fails("overloaded"), says("Done.")],
        }
    )
    team = stage.team([Agent("triage"), Agent("billing")], model)
    result = await stage.say(team, "charged twice")
    assert (result.output, result.ledger.retries, result.ledger.turns) == ("Done.", 3, 2)
    failed = await events(team, ModelFailed)
    assert [failure.reason for failure in failed] == ["overloaded", "TimeoutError: too slow", "overloaded"]
    assert all(failure.retry_at is not None for failure in failed)


@story
async def a_model_that_fails_for_good(stage: Stage) -> None:
    model = ScriptedModel({"triage": [hands_off("billing", "x")], "billing": [fails("down")] * 3 + [says("Done.")]})
    team = stage.team([Agent("triage"), Agent("billing")], model)
    error = await stage.error(ModelError, team, "charged twice")
    assert error.agent == "billing"
    assert str(error) == "'billing' got no usable reply from its model: down"
    assert error.result is not None
    assert (error.result.status, error.result.final_agent) == ("failed", "billing")
    assert [(h.receiver, h.state) for h in error.result.handoff_chain] == [("billing", "FAILED")]
    result = await stage.say(team, "are you there?")
    assert (result.output, result.final_agent, result.status) == ("Done.", "billing", "completed")


@story
async def a_failure_that_cannot_be_mended_is_not_tried_again(stage: Stage) -> None:
    model = ScriptedModel({"solo": [fails("no credit", retryable=False), says("Paid up.")]})
    team = stage.team([Agent("solo")], model)
    error = await stage.error(ModelError, team, "hello")
    assert "no credit" in str(error)
    assert len(await events(team, ModelFailed)) == 1
    assert (await stage.say(team, "and now?")).output == "Paid up."


@story
async def a_model_that_fails_after_its_tool_has_acted(stage: Stage) -> None:
    def pay() -> str:
        """Pay."""
        stage.effects.append("paid")
        return "paid"

    model = ScriptedModel({"solo": [calls(("pay", {})), fails("down"), says("Paid.")]})
    assert (await stage.say(stage.team([Agent("solo", tools=[pay])], model), "pay")).output == "Paid."
    assert stage.did == ["paid"]


@story
async def an_agent_may_have_a_model_of_its_own(stage: Stage) -> None:
    own = ScriptedModel({"billing": [says("By my own model.")]})
    team = stage.team([Agent("triage"), Agent("billing", model=own)], ScriptedModel({"triage": [hands_off("billing")]}))
    assert (await stage.say(team, "hello")).output == "By my own model."


@story
async def instructions_may_be_written_for_each_call(stage: Stage) -> None:
    def plain(ctx: RunContext) -> str:
        return f"You serve {ctx.user} in {ctx.conversation}; order {ctx.context['order']}."

    async def slow(ctx: RunContext) -> str:
        await asyncio.sleep(0)
        received = ctx.accept_handoff()
        return f"You are {ctx.agent}, sent by {received.sender if received else 'nobody'}."

    model = ScriptedModel({"triage": [hands_off("billing", "x")], "billing": [says("Done."), says("Bye.")]})
    team = stage.team([Agent("triage", instructions=plain), Agent("billing", instructions=slow)], model)
    await stage.say(team, "hello", user="ana", context={"order": "17"})
    for request in stage.requests("triage"):
        assert request.instructions.startswith("You serve ana in story; order 17.")
    for request in stage.requests("billing"):
        assert request.instructions.startswith("You are billing, sent by triage.")
        assert "You serve" not in request.instructions


@story
async def instructions_that_cannot_be_written_are_a_failure_of_the_call(stage: Stage) -> None:
    def broken(ctx: RunContext) -> str:
        raise LookupError("no such order")

    team = stage.team([Agent("solo", instructions=broken)], ScriptedModel({"solo": [says("never")]}))
    error = await stage.error(ModelError, team, "hello")
    assert "LookupError: no such order" in str(error)


@story
async def instructions_that_come_to_no_text_are_a_failure_of_the_call(stage: Stage) -> None:
    async def forgets(ctx: RunContext) -> Any:
        return None

    writers: list[Callable[[RunContext], Any]] = [forgets, lambda ctx: None]
    for number, writes in enumerate(writers):
        team = stage.team([Agent("solo", instructions=writes)], ScriptedModel({"solo": [says("never")]}))
        error = await stage.error(ModelError, team, "hello", conversation=f"odd-{number}")
        assert "TypeError: the function that writes its instructions returned None, not a text" in str(error)


@story
async def usage_is_added_up_over_all_agents(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "billing":
            return says("Done.", usage=Usage(100, 20, 1))
        return Reply(calls=hands_off("billing", "x").calls, usage=Usage(30, 5, 1))

    result = await stage.say(stage.team([Agent("triage"), Agent("billing")], ScriptedModel(play)), "hello")
    assert (result.usage, result.ledger.tokens) == (Usage(130, 25, 2), 155)


@story
async def settings_and_thinking_pass_through(stage: Stage) -> None:
    model = ScriptedModel({"solo": [says("Four.", thinking="2 + 2")]})
    team = stage.team([Agent("solo", settings={"temperature": 0.0})], model)
    assert (await stage.say(team, "2 + 2?")).output == "Four."
    assert [reply.thinking for reply in await events(team, ModelReplied)] == ["2 + 2"]
    for request in stage.requests("solo"):
        assert dict(request.settings) == {"temperature": 0.0}


@story
async def a_model_that_says_nothing_has_answered(stage: Stage) -> None:
    result = await stage.say(stage.team([Agent("solo")], ScriptedModel({"solo": [says("")]})), "hello")
    assert (result.output, result.status) == ("", "completed")
