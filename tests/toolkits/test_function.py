"""Function tools: how they are called, timed, tried again, and put into words."""

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any

import pytest
from pydantic import BaseModel

from changeover.relay.ports.world import Toolkit, ToolOutcome
from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools.run_context import Metrics, Received, RunContext
from changeover.tools.tool import tool
from tests.toolkits.function_call import CONTEXT, outcome_of, raising, returning


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(StrEnum):
    SMALL = "small"


class Mood(str, Enum):  # noqa: UP042 - as many have written it
    GOOD = "good"


class Order(BaseModel):
    id: int
    on: date


@dataclass
class Address:
    street: str
    zip: int


def test_a_function_toolkit_is_a_toolkit():
    toolkit: Toolkit = AgentToolkit([])
    assert toolkit.tools() == ()


def test_an_empty_toolkit_imports_no_heavy_libraries():
    program = (
        "import sys; from changeover.toolkits.toolkit import AgentToolkit; AgentToolkit([]);"
        "sys.exit('pydantic_ai' in sys.modules or 'pydantic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# What comes back


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        ("", ""),
        (Size.SMALL, "small"),
        (Mood.GOOD, "good"),
        (None, "done: it returned nothing"),
        (True, "true"),
        (3, "3"),
        ([1, "a", None], '[1,"a",null]'),
        ({"a": Decimal("1.50"), 2: {3}}, '{"a":"1.50","2":[3]}'),
        (date(2024, 5, 1), '"2024-05-01"'),
        (Address("Main", 7), '{"street":"Main","zip":7}'),
        (Order(id=1, on=date(2024, 5, 1)), '{"id":1,"on":"2024-05-01"}'),
        (Colour.RED, '"red"'),
        ("grüß 🙂", "grüß 🙂"),
        (["grüß"], '["grüß"]'),
        ("half \ud83d pair", "half ? pair"),
        (
            Received(sender="triage", message="m", context={}, metrics=Metrics(tokens=1)),
            '{"sender":"triage","message":"m","context":{},"artifacts":{},"workflow_state":{},'
            '"metrics":{"tokens":1,"elapsed":0.0,"retries":0}}',
        ),
    ],
)
async def test_a_result_becomes_a_text_that_a_model_can_read(value: Any, text: str):
    assert await outcome_of(returning(value)) == ToolOutcome(text)


async def test_a_result_that_json_cannot_show_is_a_failure_that_names_the_type():
    loop: list[Any] = []
    loop.append(loop)
    for value, kind in [(threading.Lock(), "lock"), ([object()], "object"), (loop, "list"), (b"\xff", "bytes")]:
        outcome = await outcome_of(returning(value))
        assert not outcome.ok
        assert outcome.text.startswith("give ran, but it returned ")
        assert kind in outcome.text


async def test_a_result_that_cannot_be_shown_is_not_retried():
    calls = []

    @tool(retries=3)
    def pay() -> object:
        calls.append(1)
        return object()

    assert not (await outcome_of(pay)).ok
    assert calls == [1]


async def test_a_result_that_is_too_long_is_cut_and_says_so():
    @tool(max_result=10)
    def read() -> str:
        return "x" * 5_000_000

    outcome = await outcome_of(read)
    assert outcome == ToolOutcome("xxxxxxxxxx\n[cut: the first 10 of 5000000 characters are shown]")


async def test_a_result_of_just_the_allowed_length_is_left_whole():
    assert await outcome_of(tool(max_result=3)(returning("abc"))) == ToolOutcome("abc")


# What goes wrong


async def test_an_exception_becomes_a_text_without_a_traceback():
    assert await outcome_of(raising(ValueError("no such order"))) == ToolOutcome(
        "fail failed: ValueError: no such order", ok=False
    )


async def test_an_exception_without_text_is_shown_by_its_type():
    assert (await outcome_of(raising(PermissionError()))).text == "fail failed: PermissionError"


async def test_an_exception_whose_str_raises_is_shown_by_its_type():
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert (await outcome_of(raising(Mute()))).text == "fail failed: Mute"


