"""Calls of the user's functions, in threads of their own, and their errors as text."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from changeover.errors import ModelError
from changeover.relay.sanitize import text_of

Outcome = tuple[Any, BaseException | None]
T = TypeVar("T")


async def called(code: Callable[..., Any], *args: Any) -> Any:
    """Call the user's code: an async function in this task, a plain one in a thread, where it may block."""
    if inspect.iscoroutinefunction(code):
        return await code(*args)
    answer = await in_thread(partial(code, *args))
    return await answer if inspect.isawaitable(answer) else answer


async def in_thread(work: Callable[[], Any]) -> Any:
    """Run `work` in a thread of its own; a cancelled wait leaves the thread running."""
    # Not asyncio's pool: a few hung functions would fill it, and neither the loop nor Python
    # could exit before they end.
    loop, context = asyncio.get_running_loop(), copy_context()
    arrived: asyncio.Future[Outcome] = loop.create_future()

    def deliver(outcome: Outcome) -> None:
        if not arrived.done():
            arrived.set_result(outcome)

    def run() -> None:
        outcome = _outcome(lambda: context.run(work))
        with suppress(RuntimeError):  # the loop may be closed by the time a hung function returns
            loop.call_soon_threadsafe(deliver, outcome)

    threading.Thread(target=run, name="changeover-tool", daemon=True).start()
    result, error = await arrived
    if error is not None:
        raise error
    return result


def _outcome(work: Callable[[], Any]) -> Outcome:
    # A future refuses a StopIteration as its exception, and its waiter would wait forever.
    try:
        return work(), None
    except BaseException as error:
        return None, error


class OutOfTime(TimeoutError):
    """The user's code took too long; any other TimeoutError comes from the code itself."""


GRACE = 0.1
"""Seconds that cancelled code has to clean up before it is left to itself."""
_working: set[asyncio.Task[Outcome]] = set()
"""Code that may go on although it was cancelled: a loop keeps no reference to its tasks."""


async def within(seconds: float | None, work: Callable[[], Awaitable[T]]) -> T:
    """Await the user's code; raises OutOfTime after so many seconds, also if the code swallows its cancellation: then
    it is left to itself, and its result is dropped."""
    if seconds is None:
        return await work()
    task = asyncio.ensure_future(_settled(work))
    _working.add(task)
    task.add_done_callback(_working.discard)
    try:
        await asyncio.wait([task], timeout=seconds)
        late = not task.done()
        if late:
            task.cancel()
            await asyncio.wait([task], timeout=GRACE)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task], timeout=seconds)
        raise
    if late:
        raise OutOfTime(f"it took longer than {seconds:g} seconds; it may still have taken effect")
    result, error = task.result()
    if error is not None:
        raise error
    answer: T = result
    return answer


async def _settled(work: Callable[[], Awaitable[Any]]) -> Outcome:
    # Nothing is raised out of the task: its SystemExit would end the process.
    try:
        return await work(), None
    except BaseException as error:
        return None, error


# The user's code may also raise SystemExit or GeneratorExit, or leak a cancellation of its own: they are its failures.
TROUBLE = (Exception, asyncio.CancelledError, SystemExit, GeneratorExit)


def let_go(error: BaseException) -> None:
    """Re-raise a cancellation of this task, and the end of a coroutine that is closed; what the user's code leaked is
    treated as an error."""
    if isinstance(error, GeneratorExit):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise error from None  # the loop is gone, and this coroutine with it
        return
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


def words_of(error: BaseException) -> str:
    """The text of an error, cut to 2,000 characters; its type alone if its text cannot be had."""
    try:
        text = str(error)
    except Exception:
        return type(error).__name__
    if not isinstance(error, ModelError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text_of(text[:2_000])
