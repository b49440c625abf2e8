"""Stories of the context that a receiver gets by each strategy, and of strategies that fail."""

from collections.abc import Callable, Sequence
from typing import Any

from changeover import Agent, File, Full, MessageOnly, Recent, Reference, RunResult, Summary, Team, delegate, handoff
from changeover.handoffs.strategies import Strategy
from changeover.handoffs.tokens import count
from changeover.messages import Message, ToolResult, User
from changeover.models import Usage
from changeover.protocol import Handover
from changeover.relay.events import ContextPacked, HandoffOffered
from changeover.testing import Reply, ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.testing.scripted import Line
from tests.stories.delegates import cast, results
from tests.stories.stage import Stage, events, story

ORDER = "Order ORD-1042 came broken; refund $49.99, please."


def heard(messages: Sequence[Message]) -> str:
    """All that an agent reads, in one text."""
    return "\n".join(f"<{type(message).__name__} {message.author}> {message.text}" for message in messages)


def recites(messages: Sequence[Message]) -> Reply:
    """An agent that answers with all that it sees: what was recorded of that is there in every life."""
    return says(heard(messages))


def looks_up_then_hands_off(messages: Sequence[Message]) -> Line:
    """Look the order up first, then hand over."""
    if isinstance(messages[-1], ToolResult):
        return hands_off("billing", "Please refund it.")
    return calls(("look_up", {"order": "ORD-1042"}), text="Let me see.")


def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order}: a lamp, paid by card 4471"


def desk(stage: Stage, strategy: Strategy | None = None, helper: Line | Callable[..., Line] | None = None) -> Team:
    """A triage that looks the order up and hands over to billing, who tells what it got."""
    model = cast(triage=looks_up_then_hands_off, billing=recites, helper=helper or says("The lamp came broken."))
    members = [Agent("triage", tools=[look_up]), Agent("billing", strategy=strategy)]
    return stage.team(members, model, helper_model=model)


async def seen(stage: Stage, strategy: Strategy | None, helper: Any = None) -> tuple[str, RunResult]:
    """What billing reads under a strategy, after some talk."""
    team = desk(stage, strategy, helper)
    result = await stage.say(team, ORDER)
    return result.output, result


@story
async def a_receiver_with_the_full_strategy_reads_what_the_sender_read(stage: Stage) -> None:
    text, result = await seen(stage, None)
    assert "<User user> " + ORDER in text
    assert "paid by card 4471" in text
    [record] = result.handoff_chain
    assert (record.strategy, record.tokens_before) == ("full", record.tokens_after)
    assert record.tokens_before > count(ORDER)


@story
async def a_receiver_with_the_message_only_strategy_reads_the_request_and_the_message(stage: Stage) -> None:
    text, result = await seen(stage, MessageOnly())
    assert text == f"<User user> {ORDER}\n<Note triage> Please refund it."
    [record] = result.handoff_chain
    assert record.strategy == "message_only"
    assert record.tokens_after < record.tokens_before


@story
async def a_receiver_with_the_recent_strategy_reads_the_original_request_too(stage: Stage) -> None:
    text, result = await seen(stage, Recent(1))
    turn = "<Assistant triage> Let me see.\n<ToolResult look_up> ORD-1042: a lamp, paid by card 4471"
    assert text == f"<User user> {ORDER}\n{turn}\n<Note triage> Please refund it."
    assert result.handoff_chain[0].tokens_after < result.handoff_chain[0].tokens_before


@story
async def recent_messages_are_not_repeated_in_the_briefing(stage: Stage) -> None:
    text, _ = await seen(stage, Recent(50))
    assert text.count(ORDER) == 1
    assert text.count("Please refund it.") == 1