async def test_a_long_exception_is_cut():
    outcome = await outcome_of(raising(ValueError("x" * 1_000_000)))
    assert len(outcome.text) < 2_200
    assert "1000012 characters" in outcome.text


async def test_a_group_of_exceptions_is_shown_by_its_members():
    outcome = await outcome_of(raising(ExceptionGroup("two", [ValueError("a"), KeyError("b")])))
    assert outcome.text == "fail failed: ValueError: a; KeyError: 'b'"


async def test_a_plain_function_that_runs_out_of_items_fails_at_once():
    def find() -> Any:
        return next(iter([]))

    outcome = await asyncio.wait_for(outcome_of(find), 10)
    assert not outcome.ok
    assert "StopIteration" in outcome.text


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit])
async def test_a_system_exit_passes_through(error: type[BaseException]):
    async def leave() -> None:
        raise error

    for fn in (leave, raising(error())):
        with pytest.raises(error):
            await outcome_of(fn)


def test_an_interrupt_passes_through():
    # In a process of its own: an event loop that is interrupted is not fit for the next test.
    program = """
import asyncio
from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools.run_context import RunContext

def leave(how: str):
    raise {"interrupt": KeyboardInterrupt, "exit": SystemExit}[how]

async def leave_later(how: str):
    leave(how)

context = RunContext(conversation="c", run="r", agent="a", command="1")
toolkit = AgentToolkit([leave, leave_later])
for name in ("leave", "leave_later"):
    for how in ("interrupt", "exit"):
        try:
            asyncio.run(toolkit.call(name, {"how": how}, context))
        except (KeyboardInterrupt, SystemExit) as error:
            print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.stdout.split() == ["KeyboardInterrupt", "SystemExit"] * 2, done.stderr


async def test_a_cancelled_call_cancels_an_async_function():
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    call = asyncio.create_task(outcome_of(wait))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cancelled.is_set()


async def test_a_cancelled_call_does_not_wait_for_a_plain_function():
    begun, end = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        end.wait(60)

    call = asyncio.create_task(outcome_of(wait))
    await asyncio.to_thread(begun.wait, 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(call, 10)
    end.set()


# Time


async def test_an_async_function_is_abandoned_at_its_timeout():
    @tool(timeout=0.02)
    async def wait() -> None:
        await asyncio.sleep(60)

    outcome = await outcome_of(wait)
    assert not outcome.ok
    assert outcome.text == "wait failed: it took longer than 0.02 seconds; it may still have taken effect"


async def test_a_plain_function_that_hangs_is_abandoned_at_its_timeout():
    end = threading.Event()

    @tool(timeout=0.02)
    def hang() -> None:
        end.wait(60)

    outcome = await outcome_of(hang)
    end.set()
    assert outcome.text.startswith("hang failed: it took longer than 0.02 seconds")


def test_a_plain_function_that_hangs_for_ever_keeps_neither_the_loop_nor_the_process_alive():
    program = """
import asyncio, threading
from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools.run_context import RunContext
from changeover.tools.tool import tool
context = RunContext(conversation="c", run="r", agent="a", command="1")
@tool(timeout=0.02)
def hang():
    threading.Event().wait()
print(asyncio.run(AgentToolkit([hang]).call("hang", {}, context)).ok)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=30)
    assert done.stdout == "False\n"


async def test_many_plain_functions_that_hang_do_not_keep_others_waiting():
    end = threading.Event()

    @tool(timeout=0.1)
    def hang() -> None:
        end.wait(60)

    hung = await asyncio.gather(*(outcome_of(hang) for _ in range(60)))
    assert not any(outcome.ok for outcome in hung)
    assert await asyncio.wait_for(outcome_of(returning("here")), 10) == ToolOutcome("here")
    end.set()


async def test_a_late_answer_of_an_abandoned_function_is_ignored():
    end, over = threading.Event(), threading.Event()

    @tool(timeout=0.02)
    def slow() -> str:
        end.wait(60)
        over.set()
        return "late"

    assert not (await outcome_of(slow)).ok
    end.set()
    assert await asyncio.to_thread(over.wait, 5)
    await asyncio.sleep(0.01)


