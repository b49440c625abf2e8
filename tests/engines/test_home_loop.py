"""A team can be used from plain code, threads, notebooks, and one event loop after the other."""

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from changeover import Agent, RunResult, Team
from changeover.errors import ChangeoverError, ModelError
from changeover.messages import Message
from changeover.relay.events import UserSpoke
from changeover.testing import Reply, ScriptedModel, calls, fails, hands_off, says
from changeover.tools.tool import ToolDefinition

T = TypeVar("T")

HELLO = {"triage": [hands_off("billing", "x")], "billing": [says(f"{number}.") for number in range(1, 9)]}


@pytest.fixture
def team() -> Iterator[Team]:
    team = Team([Agent("triage"), Agent("billing")], model=ScriptedModel(HELLO))
    yield team
    asyncio.run(team.close())


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do this beside the test, so that what blocks for ever fails in time."""
    done: list[Any] = []

    def run() -> None:
        try:
            done.append((work(), None))
        except BaseException as error:
            done.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert done, f"it blocked for more than {seconds} seconds"
    result, error = done[0]
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


class Hangs:
    """A model that never answers until it is told to."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.freed = False

    async def play(self, agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        self.asked.set()
        while not self.freed:  # noqa: ASYNC110 - it may be freed from another thread
            await asyncio.sleep(0.001)
        return says(f"An answer to {messages[-1].text}.")


def test_plain_code_waits_for_the_answer(team: Team):
    result = team.run_sync("hello", conversation="c", context={"order": "17"})
    assert (result.output, result.final_agent, result.context["order"]) == ("1.", "billing", "17")
    assert team.run_sync("again", conversation="c").output == "2."


def test_plain_code_gets_the_error(team: Team):
    with pytest.raises(ChangeoverError, match="no agent is called 'sales'"):
        team.run_sync("hello", agent="sales")
    down = Team([Agent("solo")], model=ScriptedModel({"solo": [fails("down", retryable=False)]}))
    with pytest.raises(ModelError, match="down") as caught:
        down.run_sync("hello")
    assert caught.value.result is not None
    asyncio.run(down.close())


async def test_a_thread_waits_while_the_loop_runs():
    team = Team([Agent("triage"), Agent("billing")], model=ScriptedModel(HELLO))
    async with team, asyncio.timeout(5):
        assert (await team.run("hello", conversation="c")).output == "1."
        assert (await asyncio.to_thread(team.run_sync, "again", conversation="c")).output == "2."
        assert (await team.run("and again", conversation="c")).output == "3."


async def test_many_threads_wait_while_the_loop_runs():
    team = Team([Agent("triage"), Agent("billing")], model=ScriptedModel(HELLO))
    async with team, asyncio.timeout(5):
        runs = (asyncio.to_thread(team.run_sync, "hello", conversation=f"c{number}") for number in range(8))
        assert [result.output for result in await asyncio.gather(*runs)] == ["1."] * 8


def test_many_threads_wait_at_once(team: Team):
    def hello(number: int) -> RunResult:
        return team.run_sync("hello", conversation=f"c{number}")

    with ThreadPoolExecutor(8) as pool:
        assert [result.output for result in pool.map(hello, range(32))] == ["1."] * 32


async def test_a_thread_that_joins_a_conversation_does_not_make_its_tools_act_twice():
    effects: list[str] = []

    async def pay() -> str:
        """Pay."""
        effects.append("paid")
        await asyncio.sleep(0.05)
        return "paid"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return calls(("pay", {})) if messages[-1].text == "pay" else says(f"An answer to {messages[-1].text}.")

    team = Team([Agent("solo", tools=[pay])], model=ScriptedModel(play))
    async with asyncio.timeout(5):
        first = asyncio.create_task(team.run("pay", conversation="c"))
        while not effects:  # noqa: ASYNC110 - the tool may act on any loop
            await asyncio.sleep(0.001)
        second = await asyncio.to_thread(team.run_sync, "thanks", conversation="c")
        assert ((await first).output, second.output) == ("An answer to paid.", "An answer to thanks.")
    assert effects == ["paid"]
    await team.close()


async def test_a_cell_of_a_notebook_waits_inside_the_running_loop():
    team = Team([Agent("triage"), Agent("billing")], model=ScriptedModel(HELLO))
    assert (await team.run("hello", conversation="c")).output == "1."
    assert team.run_sync("again", conversation="c").output == "2."
    assert (await team.run("and again", conversation="c")).output == "3."
    assert team.run_sync("once more", conversation="c").output == "4."
    await team.close()


async def test_a_cell_of_a_notebook_may_read_along_after_it_has_waited():
    team = Team([Agent("triage"), Agent("billing")], model=ScriptedModel(HELLO))
    assert team.run_sync("hello", conversation="c").output == "1."
    items = [item async for item in team.stream("again", conversation="c")]
    assert items[-1].result.output == "2."  # type: ignore[union-attr]
    assert [record.seq for record in await team.history("c")][-1] > 1
    await team.close()


def test_one_loop_after_the_other(team: Team):
    answers = [asyncio.run(team.run("hello", conversation="c")).output for _ in range(3)]
    assert answers == ["1.", "2.", "3."]


def test_loops_and_plain_code_in_turn(team: Team):
    assert asyncio.run(team.run("hello", conversation="c")).output == "1."
    assert team.run_sync("hello", conversation="c").output == "2."
    assert asyncio.run(team.run("hello", conversation="c")).output == "3."
    assert team.run_sync("hello", conversation="c").output == "4."


def test_after_it_was_closed_a_team_can_be_used_again(team: Team):
    assert team.run_sync("hello", conversation="c").output == "1."
    asyncio.run(team.close())
    assert team.run_sync("hello", conversation="c").output == "2."
    assert asyncio.run(team.run("hello", conversation="c")).output == "3."


def test_a_team_that_is_closed_leaves_neither_thread_nor_loop_behind():
    team = Team([Agent("triage"), Agent("billing")], model=ScriptedModel(HELLO))
    before = set(threading.enumerate())
    team.run_sync("hello")
    own = set(threading.enumerate()) - before
    asyncio.run(team.close())
    for thread in own:
        thread.join(2)
        assert not thread.is_alive()
    del team
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    assert [str(warning.message) for warning in caught if "unclosed event loop" in str(warning.message)] == []


def stopped_while_it_thinks(team: Team, model: Hangs) -> None:
    """A loop that is over before the model has answered."""

    async def begin() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(team.run("one", conversation="c", key="one"), 0.05)

    asyncio.run(begin())
    assert model.asked.is_set()
    model.freed = True


def test_what_a_loop_left_undone_is_taken_up_in_the_next():
    model = Hangs()
    team = Team([Agent("solo")], model=ScriptedModel(model.play))
    stopped_while_it_thinks(team, model)

    async def take_up() -> RunResult:
        async with team, asyncio.timeout(2):
            return await team.run("one", conversation="c", key="one")

    assert asyncio.run(take_up()).output == "An answer to one."


def test_opening_a_team_is_enough_to_finish_what_was_left_undone():
    model = Hangs()
    team = Team([Agent("solo")], model=ScriptedModel(model.play))
    stopped_while_it_thinks(team, model)

    async def take_up() -> list[str]:
        async with team:
            for _ in range(1_000):
                kinds = [type(record.event).__name__ for record in await team.history("c")]
                if "RunCompleted" in kinds:
                    return kinds
                await asyncio.sleep(0.001)
            return []

    assert asyncio.run(take_up()) == ["Started", "UserSpoke", "RunStarted", "ModelReplied", "RunCompleted"]


def test_what_a_loop_left_undone_is_finished_when_the_next_message_comes():
    model = Hangs()
    team = Team([Agent("solo")], model=ScriptedModel(model.play))
    stopped_while_it_thinks(team, model)
    assert asyncio.run(asyncio.wait_for(team.run("two", conversation="c"), 10)).output == "An answer to two."
    assert asyncio.run(team.run("one", conversation="c", key="one")).output == "An answer to one."


def test_what_a_loop_left_undone_does_not_keep_plain_code_waiting():
    model = Hangs()
    team = Team([Agent("solo")], model=ScriptedModel(model.play))
    stopped_while_it_thinks(team, model)
    answer = within(2, lambda: team.run_sync("two", conversation="c"))
    assert answer.output == "An answer to two."
    asyncio.run(team.close())


def test_a_cell_may_wait_while_another_run_of_the_notebook_is_under_way():
    model = Hangs()
    team = Team([Agent("solo")], model=ScriptedModel(model.play))

    async def notebook() -> tuple[str, str]:
        first = asyncio.create_task(team.run("one", conversation="c"))
        while not model.asked.is_set():  # noqa: ASYNC110 - the model may be asked on any loop
            await asyncio.sleep(0.001)
        model.freed = True
        second = team.run_sync("two", conversation="c")  # blocks the loop on which the first is waiting
        async with asyncio.timeout(2):
            return (await first).output, second.output

    assert within(4, lambda: asyncio.run(notebook())) == ("An answer to one.", "An answer to two.")
    asyncio.run(team.close())


def in_two_loops(talk: Callable[[int], Coroutine[Any, Any, T]]) -> list[T]:
    """What comes of this in two event loops at once; neither ends before the other is ready to."""
    together = threading.Barrier(2)

    async def meet(number: int) -> T:
        await asyncio.to_thread(together.wait, 5)
        result = await talk(number)
        await asyncio.to_thread(together.wait, 5)
        return result

    def both() -> list[T]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda number: asyncio.run(meet(number)), range(2)))

    return within(10, both)


