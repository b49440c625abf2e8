"""Stories of control that passes from one agent to another."""

from collections.abc import Sequence

from changeover import AUTO, Agent, Full, MessageOnly, handoff
from changeover.messages import Assistant, Call, Message, Note, ToolResult, User
from changeover.relay.events import HandoffAccepted, HandoffOffered, ModelReplied
from changeover.testing import Reply, ScriptedModel, calls, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.scripts import names_its_tools, recites, texts
from tests.stories.stage import CONVERSATION, Stage, events, story


@story
async def two_agents(stage: Stage) -> None:
    model = ScriptedModel({"triage": [hands_off("billing", "charged twice")], "billing": [says("Refunded.")]})
    team = stage.team([Agent("triage"), Agent("billing")], model)
    result = await stage.say(team, "I was charged twice")
    assert (result.output, result.final_agent, result.status) == ("Refunded.", "billing", "completed")
    assert (result.conversation_id, result.usage.requests, result.ledger.handoffs) == (CONVERSATION, 2, 1)
    [record] = result.handoff_chain
    assert (record.sender, record.receiver, record.message) == ("triage", "billing", "charged twice")
    assert (record.mode, record.state, record.strategy) == ("transfer", "COMPLETE", "full")
    assert record.run_id == result.run_id
    assert record.timestamp.tzinfo is not None
    assert await team.handoffs(CONVERSATION) == [record]


@story
async def an_agent_answers_without_a_handoff(stage: Stage) -> None:
    team = stage.team([Agent("triage"), Agent("billing")], ScriptedModel({"triage": [says("Hello.")]}))
    result = await stage.say(team, "hello")
    assert (result.output, result.final_agent, result.handoff_chain) == ("Hello.", "triage", [])
    assert result.context == {}


@story
async def a_chain_of_three(stage: Stage) -> None:
    model = ScriptedModel(
        {
            "triage": [hands_off("billing", "about money")],
            "billing": [hands_off("refunds", "give it back")],
            "refunds": [says("Done.")],
        }
    )
    team = stage.team([Agent("triage"), Agent("billing"), Agent("refunds")], model)
    result = await stage.say(team, "I was charged twice")
    assert (result.output, result.final_agent) == ("Done.", "refunds")
    assert [(h.sender, h.receiver) for h in result.handoff_chain] == [("triage", "billing"), ("billing", "refunds")]
    assert [h.state for h in result.handoff_chain] == ["COMPLETE", "COMPLETE"]
    assert result.context["_handoff_chain"] == ["triage", "billing", "refunds"]
    assert result.context["_handoff_from"] == "billing"
    assert (result.ledger.agents, result.ledger.turns, result.ledger.handoffs) == (3, 3, 2)


@story
async def a_handoff_back_and_forth(stage: Stage) -> None:
    model = ScriptedModel(
        {"triage": [hands_off("billing", "yours"), says("Mine, then.")], "billing": [hands_off("triage", "no, yours")]}
    )
    team = stage.team([Agent("triage"), Agent("billing")], model)
    result = await stage.say(team, "whose is it?")
    assert (result.output, result.context["_handoff_chain"]) == ("Mine, then.", ["triage", "billing", "triage"])
    assert result.ledger.agents == 2


