"""Calls of the user's functions, in threads of their own, and their errors as text."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

from changeover.errors import ModelError
from changeover.relay.sanitize import text_of

Outcome = tuple[Any, BaseException | None]


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


# The user's code may also raise SystemExit or leak a cancellation of its own; both count as its failure.
TROUBLE = (Exception, asyncio.CancelledError, SystemExit)


def let_go(error: BaseException) -> None:
    """Re-raise a cancellation of this task; one that the user's code leaked is treated as an error."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


def words_of(error: BaseException) -> str:
    """The text of an error, cut to 2,000 characters."""
    text = str(error)
    if not isinstance(error, ModelError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text_of(text[:2_000])
