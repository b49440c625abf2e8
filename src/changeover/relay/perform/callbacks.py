"""Calls of the user's functions: in threads of their own, with their failures turned into words."""

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


async def called(code: Callable[..., Any], *given: Any) -> Any:
    """What the user's code gives: an async function here, a plain one in a thread, so that it may take its time."""
    if inspect.iscoroutinefunction(code):
        return await code(*given)
    answer = await in_thread(partial(code, *given))
    return await answer if inspect.isawaitable(answer) else answer


async def in_thread(work: Callable[[], Any]) -> Any:
    """Call this in a thread of its own; if the wait for it is cancelled, the thread is left to itself."""
    # Not asyncio's pool: a few functions that hang would fill it, and the loop could not close, nor Python
    # exit, before they end.
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
    # A future refuses a StopIteration as its exception, and whoever waits for it would wait for ever.
    try:
        return work(), None
    except BaseException as error:
        return None, error


# A user's code may also ask for the end of the process, or let a cancellation of its own out: it has failed.
TROUBLE = (Exception, asyncio.CancelledError, SystemExit)


def let_go(error: BaseException) -> None:
    """Raise a cancellation that is meant for this task; one that a user's code let out is an error like any other."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


def words_of(error: BaseException) -> str:
    """An error as people read it, cut where it rambles."""
    text = str(error)
    if not isinstance(error, ModelError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text_of(text[:2_000])
