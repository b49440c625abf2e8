"""Lines of a script become the calls that a model would make with its tools."""

from typing import Any

import pytest

from changeover import facts
from changeover.agent.agent import Agent
from changeover.agent.handoff import delegate, handoff
from changeover.agent.moves import declared_delegate, declared_transfer, generic_transfer
from changeover.messages import Call, Reply
from changeover.relay.ports.world import Request
from changeover.testing import Usage, calls, delegates, fails, hands_off, says
from changeover.testing.scripted import resolve
from changeover.tools.tool import ToolDefinition
from changeover.tools.variable import Variable

MEMBERS = {id: Agent(id) for id in ("triage", "billing", "tech", "back-office")}
GENERIC = generic_transfer(("billing", "tech"), MEMBERS).definition
ANYBODY = ToolDefinition("ask_anybody", "", {}, receivers=("back-office", "tech"), delegate=True)
LOOK = ToolDefinition("look", "", {"type": "object", "properties": {}})


def declared(receiver: str, *variables: str, name: str | None = None) -> ToolDefinition:
    way = handoff(receiver, name=name, variables=[Variable(variable) for variable in variables])
    return declared_transfer(way, MEMBERS).definition


def asking(receiver: str, name: str) -> ToolDefinition:
    return declared_delegate(delegate(receiver, name=name), MEMBERS).definition


def asked(reply: Reply, *tools: ToolDefinition, command: str = "7") -> Reply:
    return resolve(
        reply,
        Request(
            agent="triage",
            instructions="",
            messages=(),
            tools=tools,
            settings={},
            conversation="c",
            command=command,
            attempt=1,
            turn=0,
        ),
    )


def made(reply: Reply) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in reply.calls]


def test_says_is_a_text_with_its_thinking_and_the_usage_of_one_request():
    assert says("Hello.", thinking="hm") == Reply(text="Hello.", thinking="hm", usage=facts.Usage(requests=1))
    assert says("Hello.", usage=Usage(10, 2, 1)).usage.total_tokens == 12


def test_calls_makes_one_call_each_in_their_order():
    reply = asked(calls(("look", {"at": 1}), ("read", {}), text="One moment."), LOOK)
    assert reply.text == "One moment."
    assert reply.calls == (Call("call_7_0", "look", {"at": 1}), Call("call_7_1", "read"))


def test_call_ids_depend_on_nothing_but_the_command_and_the_order():
    line = calls(("look", {}), ("look", {}))
    ids = [call.id for command in ("7", "9", "7") for call in asked(line, command=command).calls]
    assert ids == ["call_7_0", "call_7_1", "call_9_0", "call_9_1", "call_7_0", "call_7_1"]


def test_a_call_that_has_an_id_keeps_it():
    assert asked(Reply(calls=(Call("mine", "look"),))).calls == (Call("mine", "look"),)


def test_a_str_in_place_of_arguments_stands_for_malformed_output():
    assert asked(calls(("look", "{at: 1"))).calls == (Call("call_7_0", "look", malformed="{at: 1"),)


@pytest.mark.parametrize("item", ["look", ("look",), ("look", 1), (1, {}), {"look": {}}, fails("down")])
def test_an_invalid_call_is_refused_with_a_hint_of_the_right_form(item: Any):
    with pytest.raises(TypeError, match=r'a call is written \("tool", \{"arg": 1\}\)'):
        calls(item)


def test_a_tool_that_changes_its_arguments_does_not_change_the_script():
    line = calls(("look", {"at": [1]}))
    asked(line).calls[0].args["at"].append(2)
    assert asked(line).calls[0].args == {"at": [1]}


def test_a_handoff_uses_the_generic_tool_where_there_is_one():
    reply = asked(hands_off("billing", "refund", text="I get a colleague."), LOOK, GENERIC)
    assert made(reply) == [("handoff", {"to": "billing", "message": "refund"})]
    assert reply.text == "I get a colleague."
    assert type(reply.calls[0]) is Call


def test_a_handoff_uses_the_declared_tool_where_there_is_no_generic_one():
    reply = asked(hands_off("billing", "refund", amount="20"), LOOK, declared("tech"), declared("billing", "amount"))
    assert made(reply) == [("handoff_to_billing", {"amount": "20"})]
    assert reply.text == "refund"


def test_a_handoff_with_variables_uses_the_declared_tool_beside_the_generic_one():
    tools = (GENERIC, declared("billing", "amount"))
    assert made(asked(hands_off("billing", "refund", amount="20"), *tools)) == [
        ("handoff_to_billing", {"amount": "20"})
    ]
    assert made(asked(hands_off("billing", "refund"), *tools)) == [("handoff", {"to": "billing", "message": "refund"})]


def test_a_handoff_uses_the_declared_tool_for_a_receiver_that_the_generic_one_does_not_lead_to():
    elsewhere = generic_transfer(("tech",), MEMBERS).definition
    assert made(asked(hands_off("billing", "refund"), elsewhere, declared("billing"))) == [("handoff_to_billing", {})]