@story
async def selectors_leave_out_results_authors_and_variables(stage: Stage) -> None:
    model = cast(triage=looks_up_then_hands_off, billing=recites)
    strategy = Full(exclude=["tool:look_*", "variable:card"])
    team = stage.team([Agent("triage", tools=[look_up]), Agent("billing", strategy=strategy)], model)
    result = await stage.say(team, ORDER, context={"card": "4471", "tier": "gold"})
    assert "4471" not in result.output
    assert ORDER in result.output
    assert result.variables == {"card": "4471", "tier": "gold"}
    for request in stage.requests("billing"):
        assert '"tier": "gold"' in request.instructions
        assert '"card"' not in request.instructions


@story
async def only_what_is_included_is_shown(stage: Stage) -> None:
    text, _ = await seen(stage, Recent(9, include=["author:user"]))
    assert text == f"<User user> {ORDER}\n<Note triage> Please refund it."


@story
async def a_summary_is_told_beside_the_request_with_facts_word_for_word(stage: Stage) -> None:
    text, result = await seen(stage, Summary(needs=["what was bought"], whole_up_to=0))
    assert text.startswith(f"<User user> {ORDER}\n<Note triage> ")
    assert "> The lamp came broken." in text
    assert "4471" in text
    assert "Please refund it." in text
    [record] = result.handoff_chain
    assert (record.strategy, record.strategy_error) == ("summary", "")
    assert record.tokens_after > count(ORDER) + count("The lamp came broken.")
    for request in stage.requests("helper"):
        [asked] = request.messages
        assert "what was bought" in request.instructions + asked.text
        assert "paid by card 4471" in asked.text
        assert request.tools == ()


@story
async def the_cost_of_a_summary_counts(stage: Stage) -> None:
    billed = Reply(text="Short.", usage=Usage(100, 10, 1, 0.5))
    model = ScriptedModel(
        {
            "triage": [Reply(text="A lamp.", calls=hands_off("billing", "Refund.").calls, usage=Usage(1, 1, 1, 0.25))],
            "billing": [Reply(text="Done.", usage=Usage(1, 1, 1, 0.25))],
            "helper": [billed],
        }
    )
    team = stage.team([Agent("triage"), Agent("billing", strategy=Summary(whole_up_to=0))], model, helper_model=model)
    result = await stage.say(team, ORDER)
    assert (result.usage, result.cost) == (Usage(102, 12, 3, 1.0), 1.0)
    assert result.ledger.turns == 2


@story
async def a_summary_that_is_of_no_use_costs_what_it_cost(stage: Stage) -> None:
    _, result = await seen(stage, Summary(whole_up_to=0), Reply(text=" ", usage=Usage(100, 10, 1, 0.5)))
    assert result.handoff_chain[0].strategy == "reference"
    assert result.usage.total_tokens == 110


@story
async def a_summary_that_cannot_be_made_is_replaced_by_a_reference_visibly(stage: Stage) -> None:
    troubles: list[tuple[Any, str]] = [
        (fails("out of order", retryable=False), "out of order"),
        (says(""), "the summary is empty"),
        (says("  \n "), "the summary is empty"),
        (ValueError("what?"), "ValueError: what?"),
    ]
    for number, (helper, why) in enumerate(troubles):
        team = desk(stage, Summary(whole_up_to=0), helper)
        result = await stage.say(team, ORDER, conversation=f"trouble-{number}")
        assert "paid by card 4471" in result.output
        assert "Please refund it." in result.output
        assert "context://" in result.output
        [record] = result.handoff_chain
        assert record.strategy == "reference"
        assert why in record.strategy_error
        assert record.tokens_after > 0


@story
async def a_summary_whose_messages_cannot_be_stored_either_is_replaced_by_the_last_messages(stage: Stage) -> None:
    text, result = await seen(stage, Summary(max_bytes=20, whole_up_to=0), fails("out of order", retryable=False))
    assert "paid by card 4471" in text
    assert "context://" not in text
    [record] = result.handoff_chain
    assert record.strategy == "recent"
    assert "out of order" in record.strategy_error