@story
async def the_receiver_reads_everything_the_sender_did(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return recites(agent, messages, tools) if agent == "billing" else hands_off("billing", "refund", text="I see.")

    team = stage.team([Agent("triage"), Agent("billing")], ScriptedModel(play))
    result = await stage.say(team, "charged twice")
    [call] = (await events(team, ModelReplied))[0].calls
    assert call == Call(call.id, "handoff", {"to": "billing", "message": "refund"})
    assert result.output == repr(
        [
            User("charged twice"),
            Assistant("triage", "I see.", calls=(call,)),
            ToolResult(call.id, "handoff", "triage", "transferred to billing"),
        ]
    )


@story
async def a_text_beside_a_handoff_does_not_end_the_run(stage: Stage) -> None:
    model = ScriptedModel(
        {"triage": [hands_off("billing", "refund", text="One moment, please.")], "billing": [says("Refunded.")]}
    )
    result = await stage.say(stage.team([Agent("triage"), Agent("billing")], model), "charged twice")
    assert (result.output, result.final_agent) == ("Refunded.", "billing")
    for request in stage.requests("billing"):
        assert "One moment, please." in texts(request.messages)


@story
async def the_text_beside_a_call_is_the_message_of_a_handoff_that_has_none(stage: Stage) -> None:
    model = ScriptedModel(
        {
            "triage": [calls(("handoff", {"to": "billing"}), text="Refund them.")],
            "billing": [hands_off("refunds", "Really do.")],
            "refunds": [says("Done.")],
        }
    )
    team = stage.team([Agent("triage"), Agent("billing", handoffs=[handoff("refunds")]), Agent("refunds")], model)
    result = await stage.say(team, "charged twice")
    assert [h.message for h in result.handoff_chain] == ["Refund them.", "Really do."]
    assert [h.tool for h in result.handoff_chain] == ["handoff", "handoff_to_refunds"]


@story
async def the_users_own_words_are_passed_on_as_they_are(stage: Stage) -> None:
    words = "  ich wurde ZWEIMAL belastet!!\n\n```json\n{}\n``` \u00a0\u200d "
    model = ScriptedModel(
        {
            "triage": [hands_off("billing", "Customer wants a refund.")],
            "billing": [hands_off("refunds", "Approved.")],
            "refunds": [says("Done.")],
        }
    )
    members = [Agent("triage"), Agent("billing", strategy=MessageOnly()), Agent("refunds")]
    result = await stage.say(stage.team(members, model), words, user="ana")
    assert result.output == "Done."
    for agent in ("triage", "billing", "refunds"):
        for request in stage.requests(agent):
            assert [message for message in request.messages if isinstance(message, User)] == [User(words, "ana")]
    for request in stage.requests("billing"):
        assert list(request.messages) == [User(words, "ana"), Note("Customer wants a refund.", "triage")]


@story
async def a_self_handoff_is_a_fresh_start(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if isinstance(messages[-1], Note):
            return recites(agent, messages, tools)
        return hands_off("writer", "Begin again, with rhymes.", text="This is going nowhere.")

    team = stage.team([Agent("writer"), Agent("critic")], ScriptedModel(play))
    result = await stage.say(team, "a poem about rain")
    assert result.output == repr([User("a poem about rain"), Note("Begin again, with rhymes.", "writer")])
    [record] = result.handoff_chain
    assert (record.sender, record.receiver, record.strategy) == ("writer", "writer", "message_only")
    assert result.context["_handoff_chain"] == ["writer", "writer"]
    [reply, _] = await events(team, ModelReplied)
    assert reply.text == "This is going nowhere."  # out of its sight, and not out of the record


@story
async def a_team_of_one_has_no_handoff_tool(stage: Stage) -> None:
    team = stage.team([Agent("solo")], ScriptedModel(names_its_tools))
    assert (await stage.say(team, "what can you do?")).output == ""


@story
async def by_default_an_agent_may_hand_off_to_every_agent_itself_included(stage: Stage) -> None:
    members = [
        Agent("triage", description="finds out what it is about"),
        Agent("billing", specialization="money", capabilities=["refund", "invoice"], examples=["I paid twice"]),
        Agent("tech", handoffs=AUTO),
    ]
    team = stage.team(members, ScriptedModel(names_its_tools))
    for agent in ("triage", "billing", "tech"):
        assert (await stage.say(team, "whom do you know?", agent=agent)).output == "handoff(triage, billing, tech)"
        for request in stage.requests(agent):
            [generic] = request.tools
            assert generic.parameters["properties"]["to"]["enum"] == ["triage", "billing", "tech"]
            assert "- triage: finds out what it is about\n" in generic.description
            assert "- billing: money; capabilities: refund, invoice; for example: I paid twice" in generic.description


@story
async def a_list_gives_exactly_the_ways_in_it(stage: Stage) -> None:
    members = [
        Agent("bare", handoffs=["mixed", "none"]),
        Agent("declared", handoffs=[handoff("none"), handoff("bare", name="back")]),
        Agent("mixed", handoffs=["bare", handoff("declared"), "mixed"]),
        Agent("none", handoffs=()),
    ]
    team = stage.team(members, ScriptedModel(names_its_tools))
    shown = {member.id: (await stage.say(team, "whom?", agent=member.id)).output for member in members}
    assert shown == {
        "bare": "handoff(mixed, none)",
        "declared": "handoff_to_none(none); back(bare)",
        "mixed": "handoff(bare, mixed); handoff_to_declared(declared)",
        "none": "",
    }


@story
async def without_handoffs_each_agent_works_alone(stage: Stage) -> None:
    def look() -> str:
        """Look it up."""
        return "nothing"

    members = [Agent("triage", tools=[look], handoffs=["billing", handoff("triage")]), Agent("billing")]
    team = stage.team(members, ScriptedModel(names_its_tools), handoffs_enabled=False)
    assert (await stage.say(team, "whom?")).output == "look"
    assert (await stage.say(team, "whom?", agent="billing")).output == ""


@story
async def a_receiver_never_sees_the_senders_instructions(stage: Stage) -> None:
    members = [
        Agent("triage", instructions="The password is swordfish."),
        Agent("billing", instructions="Be generous.", handoffs=["refunds"]),
        Agent("refunds", handoffs=[]),
    ]
    model = ScriptedModel(
        {"triage": [hands_off("billing", "x")], "billing": [hands_off("refunds", "y")], "refunds": [says("Done.")]}
    )
    assert (await stage.say(stage.team(members, model), "charged twice")).output == "Done."
    for request in stage.requests("triage"):
        assert request.instructions == "The password is swordfish."
    for request in stage.requests("billing"):
        assert request.instructions.startswith("Be generous.")
        assert "swordfish" not in f"{request!r}"
    for request in stage.requests("refunds"):
        assert "swordfish" not in f"{request!r}"
        assert "generous" not in f"{request!r}"


@story
async def a_receiver_is_told_the_sender_and_the_instructions_of_the_handoff(stage: Stage) -> None:
    way = handoff("billing", instructions="Offer a voucher first.")
    model = ScriptedModel(
        {"triage": [hands_off("billing", "refund"), says("Hi.")], "billing": [says("Done."), says("Hi.")]}
    )
    team = stage.team([Agent("triage", handoffs=[way]), Agent("billing", instructions="Be brief.")], model)
    result = await stage.say(team, "charged twice")
    assert result.context["_handoff_instructions"] == "Offer a voucher first."
    for request in stage.requests("billing"):
        assert "handed to you by triage" in request.instructions
        assert "Offer a voucher first." in request.instructions
    before = len(stage.requests("triage"))
    assert (await stage.say(team, "and hello", agent="triage")).output == "Hi."
    for request in stage.requests("triage")[before:]:
        assert "voucher" not in request.instructions


@story
async def how_much_is_seen_is_declared_by_handoff_then_receiver_then_team(stage: Stage) -> None:
    members = [
        Agent("start", handoffs=[handoff("whole", strategy=Full()), handoff("brief"), handoff("plain")]),
        Agent("whole", strategy=MessageOnly()),
        Agent("brief", strategy=Full()),
        Agent("plain"),
    ]

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent != "start":
            return says(f"{len(messages)} messages")
        asked = [message.text for message in messages if isinstance(message, User)]
        return hands_off(asked[-1], "go on")

    team = stage.team(members, ScriptedModel(play), strategy=MessageOnly())
    seen = {}
    for receiver in ("whole", "brief", "plain"):
        result = await stage.say(team, receiver, agent="start", conversation=f"to-{receiver}")
        seen[receiver] = (result.handoff_chain[0].strategy, result.output)
    assert seen == {
        "whole": ("full", "3 messages"),
        "brief": ("full", "3 messages"),
        "plain": ("message_only", "2 messages"),
    }


@story
async def what_a_strategy_leaves_out_stays_in_the_record(stage: Stage) -> None:
    model = ScriptedModel(
        {
            "triage": [says("What is it about?"), hands_off("billing", "charged twice, order 17", text="I see.")],
            "billing": [says("Refunded.")],
        }
    )
    team = stage.team([Agent("triage", handoffs=[handoff("billing", strategy=MessageOnly())]), Agent("billing")], model)
    await stage.say(team, "hello")
    result = await stage.say(team, "I was charged twice")
    assert result.output == "Refunded."
    for request in stage.requests("billing"):
        assert texts(request.messages) == ["I was charged twice", "I see.\ncharged twice, order 17"]
    recorded = [reply.text for reply in await events(team, ModelReplied)]
    assert recorded == ["What is it about?", "I see.\ncharged twice, order 17", "Refunded."]


@story
async def a_handoff_is_offered_then_accepted_and_both_are_on_record(stage: Stage) -> None:
    model = ScriptedModel({"triage": [hands_off("billing", "refund")], "billing": [says("Done.")]})
    team = stage.team([Agent("triage"), Agent("billing")], model)
    result = await stage.say(team, "charged twice")
    [offered], [accepted] = await events(team, HandoffOffered), await events(team, HandoffAccepted)
    assert (offered.sender, offered.receiver, offered.message) == ("triage", "billing", "refund")
    assert (accepted.call, accepted.receiver) == (offered.call, "billing")
    seqs = [record.seq for record in await team.history(CONVERSATION)]
    assert seqs == list(range(1, len(seqs) + 1))
    by = {type(record.event).__name__: record.agent for record in await team.history(CONVERSATION)}
    assert (by["HandoffOffered"], by["HandoffAccepted"], by["RunCompleted"]) == ("triage", "triage", "billing")
    assert result.handoff_chain[0].id.startswith(f"{CONVERSATION}:")
