"""Stories of references: the context stays in the store, and receivers fetch it when they need it."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, File, Reference, Summary, Team, delegate
from changeover.messages import Message, Note, ToolResult
from changeover.relay.events import ContextPacked
from changeover.testing import ManualClock, calls, delegates, hands_off, says
from changeover.testing.scripted import Line
from tests.stories.context import ORDER, look_up, looks_up_then_hands_off, recites
from tests.stories.delegates import Says, cast
from tests.stories.stage import Stage, events, story

REPORT = File(
    b"# Findings\n\nThe shade is cracked.\n\n# Costs\n\nA new shade is $12.50.\n", "text/markdown", "report.md"
)


def address(messages: Sequence[Message]) -> str:
    """The first address that an agent was told."""
    told = next(message.text for message in messages if isinstance(message, Note) and "context://" in message.text)
    return f"context://{told.partition('context://')[2][:32]}"


def fetches(**wanted: str) -> Says:
    """Fetch the earlier messages, then answer with them."""

    def plays(messages: Sequence[Message]) -> Line:
        if isinstance(messages[-1], ToolResult):
            return recites(messages)
        return calls(("fetch_context", {"ref": address(messages), **wanted}))

    return plays


def shop(stage: Stage, billing: Any, strategy: Reference | None = None, **options: Any) -> Team:
    """A triage that gives billing a reference to the earlier messages."""
    model = cast(triage=looks_up_then_hands_off, billing=billing)
    members = [
        Agent("triage", tools=[look_up]),
        Agent("billing", strategy=strategy or Reference(max_facts=1, whole_up_to=0)),
    ]
    return stage.team(members, model, **options)


@story
async def a_receiver_with_a_reference_reads_the_request_and_the_reference(stage: Stage) -> None:
    team = shop(stage, recites)
    result = await stage.say(team, ORDER)
    assert result.output.startswith(f"<User user> {ORDER}\n<Note triage> ")
    assert "context://" in result.output
    assert 'messages; sections: "tool look_up")' in result.output
    assert "Let me see." not in result.output
    [record] = result.handoff_chain
    assert (record.strategy, record.strategy_error) == ("reference", "")
    for request in stage.requests("billing"):
        assert "fetch_context" in [tool.name for tool in request.tools]
    for request in stage.requests("triage"):
        assert "fetch_context" not in [tool.name for tool in request.tools]


@story
async def it_can_be_read_by_section_by_query_or_from_its_beginning(stage: Stage) -> None:
    ways: dict[str, dict[str, str]] = {
        'look_up answered "order: ORD-1042":\n> ORD-1042: a lamp, paid by card 4471': {"section": "tool look_up"},
        "[2 of 6] triage:\n> Let me see.": {"section": "messages 2"},
        "paid by card 4471": {"query": "which card was used?"},
        f"[1 of 6] user:\n> {ORDER}": {},
        "The shade is cracked.": {"section": "file report.md#Findings"},
        "A new shade is $12.50.": {"query": "price of a new shade"},
        "[nothing fits zebra; this stands out]": {"query": "zebra"},
    }
    for number, (expected, wanted) in enumerate(ways.items()):
        team = shop(stage, fetches(**wanted))
        result = await stage.say(team, ORDER, conversation=f"way-{number}", files=[REPORT])
        assert expected in result.output.partition("<ToolResult fetch_context>")[2]


@story
async def an_unreadable_reference_is_reported_and_the_agent_goes_on(stage: Stage) -> None:
    async def told(number: int, **args: Any) -> str:
        def plays(messages: Sequence[Message]) -> Line:
            if isinstance(messages[-1], ToolResult):
                return says(messages[-1].text)
            return calls(("fetch_context", {"ref": address(messages), **args}))

        return (await stage.say(shop(stage, plays), ORDER, conversation=f"told-{number}")).text

    assert 'there is no section "page 9"' in await told(1, section="page 9")
    assert 'sections: "passages 1-4", "tool look_up"' in await told(2, section="messages 7-9")
    assert 'there is no "context://nowhere" in this conversation' in await told(3, ref="context://nowhere")
    assert "it takes query, section and ref, not page" in await told(4, page=2)
    assert "query: give a text" in await told(5, query=7)


@story
async def a_reference_of_another_conversation_cannot_be_read(stage: Stage) -> None:
    team = shop(stage, recites)
    theirs = address([Note((await stage.say(team, "My pin is 0000.", conversation="theirs")).output)])

    def spies(messages: Sequence[Message]) -> Line:
        return (
            says(messages[-1].text)
            if isinstance(messages[-1], ToolResult)
            else calls(("fetch_context", {"ref": theirs}))
        )

    result = await stage.say(shop(stage, spies), ORDER, conversation="mine")
    assert (
        result.output == f'there is no "{theirs}" in this conversation; use an address as it was given to you, or none'
    )


@story
async def an_expired_reference_cannot_be_read(stage: Stage) -> None:
    clock = ManualClock()

    async def waits(messages: Sequence[Message]) -> Line:
        if isinstance(messages[-1], ToolResult):
            return says(messages[-1].text)
        await clock.advance(61)
        return calls(("fetch_context", {"ref": address(messages)}))

    result = await stage.say(shop(stage, waits, Reference(expires=60, whole_up_to=0), clock=clock), ORDER)
    assert "has expired" in result.output or stage.lives > 1


@story
async def expired_references_are_deleted_when_the_next_one_is_stored(stage: Stage) -> None:
    clock = ManualClock()
    team = shop(stage, recites, Reference(expires=60, whole_up_to=0), clock=clock)
    first = await stage.say(team, ORDER, conversation="first")
    ref = address([Note(first.output)]).removeprefix("context://")
    await clock.advance(61)
    await stage.say(team, ORDER, conversation="second")
    kept = await team.log.contexts.get("first", ref)
    assert kept is None or stage.lives > 1


@story
async def a_context_that_is_too_large_to_store_is_replaced_by_the_last_messages(stage: Stage) -> None:
    result = await stage.say(shop(stage, recites, Reference(max_bytes=20, whole_up_to=0)), ORDER)
    assert "paid by card 4471" in result.output
    [record] = result.handoff_chain
    assert record.strategy == "recent"
    assert "max_bytes=20" in record.strategy_error


def looks_up_another_then_hands_on(messages: Sequence[Message]) -> Line:
    """Look another order up, then hand over."""
    if isinstance(messages[-1], ToolResult):
        return hands_off("payout", "Pay it.")
    return calls(("look_up", {"order": "ORD-2000"}))


@story
async def along_a_chain_each_stretch_is_kept_once_and_all_can_be_read(stage: Stage) -> None:
    def reads_all(messages: Sequence[Message]) -> Line:
        if isinstance(messages[-1], ToolResult):
            return recites(messages)
        note = next(message.text for message in messages if isinstance(message, Note))
        refs = [f"context://{part[:32]}" for part in note.split("context://")[1:]]
        return calls(*(("fetch_context", {"ref": ref}) for ref in refs))

    model = cast(triage=looks_up_then_hands_off, billing=looks_up_another_then_hands_on, payout=reads_all)
    members = [
        Agent("triage", tools=[look_up]),
        Agent("billing", strategy=Reference(whole_up_to=0), tools=[look_up]),
        Agent("payout", strategy=Reference(whole_up_to=0)),
    ]
    team = stage.team(members, model)
    result = await stage.say(team, ORDER)
    packed = await events(team, ContextPacked)
    assert len({event.chapter.ref for event in packed if event.chapter}) == 2
    fetched = result.output.partition("<ToolResult fetch_context>")[2]
    assert fetched.count("ORD-1042: a lamp") == 1
    assert fetched.count("ORD-2000: a lamp") == 1


@story
async def a_query_without_an_address_searches_all_that_was_left_out(stage: Stage) -> None:
    def asks(messages: Sequence[Message]) -> Line:
        if isinstance(messages[-1], ToolResult):
            return says(messages[-1].text)
        return calls(("fetch_context", {"query": "lamp paid by card"}))

    model = cast(triage=looks_up_then_hands_off, billing=looks_up_another_then_hands_on, payout=asks)
    members = [
        Agent("triage", tools=[look_up]),
        Agent("billing", strategy=Reference(whole_up_to=0), tools=[look_up]),
        Agent("payout", strategy=Reference(whole_up_to=0)),
    ]
    result = await stage.say(stage.team(members, model), ORDER)
    assert "> ORD-1042: a lamp, paid by card 4471" in result.output
    assert "> ORD-2000: a lamp, paid by card 4471" in result.output
    assert "[to read on: section" in result.output


@story
async def a_delegate_can_read_on_too(stage: Stage) -> None:
    def directs(messages: Sequence[Message]) -> Line:
        match len([each for each in messages if isinstance(each, ToolResult)]):
            case 0:
                return calls(("look_up", {"order": "ORD-1042"}))
            case 1:
                return delegates("clerk", "which card?")
            case _:
                return says(messages[-1].text)

    clerk = fetches(query="card")
    boss = Agent("boss", tools=[look_up], handoffs=[delegate("clerk", strategy=Reference(max_facts=1, whole_up_to=0))])
    team = stage.team([boss, Agent("clerk")], cast(boss=directs, clerk=clerk))
    result = await stage.say(team, ORDER)
    assert "paid by card 4471" in result.output.partition("fetch_context")[2]


@story
async def a_summary_may_follow_a_reference(stage: Stage) -> None:
    model = cast(
        triage=looks_up_then_hands_off,
        billing=looks_up_another_then_hands_on,
        payout=recites,
        helper=says("Billing agreed."),
    )
    members = [
        Agent("triage", tools=[look_up]),
        Agent("billing", strategy=Reference(whole_up_to=0), tools=[look_up]),
        Agent("payout", strategy=Summary(whole_up_to=0)),
    ]
    result = await stage.say(stage.team(members, model, helper_model=model), ORDER)
    assert "context://" in result.output
    assert "> Billing agreed." in result.output
    assert [record.strategy for record in result.handoff_chain] == ["reference", "summary"]