def test_two_loops_in_two_threads_share_a_team(team: Team):
    async def talk(number: int) -> list[str]:
        return [(await team.run("hello", conversation=f"c{number}")).output for _ in range(4)]

    assert in_two_loops(talk) == [["1.", "2.", "3.", "4."]] * 2


def test_two_loops_in_two_threads_share_a_conversation(team: Team):
    async def talk(number: int) -> list[str]:
        return [(await team.run(f"hello from {number}", conversation="c")).output for _ in range(4)]

    first, second = in_two_loops(talk)
    assert sorted(first + second) == [f"{number}." for number in range(1, 9)]
    spoken = [record.event for record in asyncio.run(team.history("c")) if isinstance(record.event, UserSpoke)]
    assert len(spoken) == 8


def test_whoever_waits_in_another_loop_is_told_when_the_loop_of_the_team_ends():
    model = Hangs()
    team = Team([Agent("solo")], model=ScriptedModel(model.play))
    arrived, waiting = threading.Event(), threading.Event()

    async def home() -> None:
        with pytest.raises(ChangeoverError):
            await team.history("c")  # from now on the team lives here
        arrived.set()
        await asyncio.to_thread(waiting.wait, 5)

    async def elsewhere() -> str:
        await asyncio.to_thread(arrived.wait, 5)
        run = asyncio.create_task(team.run("two", conversation="c"))
        await asyncio.to_thread(model.asked.wait, 5)
        waiting.set()
        await asyncio.to_thread(thread.join, 5)
        model.freed = True
        done, _ = await asyncio.wait({run}, timeout=2)
        assert done, "it still waits"
        try:
            return run.result().output
        except ChangeoverError:
            return "An error."  # then it may ask again; but it must not wait for ever, nor think it was cancelled

    thread = threading.Thread(target=lambda: asyncio.run(home()), daemon=True)
    thread.start()
    assert within(8, lambda: asyncio.run(elsewhere())) in ("An answer to two.", "An error.")
    assert asyncio.run(team.run("three", conversation="c")).output == "An answer to three."
