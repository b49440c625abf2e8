"""Stories of `fallback=True`: a sender whose handoff cannot be made, or whose receiver fails, goes on alone."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, Command, Function, Limits, Member, RunContext, Team, Variable, delegate, handoff
from changeover.errors import EconomicLimitExceeded, ModelError
from changeover.guards import Deny
from changeover.ids import split_handoff
from changeover.messages import Message
from changeover.protocol import Rejected
from changeover.relay.events import FellBack
from changeover.testing import Reply, ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.answers import chain, tries
from tests.stories.delegates import asks, cast
from tests.stories.guards import Says
from tests.stories.service import breaks, pulled, said
from tests.stories.stage import Stage, events, story


def alone(stage: Stage, *members: Member, way: Any = None, **parts: Any) -> Team:
    """A sender that falls back: it answers with the tools that it has left once a handoff could not be made."""
    sender = Agent("triage", handoffs=[way or handoff("billing")])
    model = cast(**{"triage": tries(hands_off("billing", "refund")), "billing": says("Refunded."), **parts})
    return stage.team([sender, *members], model, fallback=True)


def without_tools(stage: Stage, agent: str = "triage") -> bool:
    """Whether the agent's last request offered no handoff; in a later life it may have been asked before."""
    return not any(tool.receivers for request in stage.requests(agent)[-1:] for tool in request.tools)


@story
async def the_sender_falls_back_after_one_rejection_with_nobody_left(stage: Stage) -> None:
    team = alone(stage, Agent("billing", accepts=lambda package: Rejected("closed"), handoffs=()))
    result = await stage.say(team, "charged twice")
    assert (result.status, result.final_agent, result.fell_back) == ("completed", "triage", True)
    assert without_tools(stage)


@story
async def the_sender_falls_back_when_the_breaker_is_open(stage: Stage) -> None:
    team = alone(stage, Agent("billing", handoffs=()))
    await team.force_breaker("billing")
    result = await stage.say(team, "charged twice")
    assert (result.status, result.final_agent, result.fell_back) == ("completed", "triage", True)
    assert without_tools(stage)


@story
async def the_sender_falls_back_when_the_receiver_fails_after_acceptance(stage: Stage) -> None:
    team = alone(stage, Agent("billing", handoffs=()), billing=fails("out of order", retryable=False))
    result = await stage.say(team, "charged twice")
    assert (result.status, result.final_agent, result.fell_back) == ("completed", "triage", True)
    assert [(each.receiver, str(each.state)) for each in result.handoff_chain] == [("billing", "FAILED")]


@story
async def the_sender_of_a_delegate_falls_back_too(stage: Stage) -> None:
    closed = Agent("clerk", accepts=lambda package: Rejected("closed"), handoffs=())
    team = alone(stage, closed, way=delegate("clerk"), triage=asks(delegates("clerk", "count")))
    result = await stage.say(team, "how many?")
    assert (result.final_agent, result.fell_back) == ("triage", True)
    assert without_tools(stage)


@story
async def the_sender_falls_back_whatever_way_the_receiver_fails(stage: Stage) -> None:
    def broken(ctx: RunContext) -> str:
        raise RuntimeError("out of order")

    receivers: dict[str, Member] = {
        "the function of billing raised RuntimeError: out of order": Function("billing", broken),
        "what billing answered is not what was expected": Agent("billing", handoffs=()),
    }
    for number, (why, billing) in enumerate(receivers.items()):
        team = alone(stage, billing, way=handoff("billing", expects={"type": "object"}))
        result = await stage.say(team, "charged twice", conversation=f"fails-{number}")
        assert (result.status, result.final_agent, result.fell_back) == ("completed", "triage", True)
        [record] = result.handoff_chain
        assert (record.state, why in record.error) == ("FAILED", True)
        assert await team.handoffs(f"fails-{number}") == [record]


