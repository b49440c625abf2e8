"""Cancellation of a wide tree of conversations at every event, by this process or another."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Approve, Person, Respond, RunResult, Store, Team, delegate, tool
from changeover.errors import ApprovalError, ConversationNotFound
from changeover.messages import Assistant, Message, User
from changeover.observe.hooks import EVENTS
from changeover.protocol import Expects
from changeover.relay.events import RunCancelled, ToolFinished
from changeover.relay.state import State
from changeover.stream import Recorded
from changeover.testing import Reply, ScriptedModel, assert_valid_history, calls, delegates, hands_off, says
from changeover.testing.scripted import Line
from changeover.tools.tool import Tool, ToolDefinition
from tests.relay.world import dispatcher_of

NEXT = "and now?"
TURNS = {
    "lead": [calls(*(delegates(id, f"task of {id}") for id in ("looker", "middle", "payer", "saver")))],
    "looker": [calls(("look", {}), ("look", {})), calls(("look", {}))],
    "middle": [delegates("deep", "dig"), calls(("look", {}))],
    "deep": [calls(("save", {}), ("look", {}))],
    "payer": [calls(("pay", {}))],
    "saver": [calls(("stamp", {}), ("save", {}), ("look", {}))],
}


def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """Each agent takes its turns, and then answers; so does whoever is asked how it goes on."""
    asked = max(index for index, message in enumerate(messages) if isinstance(message, User))
    taken = sum(isinstance(message, Assistant) for message in messages[asked:])
    if messages[asked].text == NEXT or taken >= len(TURNS[agent]):
        return says(f"{agent} is done")
    return TURNS[agent][taken]


def named(name: str, **options: Any) -> Tool:
    """A tool that takes a moment."""

    async def act() -> str:
        """Act."""
        await asyncio.sleep(0)
        return name

    return tool(name=name, **options)(act)


def members() -> list[Agent]:
    look, save = named("look", read_only=True), named("save")
    pay, stamp = named("pay", approval=True), named("stamp", at_most_once=True)
    ways = [delegate(id) for id in ("looker", "middle", "payer", "saver")]
    return [
        Agent("lead", handoffs=ways),
        Agent("looker", tools=[look], handoffs=()),
        Agent("middle", tools=[look], handoffs=[delegate("deep")]),
        Agent("deep", tools=[look, save], handoffs=()),
        Agent("payer", tools=[pay], handoffs=()),
        Agent("saver", tools=[look, save, stamp], handoffs=()),
    ]


class Moments:
    """Cancels something as soon as so many events of a conversation's tree are recorded."""

    def __init__(self, store: str | None) -> None:
        self.model = ScriptedModel(play)
        self.team = Team(members(), model=self.model, store=store, hooks=dict.fromkeys(EVENTS, self._hook))
        self._conversation, self._what, self._left = "", "", 0
        self._cancelling: asyncio.Task[bool] | None = None

    async def _hook(self, record: Recorded) -> None:
        if record.conversation.split("/")[0] == self._conversation:
            self._left -= 1
            if self._left == 0:
                self._cancelling = asyncio.get_running_loop().create_task(self.team.cancel(self._what))

    async def run(self, conversation: str, at: int = 0, what: str = "") -> tuple[RunResult, bool | None]:
        """How the run ends if it, or this part of it, is cancelled then, and what the caller of `cancel` is told: None
        if there was nothing by this id yet."""
        self._conversation, self._what, self._left = conversation, what or conversation, at
        self._cancelling = None
        async with asyncio.timeout(5):
            result = await self._result(conversation)
        self._conversation = ""
        assert self._cancelling or not at, "it ended before so many events were recorded"
        return result, await self._cancelled()

    async def _result(self, conversation: str) -> RunResult:
        """The end of the run; what waits is approved, if it waits still."""
        result = await self.team.run("go", conversation=conversation)
        if result.status == "waiting":
            for request in result.pending:
                with suppress(ApprovalError):
                    await self.team.decide(request, Approve(), by="ana")
            await self._cancelled()
            result = await self.team.resume(conversation)
        return result

    async def _cancelled(self) -> bool | None:
        try:
            return await self._cancelling if self._cancelling else False
        except ConversationNotFound:
            return None

    async def assert_at_rest(self, conversation: str) -> None:
        """Nothing is under way in the tree, every history is whole, and the next message is answered."""
        states: dict[str, State] = {}
        for record in await self.team.history(conversation):
            states.setdefault(record.conversation, State(record.conversation)).apply(record.event)
        assert {id: (state.run, state.inbox) for id, state in states.items()} == dict.fromkeys(states, (None, {}))
        for state in states.values():
            assert_valid_history(state.record)
        assert await self.team.approvals(conversation) == []
        after = await self.team.run(NEXT, conversation=conversation)
        assert (after.status, after.output) == ("completed", "lead is done")
        for request in self.model.requests:
            assert_valid_history(request)
        self.model.requests.clear()


