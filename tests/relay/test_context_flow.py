"""The context flow of a conversation: which hop set or changed a variable, from what to what."""

import pytest

from changeover import Agent, Command, Function, Team, Variable, delegate, handoff, tool
from changeover.errors import ConversationNotFound
from changeover.relay.context_flow import ValueFlow
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says

Told = tuple[str, str, str, str, object, object]


def told(flow: list[ValueFlow], name: str) -> list[Told]:
    """Effect, source, agent, hop, before and after of each change of a value."""
    [found] = [each for each in flow if each.name == name]
    return [(each.effect, each.source, each.agent, each.hop, each.before, each.after) for each in found.changes]


@tool
def look_up() -> Command:
    """Look the order up."""
    return Command(update={"amount": 30, "artifacts": {"invoice": "inv-1"}})


@pytest.fixture
def team() -> Team:
    script = {
        "triage": [calls(("handoff_to_billing", {"order": "17", "amount": 10}))],
        "billing": [calls(("look_up", {})), delegates("checker", "Is it paid?"), says("Sent back.")],
        "checker": [says("Yes.")],
    }
    variables = [Variable("order"), Variable("amount", "integer")]
    return Team(
        [
            Agent("triage", handoffs=[handoff("billing", variables=variables)]),
            Agent("billing", tools=[look_up], handoffs=[delegate("checker")]),
            Agent("checker", handoffs=()),
        ],
        model=ScriptedModel(script),
    )


async def test_each_change_of_a_variable_names_its_hop_and_its_values(team: Team):
    await team.run("Twice!", conversation="c", context={"order": "?"})
    flow = await team.context_flow("c")
    assert [(each.name, each.kind) for each in flow] == [
        ("order", "variable"),
        ("amount", "variable"),
        ("invoice", "artifact"),
    ]
    assert told(flow, "order") == [
        ("set", "caller", "triage", "", None, "?"),
        ("changed", "handoff", "triage", "c:3.0", "?", "17"),
    ]
    assert told(flow, "amount") == [
        ("set", "handoff", "triage", "c:3.0", None, 10),
        ("changed", "tool", "billing", "c:3.0", 10, 30),
    ]
    assert told(flow, "invoice") == [("set", "tool", "billing", "c:3.0", None, "inv-1")]
    assert [change.tool for change in flow[1].changes] == ["handoff_to_billing", "look_up"]


async def test_what_a_delegate_inherits_is_no_change_and_what_it_is_given_is():
    script = {"desk": [calls(("ask_law", {"task": "Legal?", "country": "fr"})), says("Yes.")], "law": [says("Yes.")]}
    asks = delegate("law", name="ask_law", variables=[Variable("country")])
    team = Team([Agent("desk", handoffs=[asks]), Agent("law", handoffs=())], model=ScriptedModel(script))
    await team.run("May I?", conversation="c", context={"user": "u1", "country": "de"})
    flow = await team.context_flow("c")
    assert told(flow, "user") == [("set", "caller", "desk", "", None, "u1")]
    assert told(flow, "country") == [
        ("set", "caller", "desk", "", None, "de"),
        ("changed", "handoff", "desk", "c:3.0", "de", "fr"),
    ]
    [found] = [each for each in flow if each.name == "country"]
    assert [change.conversation for change in found.changes] == ["c", "c/3.0"]


async def test_a_handoff_that_replaces_the_context_removes_what_it_does_not_carry_and_a_rollback_restores_it():
    replaces = handoff("b", variables=[Variable("new")], merge="replace")
    script = {"a": [calls(("handoff_to_b", {"new": "1"}))], "b": [says("Done.")]}
    team = Team([Agent("a", handoffs=[replaces]), Agent("b", handoffs=())], model=ScriptedModel(script))
    async with team:
        await team.run("Go", conversation="c", context={"old": 1})
        await team.rollback("c:3.0", reason="a mistake")
        flow = await team.context_flow("c")
    assert told(flow, "old") == [
        ("set", "caller", "a", "", None, 1),
        ("removed", "handoff", "a", "c:3.0", 1, None),
        ("set", "rollback", "b", "c:3.0", None, 1),
    ]


async def test_a_function_that_updates_the_context_is_named():
    def decide(ctx: object) -> Command:
        return Command(goto="b", update={"rate": 0.5})

    team = Team([Function("rule", decide), Agent("b", handoffs=())], model=ScriptedModel({"b": [says("Half.")]}))
    await team.run("How much?", conversation="c")
    flow = await team.context_flow("c")
    assert told(flow, "rate") == [("set", "function", "rule", "", None, 0.5)]


async def test_a_conversation_without_variables_has_no_flow_and_an_unknown_one_is_an_error():
    script = {"a": [hands_off("b", "Yours.")], "b": [says("Done.")]}
    team = Team([Agent("a"), Agent("b")], model=ScriptedModel(script))
    await team.run("Go", conversation="c")
    assert await team.context_flow("c") == []
    with pytest.raises(ConversationNotFound):
        await team.context_flow("nobody's")