def test_of_two_declared_tools_for_a_receiver_a_handoff_uses_the_one_that_takes_its_variables():
    tools = (declared("billing", "order", name="escalate"), declared("billing", "amount", name="refund"))
    assert made(asked(hands_off("billing", amount="20"), *tools)) == [("refund", {"amount": "20"})]
    assert made(asked(hands_off("billing", colour="red"), *tools)) == [("escalate", {"colour": "red"})]


def test_a_declared_tool_may_bear_the_name_of_the_generic_one():
    reply = asked(hands_off("billing", "refund"), declared("billing", name="handoff"))
    assert (made(reply), reply.text) == ([("handoff", {})], "refund")


@pytest.mark.parametrize("tools", [(), (LOOK,), (GENERIC,), (declared("billing"),)])
def test_a_receiver_that_no_tool_leads_to_is_named_to_the_generic_tool_all_the_same(tools: tuple[ToolDefinition, ...]):
    assert made(asked(hands_off("sales", "hi"), *tools)) == [("handoff", {"to": "sales", "message": "hi"})]


def test_variables_that_no_declared_tool_takes_go_to_the_generic_one():
    args = {"to": "billing", "message": "refund", "amount": "20"}
    assert made(asked(hands_off("billing", "refund", amount="20"), GENERIC)) == [("handoff", args)]


def test_a_tool_and_two_handoffs_fit_in_one_turn():
    line = calls(("look", {}), hands_off("billing", "refund"), hands_off("tech", "repair"), text="One moment.")
    generic = asked(line, LOOK, GENERIC)
    assert [call.args.get("to") for call in generic.calls] == [None, "billing", "tech"]
    assert [call.id for call in generic.calls] == ["call_7_0", "call_7_1", "call_7_2"]
    assert generic.text == "One moment."


def test_the_texts_of_one_turn_come_one_a_line():
    line = calls(hands_off("billing", "refund", text="I see."), hands_off("tech", "repair"), text="One moment.")
    reply = asked(line, declared("billing"), declared("tech"))
    assert [call.name for call in reply.calls] == ["handoff_to_billing", "handoff_to_tech"]
    assert reply.text == "One moment.\nI see.\nrefund\nrepair"


def test_a_handoff_never_uses_a_tool_that_delegates():
    tools = (asking("billing", "ask_billing"), asking("tech", "handoff"))
    assert made(asked(hands_off("billing", "refund"), *tools, declared("billing"))) == [("handoff_to_billing", {})]
    args = {"to": "billing", "message": "refund", "task": "count"}
    assert made(asked(hands_off("billing", "refund", task="count"), *tools)) == [("handoff", args)]


def test_a_delegate_is_asked_by_the_tool_that_leads_to_it_whatever_its_name():
    tools = (LOOK, GENERIC, declared("billing"), asking("tech", "ask_tech"), asking("billing", "ask_the_accountants"))
    reply = asked(delegates("billing", "Sum it up.", text="I ask."), *tools)
    assert made(reply) == [("ask_the_accountants", {"task": "Sum it up."})]
    assert reply.text == "I ask."
    assert type(reply.calls[0]) is Call


def test_a_delegate_gets_its_context_only_if_there_is_one():
    tool = asking("billing", "ask")
    assert made(asked(delegates("billing", "Sum it up.", "Order 1042."), tool)) == [
        ("ask", {"task": "Sum it up.", "context": "Order 1042."})
    ]
    assert made(asked(delegates("billing"), tool)) == [("ask", {"task": ""})]


@pytest.mark.parametrize(
    "tools", [(), (LOOK,), (GENERIC,), (declared("back-office"),), (asking("tech", "ask"),), (ANYBODY,)]
)
def test_a_delegate_that_no_tool_leads_to_is_asked_all_the_same(tools: tuple[ToolDefinition, ...]):
    assert made(asked(delegates("back-office", "Sum it up."), *tools)) == [
        ("delegate_to_back_office", {"task": "Sum it up."})
    ]


def test_a_tool_two_delegates_and_a_handoff_fit_in_one_turn():
    line = calls(
        ("look", {}),
        delegates("tech", "Check.", text="I ask around."),
        delegates("billing", "Count."),
        hands_off("billing", "refund"),
        text="One moment.",
    )
    reply = asked(line, LOOK, GENERIC, asking("tech", "ask_tech"), asking("billing", "ask_billing"))
    assert made(reply) == [
        ("look", {}),
        ("ask_tech", {"task": "Check."}),
        ("ask_billing", {"task": "Count."}),
        ("handoff", {"to": "billing", "message": "refund"}),
    ]
    assert [call.id for call in reply.calls] == ["call_7_0", "call_7_1", "call_7_2", "call_7_3"]
    assert reply.text == "One moment.\nI ask around."


def test_one_line_asks_by_another_name_where_the_tools_are_others():
    line = delegates("billing", "Count.")
    assert made(asked(line, asking("billing", "ask"))) == [("ask", {"task": "Count."})]
    assert made(asked(line, asking("billing", "count"))) == [("count", {"task": "Count."})]