@pytest.fixture(params=["memory", "sqlite"])
async def moments(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Moments]:
    moments = Moments(f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else None)
    yield moments
    await moments.team.close()


async def test_a_tree_may_be_cancelled_at_every_event(moments: Moments):
    whole, _ = await moments.run("whole")
    assert (whole.status, whole.output) == ("completed", "lead is done")
    count = len(await moments.team.history("whole"))
    ends = []
    for at in range(1, count + 1):
        result, cancelled = await moments.run(f"at-{at}", at)
        assert result.status == ("cancelled" if cancelled else "completed"), f"at event {at} of {count}"
        await moments.assert_at_rest(f"at-{at}")
        ends.append(result.status)
    assert count > 60
    # A run is over a few events before the last, for what follows an outcome at once is recorded with it.
    assert ends.count("cancelled") > count - 10


async def test_a_delegate_may_be_called_back_when_it_was_taken_and_has_not_begun():
    cancelling: list[asyncio.Task[bool]] = []

    async def cancel(record: Recorded) -> None:
        """Before the delegate's conversation is opened: whoever does that waits for the hooks."""
        cancelling.append(asyncio.ensure_future(team.cancel("c:3.0")))
        await asyncio.wait(cancelling, timeout=0.1)

    model = ScriptedModel({"boss": [delegates("aide", "count"), says("Alone, then.")], "aide": [says("never")]})
    members = [Agent("boss", handoffs=[delegate("aide")]), Agent("aide", handoffs=())]
    async with Team(members, model=model, hooks={"handoff_accepted": cancel}) as team:
        result = await team.run("go", conversation="c")
        assert (result.output, await asyncio.gather(*cancelling)) == ("Alone, then.", [True])
    assert [(record.state, record.error) for record in result.handoff_chain] == [("RETURNED", "cancelled")]
    assert {request.agent for request in model.requests} == {"boss"}