@story
async def a_short_conversation_is_passed_on_whole(stage: Stage) -> None:
    for number, strategy in enumerate((Summary(), Reference())):
        result = await stage.say(desk(stage, strategy), ORDER, conversation=f"short-{number}")
        turn = "<Assistant triage> Let me see.\n<ToolResult look_up> ORD-1042: a lamp, paid by card 4471"
        assert turn in result.output
        [record] = result.handoff_chain
        assert (record.strategy, record.tokens_before) == ("full", record.tokens_after)
    assert [request for request in stage.seen if request.agent == "helper"] == []


@story
async def a_short_conversation_is_briefed_whole_to_a_delegate(stage: Stage) -> None:
    def directs(messages: Sequence[Message]) -> Line:
        done = len([each for each in messages if isinstance(each, ToolResult)])
        steps = [calls(("look_up", {"order": "ORD-1042"})), delegates("clerk", "count"), says(messages[-1].text)]
        return steps[done]

    boss = Agent("boss", tools=[look_up], handoffs=[delegate("clerk", strategy=Reference())])
    result = await stage.say(stage.team([boss, Agent("clerk")], cast(boss=directs, clerk=recites)), ORDER)
    assert "> result of look_up: ORD-1042: a lamp, paid by card 4471" in result.output
    assert "context://" not in result.output


@story
async def a_summary_of_fifty_kilobytes_is_cut(stage: Stage) -> None:
    text, result = await seen(stage, Summary(max_tokens=100, whole_up_to=0), says("It goes on and on. " * 2_700))
    assert 50 < count(text) < 400
    assert result.handoff_chain[0].strategy == "summary"


CHAIN = [f"agent{number}" for number in range(6)]


@story
async def along_a_chain_every_message_is_summed_up_once_and_no_summary_is(stage: Stage) -> None:
    def hands_on(index: int) -> Callable[[Sequence[Message]], Line]:
        def says_and_hands_on(messages: Sequence[Message]) -> Line:
            if index == len(CHAIN) - 1:
                return recites(messages)
            if isinstance(messages[-1], ToolResult):
                return hands_off(CHAIN[index + 1], f"Go on after {index}.")
            return calls(("note", {"text": f"finding number {index}"}))

        return says_and_hands_on

    asked: list[str] = []

    def sums_up(messages: Sequence[Message]) -> Line:
        asked.append(messages[-1].text)
        return says(f"Chapter {messages[-1].text.count('finding number')}.")

    def note(text: str) -> str:
        """Note something."""
        return f"noted: {text}"

    parts: dict[str, Any] = {name: hands_on(index) for index, name in enumerate(CHAIN)}
    model = cast(**parts, helper=sums_up)
    members = [Agent(name, tools=[note], strategy=Summary(whole_up_to=0)) for name in CHAIN]
    team = stage.team(members, model, helper_model=model)
    result = await stage.say(team, "Find out.")
    assert [record.strategy for record in result.handoff_chain] == ["summary"] * (len(CHAIN) - 1)
    assert result.output.count("> Chapter") == len(CHAIN) - 1
    packed = await events(team, ContextPacked)
    assert all(event.chapter is not None for event in packed)
    for request in stage.requests("helper"):
        transcript = request.messages[-1].text
        told = [number for number in range(len(CHAIN)) if f"noted: finding number {number}" in transcript]
        assert len(told) <= 1 or stage.lives > 1


@story
async def delegates_are_told_a_summary_too_and_each_pays_only_for_what_is_new(stage: Stage) -> None:
    def directs(messages: Sequence[Message]) -> Line:
        done = len([each for each in messages if isinstance(each, ToolResult)])
        return delegates("clerk", f"count {done}") if done < 3 else says(results(messages)[-1].text)

    model = cast(boss=directs, clerk=recites, helper=says("They count."))
    boss = Agent("boss", handoffs=[delegate("clerk", strategy=Summary(whole_up_to=0))])
    team = stage.team([boss, Agent("clerk")], model, helper_model=model)
    result = await stage.say(team, "How many parts does ORD-7 have?")
    assert "> They count." in result.output
    packed = await events(team, ContextPacked)
    assert packed[-1].briefing.splitlines().count("> They count.") == 2
    assert [event.strategy for event in packed] == ["summary"] * 3
    # Before the first there is only the request, which the delegate reads anyway.
    assert [event.chapter is not None for event in packed] == [False, True, True]
    asked = [request.messages[-1].text for request in stage.requests("helper")]
    assert len(asked) == 2 or stage.lives > 1
    for text in asked:
        assert ('"count 0"' in text) != ('"count 1"' in text)


