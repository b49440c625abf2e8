"""What Temporal sees of a conversation: short histories without content, that later versions replay."""

import time
from collections.abc import Callable

import pytest
from temporalio.client import Client, WorkflowHistory

from changeover import Agent, Approve, Store, Team, Temporal, delegate, tool
from changeover.errors import StoreDamaged
from changeover.relay.events import Entry, HandoffReturned
from changeover.relay.ports.log import Log
from changeover.stores.store import open_log
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says
from changeover.testing.crash import PassingLog
from tests.public_api import soon
from tests.stories.book import STRESS
from tests.temporal.history import HISTORIES, found, histories, replay, rests, size
from tests.temporal.teams import LEASE, desk, family, payer


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


@tool(approval=True)
def pay(amount: str) -> str:
    """Pay."""
    return f"{amount} sent to Grosvenor"


class FailingLog(PassingLog):
    """A log whose first read fails with words of the content."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.failures = 0

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        self.failures += 1
        if self.failures == 1:
            raise StoreDamaged(conversation, "Lovelace cannot be read")
        return await super().read(conversation, after)


CONTENT = b"charged Lovelace o-1042 order kindly 4711 Grosvenor zoe@example Zanzibar Quarrel Finished".split()


async def test_temporal_sees_no_content(postgres: str, temporal: Callable[..., Temporal]):
    engine, log = temporal(), FailingLog(open_log(Store(postgres, lease=LEASE)))
    script = {
        "triage": [calls(("pay", {"amount": "4711"})), hands_off("billing", "A Quarrel.")],
        "billing": [calls(delegates("clerk", "Count in Zanzibar.")), says("Finished.")],
        "clerk": [says("Finished too.")],
    }
    triage = Agent("triage", instructions="Answer kindly.", tools=[pay], handoffs=["billing"])
    members = [triage, Agent("billing", handoffs=[delegate("clerk")]), Agent("clerk", handoffs=())]
    async with (
        Team(members, model=ScriptedModel(script), store=log, engine=engine),
        Team(members, model=ScriptedModel({}), store=postgres, engine=temporal(worker=False)) as asking,
    ):
        context = {"order": "o-1042"}
        waits = await asking.run("I was charged twice!", conversation="c1", user="Ada Lovelace", context=context)
        [request] = waits.requests
        raw = await _described(engine)
        await asking.decide(request.id, Approve(), by="zoe@example.org")
        assert (await asking.resume("c1")).output == "Finished."
        ended = await histories(engine)
    raw += await _described(engine) + b"".join(event.SerializeToString() for each in ended for event in each.events)
    assert all(told in raw for told in (b"conversation c1", b"ChangeoverStatus", b"StoreDamaged"))
    assert [word for word in CONTENT if word in raw] == []


async def _described(engine: Temporal) -> bytes:
    """What Temporal shows of the workflows of a queue beside their histories: summaries, attributes, failures."""
    client = await Client.connect(engine.address)
    found = [each async for each in client.list_workflows(f"TaskQueue='{engine.queue}'")]
    assert found
    shown = [await client.get_workflow_handle(each.id, run_id=each.run_id).describe() for each in found]
    return b"".join(each.raw_description.SerializeToString() for each in shown)


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
    events, spent, sizes = {}, {}, (50, 100, 250, 500) if STRESS else (5, 10, 50)
    for count in sizes:
        engine = temporal(queue=f"{temporal().queue}-{count}")
        async with family(postgres, engine, count) as team:
            begun = time.process_time()
            result = await team.run("count", conversation=f"c{count}")
            spent[count] = (time.process_time() - begun) / count
            assert result.output == "All are back."
            returned = [each for each in await team.history(f"c{count}") if isinstance(each.event, HandoffReturned)]
            assert len(returned) == count
            ended = await histories(engine)
        events[count] = sum(len(each.events) for each in ended) / count
        for history in ended:
            await replay(history)
    for count in sizes:
        print(f"{count} delegates: {events[count]:.1f} events and {spent[count] * 1_000:.1f} ms of CPU each")
    few, many = sizes[1], sizes[-1]  # the first run imports and connects
    assert events[many] <= 1.5 * events[few]
    assert spent[many] <= 2 * spent[few]