async def test_a_timeout_error_of_the_function_is_shown_as_its_own():
    @tool(timeout=60)
    async def fetch() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    @tool(timeout=60)
    def connect() -> None:
        raise TimeoutError("the host is silent")

    assert (await outcome_of(fetch)).text == "fetch failed: TimeoutError"
    assert (await outcome_of(connect)).text == "connect failed: TimeoutError: the host is silent"


async def test_a_function_that_raises_at_its_timeout_is_still_out_of_time():
    @tool(timeout=0.02)
    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise OSError("cannot even clean up")

    assert "longer than 0.02 seconds" in (await outcome_of(wait)).text


async def test_without_a_timeout_a_function_may_take_its_time():
    @tool(timeout=None)
    async def wait() -> str:
        await asyncio.sleep(0.01)
        return "at last"

    assert (await outcome_of(wait)).text == "at last"


async def test_plain_functions_run_beside_the_loop_and_beside_each_other():
    both = threading.Barrier(2, timeout=5)

    def meet() -> str:
        both.wait()
        return threading.current_thread().name

    names = await asyncio.gather(outcome_of(meet), outcome_of(meet))
    assert all(outcome.ok for outcome in names)
    assert threading.main_thread().name not in {outcome.text for outcome in names}


async def test_context_variables_reach_a_plain_function():
    trace = contextvars.ContextVar("trace", default="")
    trace.set("t-1")

    def read() -> str:
        return trace.get()

    assert (await outcome_of(read)).text == "t-1"


async def test_a_plain_function_may_return_something_to_await():
    async def later() -> str:
        return "later"

    def soon() -> Any:
        return later()

    assert (await outcome_of(soon)).text == "later"


# Again


async def test_a_function_that_fails_is_tried_again_as_often_as_declared():
    keys: list[str] = []

    @tool(retries=2)
    def flaky(ctx: RunContext) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) < 3:
            raise ConnectionError
        return "at last"

    assert await outcome_of(flaky) == ToolOutcome("at last")
    assert keys == ["c1:7"] * 3


async def test_the_last_failure_is_shown_with_the_number_of_tries():
    tries: list[int] = []

    @tool(retries=2)
    async def flaky() -> None:
        tries.append(1)
        raise ConnectionError(f"no {len(tries)}")

    assert (await outcome_of(flaky)).text == "flaky failed: ConnectionError: no 3 (tried 3 times)"


async def test_without_retries_a_failure_is_final():
    tries = []

    def flaky() -> None:
        tries.append(1)
        raise ConnectionError

    await outcome_of(flaky)
    assert tries == [1]


async def test_a_timeout_is_tried_again_too():
    tries: list[int] = []

    @tool(timeout=0.02, retries=1)
    async def slow() -> str:
        tries.append(1)
        await asyncio.sleep(60 if len(tries) == 1 else 0)
        return "quick"

    assert (await outcome_of(slow)).text == "quick"


async def test_each_try_gets_its_arguments_fresh():
    seen: list[list[str]] = []

    @tool(retries=1)
    def add(items: list[str]) -> str:
        seen.append(list(items))
        items.append("dirt")
        raise ConnectionError

    await outcome_of(add, items=["a"])
    assert seen == [["a"], ["a"]]


async def test_arguments_that_do_not_fit_are_not_tried_again():
    @tool(retries=5)
    def refund(order: int) -> None: ...

    started = time.monotonic()
    outcome = await AgentToolkit([refund], backoff=10).call("refund", {}, CONTEXT)
    assert not outcome.ok
    assert time.monotonic() - started < 5


async def test_the_pause_between_tries_doubles():
    at: list[float] = []

    @tool(retries=2)
    async def flaky() -> None:
        at.append(time.monotonic())
        raise ConnectionError

    await AgentToolkit([flaky], backoff=0.02).call("flaky", {}, CONTEXT)
    assert at[1] - at[0] >= 0.015
    assert at[2] - at[1] >= 0.035