@story
async def a_strategy_of_ones_own_gives_a_text(stage: Stage) -> None:
    async def brief(handover: Handover) -> str:
        return f"{handover.sender} to {handover.receiver}: {len(handover.messages)} messages, {handover.message}"

    text, result = await seen(stage, brief)
    assert "triage to billing: 4 messages, Please refund it." in text
    assert "4471" not in text
    assert result.handoff_chain[0].strategy == "brief"


@story
async def a_strategy_of_ones_own_gives_messages(stage: Stage) -> None:
    def only_users(handover: Handover) -> list[Message]:
        return [message for message in handover.messages if isinstance(message, User)]

    text, result = await seen(stage, only_users)
    assert text == f"<User user> {ORDER}"
    assert result.handoff_chain[0].tokens_after < result.handoff_chain[0].tokens_before


@story
async def a_strategy_of_ones_own_that_fails_is_replaced_visibly(stage: Stage) -> None:
    def raises(handover: Handover) -> str:
        raise LookupError("no idea")

    troubles: list[tuple[Any, str]] = [
        (raises, "LookupError: no idea"),
        (lambda handover: 5, "a text or a list of messages, not int"),
        (lambda handover: [object()], "a text or a list of messages"),
        (lambda handover: [], "left nothing"),
    ]
    for number, (strategy, why) in enumerate(troubles):
        result = await stage.say(desk(stage, strategy), ORDER, conversation=f"own-{number}")
        assert "paid by card 4471" in result.output
        assert result.handoff_chain[0].strategy == "recent"
        assert why in result.handoff_chain[0].strategy_error


@story
async def half_a_character_in_what_a_strategy_gives_is_no_trouble(stage: Stage) -> None:
    text, _ = await seen(stage, lambda handover: "half \ud83d of it")
    assert "half ? of it" in text


@story
async def the_next_candidate_gets_a_context_of_its_own(stage: Stage) -> None:
    made: list[str] = []

    def brief(handover: Handover) -> str:
        made.append(handover.receiver)
        return f"for {handover.receiver}"

    way = handoff("closed", name="pass_on", strategy=brief, alternatives=["billing"])
    model = cast(triage=calls(("pass_on", {}), text="Take it."), billing=recites)
    members = [Agent("triage", handoffs=[way]), Agent("closed", accepts=lambda package: False), Agent("billing")]
    result = await stage.say(stage.team(members, model), ORDER)
    assert "for billing" in result.output
    assert list(dict.fromkeys(made)) == ["closed", "billing"] or stage.lives > 1


@story
async def the_next_candidate_has_its_own_strategy(stage: Stage) -> None:
    way = handoff("closed", name="pass_on", alternatives=["billing"])
    model = cast(triage=calls(("pass_on", {}), text="Take it."), billing=recites, helper=says("In short."))
    closed = Agent("closed", accepts=lambda package: False, strategy=Summary(exclude=["author:user"], whole_up_to=0))
    members = [Agent("triage", handoffs=[way]), closed, Agent("billing")]
    result = await stage.say(stage.team(members, model, helper_model=model), ORDER)
    assert f"<User user> {ORDER}\n<Assistant triage> Take it." in result.output
    taken = result.handoff_chain[-1]
    assert (taken.receiver, taken.strategy, taken.tokens_after) == ("billing", "full", taken.tokens_before)


