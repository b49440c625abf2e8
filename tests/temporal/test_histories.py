"""What Temporal sees of a conversation: short histories without content, that later versions replay."""

from collections.abc import Callable

import pytest
from temporalio.client import Client, WorkflowHistory

from changeover import Approve, Temporal
from changeover.relay.events import HandoffReturned
from tests.public_api import soon
from tests.stories.book import STRESS
from tests.temporal.history import HISTORIES, found, histories, replay, rests, size
from tests.temporal.teams import desk, family, payer


async def test_a_run_with_one_handoff_has_few_small_events_and_later_turns_do_not_grow(
    postgres: str, temporal: Callable[..., Temporal]
):
    engine, turns = temporal(), 6
    async with desk(postgres, engine) as team:
        for turn in range(turns):
            result = await team.run("I was charged twice!", conversation="ada")
            assert result.output == "Sent back."
            assert len(await histories(engine)) == turn + 1
        first, *later = await histories(engine)
    assert len(first.events) <= 20
    assert size(first) <= 3_000
    assert [len(each.events) for each in later] == [len(later[0].events)] * (turns - 1)
    assert len(later[0].events) <= 14
    for history in (first, later[-1]):
        await replay(history)


async def test_temporal_sees_no_content(postgres: str, temporal: Callable[..., Temporal]):
    engine = temporal()
    async with desk(postgres, engine) as team:
        await team.run("I was charged twice!", conversation="c1", user="Ada Lovelace", context={"order": "o-1042"})
        ended = await histories(engine)
    raw = b"".join(event.SerializeToString() for each in ended for event in each.events)
    assert b"c1" in raw
    assert [
        word for word in (b"charged", b"Charged", b"Sent back", b"Ada", b"Lovelace", b"1042", b"order") if word in raw
    ] == []


async def test_a_conversation_is_found_by_its_search_attributes(postgres: str, temporal: Callable[..., Temporal]):
    engine = temporal()
    async with desk(postgres, engine) as team:
        await team.run("I was charged twice!", conversation="c1")
        await histories(engine)
    client = await Client.connect(engine.address)
    query = f"TaskQueue='{engine.queue}' AND ChangeoverConversation='c1' AND ChangeoverStatus='completed'"
    assert await soon(lambda: found(client, query, 1), 10)


RECORDED = {path.stem: path.read_text() for path in sorted(HISTORIES.glob("*.json"))}


@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_history_replays(name: str):
    await replay(WorkflowHistory.from_json(name, RECORDED[name]))


async def test_a_long_conversation_goes_on_with_a_new_history(postgres: str, temporal: Callable[..., Temporal]):
    engine, times = temporal(history=20), 5
    async with payer(postgres, engine, expires=600, times=times) as team:
        result = await team.run("pay", conversation="c1")
        for _ in range(times):
            [request] = result.requests
            assert await soon(lambda: rests(engine, "c1"), 10)
            await team.decide(request.id, Approve(), by="ana@example.org")
            result = await team.resume("c1")
        assert result.output == "Done."
        ended = await histories(engine)
    continued = [
        each for each in ended if each.events[-1].HasField("workflow_execution_continued_as_new_event_attributes")
    ]
    assert len(ended) > 1
    assert continued == ended[:-1]
    # A leg, and what belongs to it, is added to a history that is almost full.
    assert max(len(each.events) for each in ended) <= 40
    for history in ended:
        await replay(history)


@pytest.mark.stress
@pytest.mark.timeout(600 if STRESS else 120)
async def test_many_delegates_work_at_once_and_cost_no_more_each_than_few(
    postgres: str, temporal: Callable[..., Temporal]
):
    events, few, many = {}, *((50, 500) if STRESS else (10, 50))
    for count in (few, many):
        engine = temporal(queue=f"{temporal().queue}-{count}")
        async with family(postgres, engine, count) as team:
            result = await team.run("count", conversation=f"c{count}")
            assert result.output == "All are back."
            returned = [each for each in await team.history(f"c{count}") if isinstance(each.event, HandoffReturned)]
            assert len(returned) == count
            ended = await histories(engine)
        events[count] = sum(len(each.events) for each in ended)
        for history in ended:
            await replay(history)
    print(f"events of Temporal by number of delegates: {events}")
    assert events[many] / many <= 1.5 * events[few] / few