@story
async def the_last_sender_goes_on_when_the_last_receiver_fails(stage: Stage) -> None:
    def clerk(messages: Sequence[Message]) -> Reply:
        note = messages[-1]
        return says(note.text) if "go on by yourself" in note.text else hands_off("expert", "help")

    members = [Agent("triage", handoffs=["clerk"]), Agent("clerk", handoffs=["expert"]), Agent("expert", handoffs=())]
    parts = cast(triage=hands_off("clerk", "count"), clerk=clerk, expert=fails("out of order", retryable=False))
    team = stage.team(members, parts, fallback=True)
    result = await stage.say(team, "how many?")
    assert (result.final_agent, result.fell_back) == ("clerk", True)
    assert result.output == "expert got no usable reply from its model: out of order; go on by yourself"
    assert [(each.receiver, str(each.state)) for each in result.handoff_chain] == [
        *(("clerk", "COMPLETE"), ("expert", "FAILED")),
    ]
    [fell] = await events(team, FellBack)
    assert (fell.agent, fell.call) == ("clerk", split_handoff(result.handoff_chain[-1].id)[1])
    [circuit] = await team.breakers()
    assert (circuit.receiver, circuit.failures) == ("expert", 1)


@story
async def the_sender_of_a_delegate_that_fails_falls_back_too(stage: Stage) -> None:
    parts = {"triage": asks(delegates("clerk", "count")), "clerk": fails("out of order", retryable=False)}
    team = alone(stage, Agent("clerk", handoffs=()), way=delegate("clerk"), **parts)
    result = await stage.say(team, "how many?")
    assert (result.final_agent, result.fell_back) == ("triage", True)
    assert without_tools(stage)
    [fell] = await events(team, FellBack)
    assert (fell.agent, "clerk failed: " in fell.reason) == ("", True)


@story
async def the_sender_falls_back_when_a_worker_gives_up(stage: Stage) -> None:
    team = alone(stage, pulled("billing"))
    result = await said(stage, team, "charged twice", billing=breaks("no time"))
    assert (result.status, result.final_agent, result.fell_back) == ("completed", "triage", True)
    assert chain(result) == [("billing", "FAILED", 1)]


@story
async def the_sender_falls_back_when_it_insists_on_what_a_guard_refuses(stage: Stage) -> None:
    def insists(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return hands_off("billing", f"please {len(messages)}") if tools else says(messages[-1].text)

    members = [Agent("triage", handoffs=["billing"]), Agent("billing", handoffs=())]
    guards = [Says(Deny("not on Sundays"))]
    team = stage.team(members, ScriptedModel(insists), guards=guards, fallback=True)
    result = await stage.say(team, "charged twice")
    assert (result.output, result.fell_back) == ("not on Sundays; go on by yourself", True)


@story
async def the_sender_that_falls_back_has_its_variables_again(stage: Stage) -> None:
    way = handoff("billing", variables=[Variable("amount", "integer")], merge="replace")
    parts = {
        "triage": tries(calls(("handoff_to_billing", {"amount": 5}))),
        "billing": fails("out of order", retryable=False),
    }
    team = alone(stage, Agent("billing", handoffs=()), way=way, **parts)
    result = await stage.say(team, "charged twice", context={"order": 7})
    assert (result.fell_back, {**result.variables}) == (True, {"order": 7, "amount": 5})


@story
async def a_limit_of_the_run_is_no_failure_of_the_receiver(stage: Stage) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    members = [Agent("triage", handoffs=["billing"]), Agent("billing", tools=[look], handoffs=())]
    model = cast(triage=hands_off("billing", "refund"), billing=calls(("look", {})))
    team = stage.team(members, model, limits=Limits(max_turns=4), fallback=True)
    told = await stage.error(EconomicLimitExceeded, team, "charged twice")
    assert told.limit_name == "max_turns"


@story
async def a_function_cannot_go_on_alone(stage: Stage) -> None:
    members: list[Member] = [Function("rule", lambda ctx: Command(goto="billing")), Agent("billing", handoffs=())]
    team = stage.team(members, cast(billing=fails("out of order", retryable=False)), fallback=True)
    assert "out of order" in str(await stage.error(ModelError, team, "charged twice"))


@story
async def a_rollback_that_is_declared_comes_before_the_fallback(stage: Stage) -> None:
    billing = fails("out of order", retryable=False)
    way = handoff("billing", on_failure="rollback")
    team = alone(stage, Agent("billing", handoffs=()), way=way, billing=billing)
    result = await stage.say(team, "charged twice")
    assert (result.final_agent, result.fell_back, chain(result)) == ("triage", False, [("billing", "RETURNED", 1)])