@story
async def no_context_is_made_for_a_receiver_that_declares_to_refuse(stage: Stage) -> None:
    def brief(handover: Handover) -> str:
        stage.effects.append(handover.receiver)
        return "made"

    model = cast(triage=lambda messages: calls(("pass_on", {})) if len(messages) == 1 else says("Then not."))
    way = handoff("closed", name="pass_on", strategy=brief)
    members = [Agent("triage", handoffs=[way]), Agent("closed", accepts_handoffs=False)]
    result = await stage.say(stage.team(members, model), ORDER)
    assert (result.output, stage.effects) == ("Then not.", [])


@story
async def images_identical_messages_and_empty_turns_are_packed_like_others(stage: Stage) -> None:
    picture = File(b"\x89PNG\r\n\x1a\n" + bytes(16), "image/png", "lamp.png")
    team = desk(stage, Summary(whole_up_to=0))
    for number in range(3):
        result = await stage.say(team, ORDER if number else "", conversation="same", files=[picture], agent="triage")
        assert result.handoff_chain[-1].strategy == "summary"
        assert result.handoff_chain[-1].strategy_error == ""
    offered = await events(team, HandoffOffered, "same")
    assert len(offered) == 3


@story
async def an_agent_that_starts_without_a_handoff_sees_everything_again(stage: Stage) -> None:
    team = desk(stage, MessageOnly())
    await stage.say(team, ORDER)
    await stage.say(team, "And now?", agent="triage")
    for request in stage.requests("triage"):
        assert any("ORD-1042" in message.text for message in request.messages)


@story
async def a_briefing_is_a_template_of_the_receivers_own(stage: Stage) -> None:
    template = "You are needed.\n\nAsked for: {original_request}\n\nDecided: {decisions}\n\nKnown: {key_information}"
    model = cast(boss=_asks_clerk, clerk=recites)
    boss = Agent("boss", handoffs=[delegate("clerk")])
    team = stage.team([boss, Agent("clerk", briefing=template)], model)
    result = await stage.say(team, "How many?")
    assert "You are needed.\\n\\nAsked for: > How many?" in result.output
    assert "Decided" not in result.output


@story
async def a_briefing_may_be_a_function_and_is_written_once(stage: Stage) -> None:
    def brief(about: Any) -> str:
        stage.effects.append("written")
        return f"Short: {about.original_request}, {len(about.recent_messages)} messages."

    model = cast(boss=_asks_clerk, clerk=recites)
    boss = Agent("boss", handoffs=[delegate("clerk")])
    team = stage.team([boss, Agent("clerk")], model, briefing=brief)
    result = await stage.say(team, "How many?")
    assert "Short: How many?, 0 messages." in result.output
    assert stage.did == ["written"]


@story
async def a_briefing_that_cannot_be_written_is_replaced_by_ours(stage: Stage) -> None:
    def brief(about: Any) -> str:
        raise RuntimeError("no words")

    model = cast(boss=_asks_clerk, clerk=recites)
    boss = Agent("boss", handoffs=[delegate("clerk")])
    team = stage.team([boss, Agent("clerk", briefing=brief)], model)
    result = await stage.say(team, "How many?")
    assert "The original request of the user" in result.output
    [record] = result.handoff_chain
    assert "RuntimeError: no words" in record.strategy_error


def _asks_clerk(messages: Sequence[Message]) -> Line:
    return says(messages[-1].text) if isinstance(messages[-1], ToolResult) else delegates("clerk", "count the parts")


@story
async def a_receiver_that_hands_on_passes_on_the_note_that_it_got(stage: Stage) -> None:
    model = cast(
        triage=looks_up_then_hands_off,
        billing=lambda messages: hands_off("payout", "Pay it."),
        payout=recites,
    )
    members = [Agent("triage", tools=[look_up]), Agent("billing", strategy=MessageOnly()), Agent("payout")]
    result = await stage.say(stage.team(members, model), ORDER)
    assert "<Note triage> Please refund it." in result.output
