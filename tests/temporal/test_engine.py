"""The Temporal engine: who serves what, what readers see, how work is stopped, and how engines change places."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from changeover import Agent, Store, Team, Temporal
from changeover.engines.address import engine_at
from changeover.engines.clock import SystemClock
from changeover.engines.local.followers import Followers
from changeover.engines.temporal import legs
from changeover.errors import ConversationNotFound, EngineError, MisconfiguredError
from changeover.relay.ports.world import Request
from changeover.relay.stream import ThinkingDelta
from changeover.stream import Recorded, RunFinished, StreamItem, TextDelta
from changeover.testing import Reply, ScriptedModel, hands_off, says
from tests.public_api import soon
from tests.relay.world import dispatcher_of
from tests.stories.book import STORIES, Stage
from tests.temporal.history import histories, replay
from tests.temporal.teams import LEASE, desk, payer


class Lateness:
    """Measures how much later than they should the sleeps of the event loop end, because the machine is busy."""

    async def __aenter__(self) -> Self:
        self.seconds = 0.0
        self._task = asyncio.ensure_future(self._measure())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _measure(self) -> None:
        while True:
            begun = time.monotonic()
            await asyncio.sleep(0.05)
            self.seconds += time.monotonic() - begun - 0.05


async def test_a_run_that_no_worker_serves_says_so_within_five_seconds_and_goes_on_when_one_comes(
    postgres: str, temporal: Callable[..., Temporal]
):
    async with desk(postgres, temporal(worker=False)) as asking, Lateness() as late:
        begun = time.monotonic()
        with pytest.raises(EngineError, match="no worker serves the task queue"):
            await asking.run("I was charged twice!", conversation="c1")
        assert time.monotonic() - begun - late.seconds < 5
        async with desk(postgres, temporal()):
            assert (await asking.resume("c1")).output == "Sent back."


@pytest.mark.parametrize(
    ("options", "says_why"),
    [
        ({"address": "127.0.0.1:1"}, "Temporal at 127.0.0.1:1 cannot be reached"),
        ({"namespace": "nowhere"}, "Temporal refuses the call of 'c1': .*nowhere"),
    ],
    ids=["no server", "no namespace"],
)
async def test_a_run_that_temporal_cannot_take_says_so_within_five_seconds(
    postgres: str, temporal: Callable[..., Temporal], options: dict[str, Any], says_why: str
):
    async with desk(postgres, replace(temporal(), **options)) as team, Lateness() as late:
        begun = time.monotonic()
        with pytest.raises(EngineError, match=says_why):
            await team.run("I was charged twice!", conversation="c1")
        assert time.monotonic() - begun - late.seconds < 5


async def test_an_agent_is_served_by_its_own_worker_and_the_others_by_the_default_one(
    postgres: str, temporal: Callable[..., Temporal]
):
    def worker(name: str, **options: Any) -> Team:
        return desk(postgres, temporal(**options), triage=[hands_off("billing")], billing=[says(f"by {name}")])

    async with worker("the clerk", agents=("billing",)) as clerk:
        await asyncio.sleep(1)  # until it polls
        async with worker("all") as general, desk(postgres, temporal(worker=False)) as asking:
            result = await asking.run("I was charged twice!")
            assert result.output == "by the clerk"
            assert [each.agent for each in general.declared.model.requests] == ["triage"]
            assert [each.agent for each in clerk.declared.model.requests] == ["billing"]


class HalfSaid(ScriptedModel):
    """A model that goes on with its sentence when the reader has got the first word of it."""

    def __init__(self, read: Callable[[], bool]) -> None:
        super().__init__({"triage": [hands_off("billing")], "billing": [says("Sent back.")]})
        self.wanted, self.heard = read, asyncio.Event()

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        async for piece in super().stream(request):
            yield piece
            if isinstance(piece, TextDelta):
                await asyncio.wait_for(self.heard.wait(), 30)

    async def reply(self, request: Request) -> Reply:
        assert await soon(self._is_read, 30), "the worker's store does not know that the conversation is read"
        return await super().reply(request)

    async def _is_read(self) -> bool:
        return self.wanted()


async def test_deltas_of_a_worker_reach_the_reader_in_another_engine(postgres: str, temporal: Callable[..., Temporal]):
    model = HalfSaid(lambda: worker.log.deltas.wanted("c1"))
    worker = Team([Agent("triage"), Agent("billing")], model=model, store=Store(postgres, LEASE), engine=temporal())
    items = list[StreamItem]()
    async with worker, desk(postgres, temporal(worker=False)) as asking:
        async for item in asking.stream("I was charged twice!", conversation="c1"):
            items.append(item)
            if isinstance(item, TextDelta):
                model.heard.set()
    assert isinstance(items[-1], RunFinished)
    assert items[-1].result.output == "Sent back."
    text = "".join(item.text for item in items if isinstance(item, TextDelta))
    assert text.startswith("Sent")
    assert "Sent back.".startswith(text), "the log may be faster than the last piece"


async def test_a_reader_of_a_file_follows_a_worker_by_polling(sqlite_file: Path, temporal: Callable[..., Temporal]):
    url = f"sqlite:///{sqlite_file}"
    async with desk(url, temporal()), desk(url, temporal(worker=False)) as asking:
        items = [item async for item in asking.stream("I was charged twice!", conversation="c1")]
    assert [type(item.event).__name__ for item in items if isinstance(item, Recorded)][-1] == "RunCompleted"
    assert isinstance(items[-1], RunFinished)
    assert items[-1].result.output == "Sent back."


async def test_a_worker_learns_with_its_heartbeat_that_a_run_is_cancelled(
    postgres: str, temporal: Callable[..., Temporal], monkeypatch: pytest.MonkeyPatch
):
    async def play(request: Request) -> Reply:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("it was cancelled")

    # Neither the channel of the database nor the look at the store, which comes every 100 s, tells the worker.
    monkeypatch.setattr(Followers, "listen", lambda self, live: None)
    begun, engine = asyncio.Event(), temporal()
    worker = Team([Agent("solo")], model=ScriptedModel(play), store=Store(postgres, lease=300), engine=engine)
    asking = Team([Agent("solo")], model=ScriptedModel({}), store=postgres, engine=temporal(worker=False))
    async with worker, asking:
        run = asyncio.ensure_future(asking.run("go", conversation="c1"))
        await asyncio.wait_for(begun.wait(), 30)
        assert await asking.cancel("c1", by="ana@example.org")
        assert (await asyncio.wait_for(run, 60)).status == "cancelled"
        [history] = await histories(engine)
    assert any(event.HasField("activity_task_cancel_requested_event_attributes") for event in history.events)
    await replay(history)


async def test_a_leg_ends_though_somebody_looks_at_the_conversation_at_that_moment(
    postgres: str, temporal: Callable[..., Temporal]
):
    looking = list[asyncio.Future[bool]]()

    async def completed(_: Any) -> None:
        live = dispatcher_of(team).conversations.cached("c1")
        looking.append(asyncio.ensure_future(team.cancel("c1:9.0")))
        for _ in range(1_000):
            if live and not live.lock.locked():
                await asyncio.sleep(0)

    engine, model, store = temporal(), ScriptedModel({"solo": [says("Done.")]}), Store(postgres, LEASE)
    async with Team(
        [Agent("solo")], model=model, store=store, engine=engine, hooks={"run_completed": completed}
    ) as team:
        assert (await team.run("go", conversation="c1")).output == "Done."
        with pytest.raises(ConversationNotFound):
            await looking[0]
        assert len(await histories(engine)) == 1, "the workflow has ended"


async def test_a_closed_team_does_not_check_any_more_whether_a_tree_waits_for_people(
    postgres: str, temporal: Callable[..., Temporal], monkeypatch: pytest.MonkeyPatch
):
    async def play(request: Request) -> Reply:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("it was cancelled")

    def noting(loop: asyncio.AbstractEventLoop, work: Any, **named: Any) -> asyncio.Task[Any]:
        started.append(work.__qualname__)
        return asyncio.Task(work, loop=loop, **named)

    monkeypatch.setattr(legs, "STILL", 1.0)  # so that a check is due when the team is closed
    begun, started, loop = asyncio.Event(), list[str](), asyncio.get_running_loop()
    worker = Team([Agent("solo")], model=ScriptedModel(play), store=Store(postgres, LEASE), engine=temporal())
    asking = Team([Agent("solo")], model=ScriptedModel({}), store=Store(postgres, LEASE), engine=temporal(worker=False))
    async with worker:
        run = asyncio.ensure_future(asking.run("go", conversation="c1"))
        await asyncio.wait_for(begun.wait(), 30)
        await worker.rename("c1", "a title")
        await asyncio.sleep(0.3)  # until the other team has heard of it
        await asking.close()
        with pytest.raises(EngineError, match="closed"):
            await run
        loop.set_task_factory(noting)
        await asyncio.sleep(1.5)
        loop.set_task_factory(None)
    assert [name for name in started if name.startswith("Legs._tell")] == []


async def test_a_durable_timer_ends_an_approval_that_nobody_decides(postgres: str, temporal: Callable[..., Temporal]):
    engine = temporal()
    async with payer(postgres, engine, expires=1) as team:
        assert (await team.run("pay", conversation="c1")).status == "waiting"
        assert await soon(lambda: _ended(team, "c1"), 30)
        [history] = await histories(engine)
    assert any(event.HasField("timer_fired_event_attributes") for event in history.events)
    await replay(history)


async def _ended(team: Team, conversation: str) -> bool:
    return (await team.resume(conversation)).status == "completed"


DELEGATING = ("delegates", "trees", "branches")
TIMED = {"a_delegate_comes_back_with_a_structured_result_and_the_sender_goes_on"}
"""It compares how long a delegate took, which a clock that stands still makes zero."""
REAL_TIME = [name for name, tell in STORIES.items() if tell.__module__.rpartition(".")[2] in DELEGATING][::12]


@pytest.mark.stress
@pytest.mark.parametrize("name", [name for name in REAL_TIME if name not in TIMED])
async def test_a_story_of_delegates_holds_by_the_clock_of_the_machine(
    name: str, postgres: str, temporal: Callable[..., Temporal]
):
    stage = Stage(store=postgres, engine=temporal(), clock=SystemClock())
    try:
        async with asyncio.timeout(60):
            await STORIES[name](stage)
    finally:
        await stage.close()


def test_settings_are_checked_and_an_address_names_them():
    parsed = engine_at("temporal://host:7233/desk?queue=q&tls=true&heartbeat=5&worker=false&api_key=${KEY}")
    assert parsed == Temporal("host:7233", "desk", True, "${KEY}", "q", worker=False, heartbeat=5.0)
    with pytest.raises(MisconfiguredError, match="literal api_key"):
        Temporal("host:7233", api_key="abc")
    with pytest.raises(MisconfiguredError, match="unknown option 'speed'"):
        engine_at("temporal://host:7233?speed=9")
    with pytest.raises(MisconfiguredError, match="heartbeat='soon'"):
        engine_at("temporal://host:7233?heartbeat=soon")
    with pytest.raises(MisconfiguredError, match="concurrency=0"):
        Temporal("host:7233", concurrency=0)
    with pytest.raises(MisconfiguredError, match="history=5 is not a whole number of 20 or more"):
        Temporal("host:7233", history=5)


async def test_a_store_in_memory_is_refused():
    team = Team([Agent("triage")], model=ScriptedModel({"triage": [says("Hi.")]}), engine=Temporal("127.0.0.1:1"))
    with pytest.raises(MisconfiguredError, match="a store that outlives the process"):
        await team.run("hello")