async def test_a_rollback_is_not_lost_that_is_asked_for_while_another_calls_delegates_back():
    begun = asyncio.Event()

    async def keeps_on(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "deep":
            begun.set()
            await asyncio.sleep(60)
        if any(message.text.startswith("middle gives the task back") for message in messages):
            return says(f"{agent} is done")
        return {"lead": hands_off("looker", "x"), "looker": hands_off("middle", "y")}.get(agent, delegates("deep", "z"))

    team = Team([Agent("lead"), Agent("looker"), *members()[2:4]], model=ScriptedModel(keeps_on))
    async with asyncio.timeout(5), team:
        going = asyncio.ensure_future(team.run("go", conversation="c"))
        await begun.wait()
        first, second, _ = await team.handoffs("c")
        await asyncio.gather(team.rollback(second), team.rollback(first))
        assert (await going).status == "completed"
        assert [record.state for record in await team.handoffs("c")] == ["RETURNED"] * 3
        assert (await team.run(NEXT, conversation="c")).final_agent == "lead"


@pytest.mark.parametrize("end", [Team.cancel, Team.rollback])
async def test_what_a_person_brings_back_may_be_undone_while_it_is_judged(end: Callable[..., Awaitable[object]]):
    judging = asyncio.Event()

    async def is_good(text: str) -> bool:
        judging.set()
        await asyncio.sleep(60)
        return True

    model = ScriptedModel({"boss": [delegates("ana", "count"), says("Alone, then.")]})
    way = delegate("ana", expects=Expects(criteria=[is_good]))
    async with asyncio.timeout(5), Team([Agent("boss", handoffs=[way]), Person("ana")], model=model) as team:
        waiting = await team.run("go", conversation="c")
        await team.decide(waiting.requests[0], Respond("Three."), by="ana")
        await judging.wait()
        assert await end(team, "c:3.0")
        result = await team.resume("c")
    assert (result.output, [record.state for record in result.handoff_chain]) == ("Alone, then.", ["RETURNED"])


@pytest.mark.parametrize("run", ["", "x", "0", "-1", "1x", "²", "1@1", "9" * 5_000])
async def test_what_is_no_run_does_not_stand_for_the_whole_conversation(run: str):
    pay = named("pay", approval=True)
    async with Team([Agent("solo", tools=[pay])], model=ScriptedModel({"solo": [calls(("pay", {}))]})) as team:
        waiting = await team.run("go", conversation="c")
        with pytest.raises(ConversationNotFound):
            await team.cancel(f"c@{run}")
        assert await team.approvals("c") == waiting.requests


async def test_what_must_happen_at_most_once_does_not_begin_when_it_is_wanted_no_longer():
    stamped: list[bool] = []
    cancelling: list[asyncio.Task[bool]] = []

    @tool(at_most_once=True)
    async def stamp() -> str:
        """Stamp it."""
        stamped.append(True)
        return "stamped"

    async def cancel(record: Recorded) -> None:
        """Before anything that follows from the reply is begun: whoever goes on waits for the hooks."""
        cancelling.append(asyncio.ensure_future(team.cancel("c")))
        while not await over():  # noqa: ASYNC110 - nobody tells when it is over, but hooks that wait
            await asyncio.sleep(0)

    async def over() -> bool:
        return bool((await dispatcher_of(team).conversations.get("c")).state.outcomes)

    model = ScriptedModel({"solo": [calls(("stamp", {})), says("never")]})
    async with Team([Agent("solo", tools=[stamp])], model=model, hooks={"model_replied": cancel}) as team:
        result = await team.run("go", conversation="c")
        assert (result.status, await asyncio.gather(*cancelling)) == ("cancelled", [True])
    assert stamped == []


@pytest.mark.parametrize(("who", "call"), [("looker", 0), ("middle", 1), ("payer", 2), ("saver", 3)])
async def test_a_delegate_may_be_called_back_at_every_event(moments: Moments, who: str, call: int):
    await moments.run("whole")
    count = len(await moments.team.history("whole"))
    back = 0
    for at in range(1, count + 1):
        conversation = f"at-{at}"
        result, cancelled = await moments.run(conversation, at, f"{conversation}:3.{call}")
        assert (result.status, result.output) == ("completed", "lead is done"), f"at event {at} of {count}"
        own = [each for each in result.handoff_chain if each.sender == "lead"]
        errors = {each.receiver: each.error for each in own}
        expected = {**dict.fromkeys(errors, ""), who: "cancelled" if cancelled else ""}
        assert errors == expected, f"at event {at} of {count}"
        await moments.assert_at_rest(conversation)
        back += bool(cancelled)
    assert back > 5


class Slow:
    """Models and tools that, once begun, do not end."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def for_ever(self) -> str:
        self.begun.set()
        await asyncio.Event().wait()
        return "never"

    def team(self, store: Store, where: str) -> Team:
        """A lead with a clerk, one of whom is slow: in its model, or in its tool."""

        async def work() -> str:
            """Work."""
            return await self.for_ever()

        @tool(approval=True)
        def pay() -> str:
            """Pay."""
            return "paid"

        async def think(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
            if not isinstance(messages[-1], User) or messages[-1].text == NEXT:
                return says(f"{agent} is done: {messages[-1].text}")
            if where == f"model of {agent}":
                await self.for_ever()
            if agent == "lead" and where.endswith("clerk"):
                return delegates("clerk", "work")
            return calls(("pay" if "approval" in where else "work", {}))

        clerk = Agent("clerk", tools=[work, pay], handoffs=())
        lead = Agent("lead", tools=[work, pay], handoffs=[delegate("clerk")])
        return Team([lead, clerk], model=ScriptedModel(think), store=store)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"sqlite:///{tmp_path / 'store.db'}", lease=0.5)


async def in_time(cancelling: Callable[[], Any]) -> Any:
    """What it gives, if it does so within seconds."""
    begun = time.monotonic()
    async with asyncio.timeout(10):
        given = await cancelling()
    assert time.monotonic() - begun < 5
    return given


@pytest.mark.parametrize("where", ["model of lead", "tool of lead", "model of clerk", "tool of clerk"])
async def test_another_process_may_cancel_what_this_one_works_on(store: Store, where: str):
    slow = Slow()
    first, second = slow.team(store, where), slow.team(store, where)
    running = asyncio.create_task(first.run("go", conversation="c"))
    await asyncio.wait_for(slow.begun.wait(), 10)
    assert await in_time(lambda: second.cancel("c", by="ana")) is True
    assert (await in_time(lambda: running)).status == "cancelled"
    for team in (first, second):
        assert (await in_time(partial(team.run, NEXT, conversation="c"))).output == f"lead is done: {NEXT}"
    assert not [each for each in await first.history("c") if isinstance(each.event, ToolFinished)]
    await first.close()
    await second.close()


async def test_another_process_may_call_a_delegate_back(store: Store):
    slow = Slow()
    first, second = slow.team(store, "model of clerk"), slow.team(store, "model of clerk")
    running = asyncio.create_task(first.run("go", conversation="c"))
    await asyncio.wait_for(slow.begun.wait(), 10)
    assert await in_time(lambda: second.cancel("c:3.0")) is True
    result = await in_time(lambda: running)
    assert (result.status, '"error":"cancelled"' in result.output) == ("completed", True)
    await first.close()
    await second.close()


@pytest.mark.parametrize("where", ["approval of lead", "approval of clerk"])
async def test_another_process_may_cancel_what_waits_for_approval_in_this_one(store: Store, where: str):
    slow = Slow()
    first, second = slow.team(store, where), slow.team(store, where)
    waiting = await first.run("go", conversation="c")
    assert waiting.status == "waiting"
    assert await in_time(lambda: second.cancel("c")) is True
    assert (await in_time(lambda: first.resume("c"))).status == "cancelled"
    assert await first.approvals() == []
    with pytest.raises(ApprovalError, match="the run ended"):
        await first.decide(waiting.pending[0], Approve())
    for team in (first, second):
        assert (await in_time(partial(team.run, NEXT, conversation="c"))).output == f"lead is done: {NEXT}"
    ended = [each.conversation for each in await second.history("c") if isinstance(each.event, RunCancelled)]
    assert ended == (["c"] if where == "approval of lead" else ["c/3.0", "c"])
    await first.close()
    await second.close()


async def test_what_waits_for_a_person_has_no_turn_to_finish():
    team = Team([Person("ana")])
    assert (await team.run("go", conversation="c")).status == "waiting"
    assert await in_time(lambda: team.cancel("c", after_turn=True)) is True
    assert (await team.resume("c")).status == "cancelled"
    assert await team.approvals("c") == []


async def test_what_waits_in_a_queue_has_no_turn_to_finish(store: Store):
    async with Team([Agent("clerk", pull=True)], store=store) as team:
        assert (await team.run("go", conversation="c")).status == "waiting"
        assert await in_time(lambda: team.cancel("c", after_turn=True)) is True
        assert (await team.resume("c")).status == "cancelled"


async def test_a_turn_that_is_to_be_finished_first_may_still_be_cancelled_at_once(store: Store):
    slow = Slow()
    team = slow.team(store, "model of lead")
    running = asyncio.create_task(team.run("go", conversation="c"))
    await asyncio.wait_for(slow.begun.wait(), 10)
    patient = asyncio.create_task(team.cancel("c", after_turn=True))
    await asyncio.sleep(0.02)
    assert await in_time(lambda: team.cancel("c")) is True
    assert (await in_time(lambda: running)).status == "cancelled"
    assert await in_time(lambda: patient) is True
    await team.close()


@pytest.mark.parametrize("where", ["lead", "clerk"])
async def test_cancel_returns_when_what_it_cancelled_has_cleaned_up(where: str):
    begun, cleaned = asyncio.Event(), list[str]()

    async def work() -> str:
        """Work."""
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            cleaned.append("up")
        return "never"

    script = {
        "lead": [delegates("clerk", "work") if where == "clerk" else calls(("work", {}))],
        "clerk": [calls(("work", {}))],
    }
    members = [Agent("lead", tools=[work], handoffs=[delegate("clerk")]), Agent("clerk", tools=[work], handoffs=())]
    team = Team(members, model=ScriptedModel(script))
    running = asyncio.create_task(team.run("go", conversation="c"))
    await asyncio.wait_for(begun.wait(), 10)
    assert await in_time(lambda: team.cancel("c")) is True
    assert cleaned == ["up"]
    assert (await running).status == "cancelled"
