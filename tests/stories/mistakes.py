"""Stories of models that get their calls wrong, are told so, and may try again."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, Variable, handoff
from changeover.errors import HandoffTargetNotFoundError, ModelError
from changeover.messages import Message, ToolResult
from changeover.relay.events import CallRefused
from changeover.testing import Reply, ScriptedModel, calls, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.stage import CONVERSATION, Stage, events, story


def lookup(order: int) -> str:
    """Look an order up."""
    return f"order {order}: paid"


@story
async def an_invented_receiver_then_a_right_one(stage: Stage) -> None:
    model = ScriptedModel(
        {"triage": [hands_off("sales", "refund"), hands_off("billing", "refund")], "billing": [says("Done.")]}
    )
    team = stage.team([Agent("triage"), Agent("billing")], model)
    result = await stage.say(team, "charged twice")
    assert (result.output, [h.receiver for h in result.handoff_chain]) == ("Done.", ["billing"])
    [refused] = await events(team, CallRefused)
    assert (refused.why, refused.receiver) == ("receiver", "sales")
    assert refused.reason == "no agent is called 'sales'; you can hand off to: triage, billing"


@story
async def a_receiver_that_is_not_in_the_list_is_an_invented_one(stage: Stage) -> None:
    model = ScriptedModel(
        {"triage": [hands_off("tech", "repair"), hands_off("billing", "refund")], "billing": [says("Done.")]}
    )
    team = stage.team([Agent("triage", handoffs=["billing"]), Agent("billing"), Agent("tech")], model)
    assert (await stage.say(team, "charged twice")).final_agent == "billing"
    [refused] = await events(team, CallRefused)
    assert (refused.why, refused.receiver) == ("receiver", "tech")


@story
async def a_receiver_invented_three_times(stage: Stage) -> None:
    model = ScriptedModel({"triage": [hands_off(name, "refund") for name in ("sales", "money", "refunds")]})
    team = stage.team([Agent("triage"), Agent("billing")], model)
    error = await stage.error(HandoffTargetNotFoundError, team, "charged twice")
    assert (error.sender, error.receiver, error.available) == ("triage", "refunds", ("triage", "billing"))
    assert "'triage' tried to hand off to 'refunds'" in str(error)
    assert error.result is not None
    assert (error.result.status, error.result.final_agent) == ("failed", "triage")
    assert (error.result.ledger.turns, error.result.handoff_chain) == (3, [])


@story
async def two_invented_receivers_are_forgiven(stage: Stage) -> None:
    model = ScriptedModel(
        {
            "triage": [hands_off("sales", "1"), hands_off("money", "2"), hands_off("billing", "3")],
            "billing": [hands_off("sales", "4"), hands_off("money", "5"), says("Done.")],
        }
    )
    result = await stage.say(stage.team([Agent("triage"), Agent("billing")], model), "charged twice")
    assert (result.output, result.final_agent) == ("Done.", "billing")  # the receiver has its own two


@story
async def a_turn_that_works_wipes_out_the_mistakes_before_it(stage: Stage) -> None:
    wrong, right = hands_off("sales", "x"), calls(("lookup", {"order": 17}))
    model = ScriptedModel({"triage": [wrong, wrong, right, wrong, wrong, says("Done.")]})
    team = stage.team([Agent("triage", tools=[lookup]), Agent("billing")], model)
    assert (await stage.say(team, "charged twice")).output == "Done."
    assert len(await events(team, CallRefused)) == 4


@story
async def several_mistakes_in_one_turn_are_one_try(stage: Stage) -> None:
    mess = calls(hands_off("sales", "x"), hands_off("money", "y"), ("ship", {}), ("lookup", {"order": "many"}))
    model = ScriptedModel({"triage": [mess, mess, says("Done.")]})
    team = stage.team([Agent("triage", tools=[lookup]), Agent("billing")], model)
    assert (await stage.say(team, "charged twice")).output == "Done."
    assert len(await events(team, CallRefused)) == 8


@story
async def arguments_that_do_not_fit_then_ones_that_do(stage: Stage) -> None:
    model = ScriptedModel(
        {
            "triage": [
                calls(("handoff", {"to": 5, "message": "x"})),
                calls(("handoff", {"to": "billing", "message": ["x"]})),
                hands_off("billing", "refund"),
            ],
            "billing": [
                calls(("handoff", '{"to": "triage", ')),
                calls(("handoff", {"message": "x"})),
                says("Done."),
            ],
        }
    )
    team = stage.team([Agent("triage"), Agent("billing")], model)
    result = await stage.say(team, "charged twice")
    assert (result.output, len(result.handoff_chain)) == ("Done.", 1)
    number, listed, broken, missing = await events(team, CallRefused)
    assert {refused.why for refused in (number, listed, broken, missing)} == {"arguments"}
    assert "to: give the id of one of triage, billing" in number.reason
    assert "message: give a text" in listed.reason
    assert "must be one JSON object" in broken.reason
    assert '{"to": "triage", ' in broken.reason
    assert "to: give the id of one of triage, billing" in missing.reason


@story
async def a_generic_handoff_takes_no_other_arguments(stage: Stage) -> None:
    model = ScriptedModel(
        {"triage": [hands_off("billing", "x", amount=20), hands_off("billing", "x")], "billing": [says("Done.")]}
    )
    team = stage.team([Agent("triage"), Agent("billing")], model)
    assert (await stage.say(team, "charged twice")).output == "Done."
    [refused] = await events(team, CallRefused)
    assert "it takes to and message, not amount" in refused.reason


@story
async def arguments_of_a_tool_that_do_not_fit_then_ones_that_do(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        # The third mistake in a row would be the last; so something that works stands between.
        tries: list[dict[str, Any] | str] = [{"order": "many"}, {}, {"order": "5"}, "order 17", {"order": 17}]
        done = [message.text for message in messages if isinstance(message, ToolResult)]
        return calls(("lookup", tries[len(done)])) if len(done) < len(tries) else says(" | ".join(done))

    team = stage.team([Agent("solo", tools=[lookup])], ScriptedModel(play))
    result = await stage.say(team, "where is order 17?")
    wrong, missing, right, broken, last = result.output.split(" | ")
    assert "the arguments of lookup do not fit: order: " in wrong
    assert "order: " in missing
    assert (right, last) == ("order 5: paid", "order 17: paid")
    assert "must be one JSON object, not 'order 17'" in broken
    assert [refused.why for refused in await events(team, CallRefused)] == ["arguments"] * 3


@story
async def arguments_that_do_not_fit_three_times(stage: Stage) -> None:
    wrong = [calls(("handoff_to_billing", args)) for args in ({"order": 1}, {}, "order 17")]
    way = handoff("billing", variables=[Variable("order")])
    team = stage.team([Agent("triage", handoffs=[way]), Agent("billing")], ScriptedModel({"triage": wrong}))
    error = await stage.error(ModelError, team, "charged twice")
    assert error.agent == "triage"
    assert "must be one JSON object, not 'order 17'" in str(error)
    assert error.result is not None
    assert (error.result.status, error.result.ledger.turns) == ("failed", 3)


@story
async def an_unknown_tool_then_a_known_one(stage: Stage) -> None:
    model = ScriptedModel({"solo": [calls(("ship", {})), calls(("lookup", {"order": 17})), says("Paid.")]})
    team = stage.team([Agent("solo", tools=[lookup])], model)
    assert (await stage.say(team, "where is order 17?")).output == "Paid."
    [refused] = await events(team, CallRefused)
    assert (refused.why, refused.reason) == ("tool", "there is no tool called 'ship'; your tools: lookup")


@story
async def an_unknown_tool_three_times(stage: Stage) -> None:
    team = stage.team([Agent("solo")], ScriptedModel({"solo": [calls(("ship", {}))] * 3}))
    error = await stage.error(ModelError, team, "ship it")
    assert "there is no tool called 'ship'; your tools: none" in str(error)
    assert error.agent == "solo"


@story
async def mistakes_of_every_kind_count_together_and_the_last_one_names_the_error(stage: Stage) -> None:
    model = ScriptedModel(
        {"triage": [hands_off("sales", "x"), calls(("ship", {})), calls(("handoff", "now!"))]},
    )
    error = await stage.error(ModelError, stage.team([Agent("triage"), Agent("billing")], model), "charged twice")
    assert "must be one JSON object, not 'now!'" in str(error)


@story
async def after_an_error_the_conversation_goes_on(stage: Stage) -> None:
    model = ScriptedModel(
        {"triage": [*[hands_off("sales", "x")] * 3, hands_off("billing", "y")], "billing": [says("Done.")]}
    )
    team = stage.team([Agent("triage"), Agent("billing")], model)
    await stage.error(HandoffTargetNotFoundError, team, "charged twice")
    result = await stage.say(team, "please try again")
    assert (result.output, result.status, len(result.handoff_chain)) == ("Done.", "completed", 1)
    assert len(await team.handoffs(CONVERSATION)) == 1
