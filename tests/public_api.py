"""What tests read through the public API alone, so that they hold however the source is arranged."""

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType
from typing import Any

from changeover import Team
from changeover.stream import Recorded

SOON = 0.005


def public(module: ModuleType, name: str) -> Any:
    """A public name of a module, also one that type checkers do not know of yet."""
    assert name in module.__all__, f"{module.__name__} does not export {name}"
    return getattr(module, name)


async def recorded(team: Team, kind: str, conversation: str = "story") -> list[Any]:
    """The events whose class has this name, of a conversation and its delegates."""
    return [each.event for each in await team.history(conversation) if type(each.event).__name__ == kind]


def offered(records: list[Recorded]) -> list[tuple[str, str]]:
    """Who offered a task to whom, in order."""
    return [(each.event.sender, each.event.receiver) for each in _of_kind(records, "HandoffOffered")]


def _of_kind(records: list[Recorded], kind: str) -> Iterator[Any]:
    return (each for each in records if type(each.event).__name__ == kind)


async def soon(holds: Callable[[], Awaitable[bool]], seconds: float = 1.0) -> bool:
    """Whether this comes to hold within so many seconds."""
    for _ in range(round(seconds / SOON)):
        if await holds():
            return True
        await asyncio.sleep(SOON)
    return False


async def only_error(use: Callable[[], Any]) -> Exception:
    """The error that this raises, sync or async; its traceback shows no other error."""
    try:
        outcome = use()
        if inspect.isawaitable(outcome):
            await outcome
    except Exception as error:
        shown = "".join(traceback.format_exception(error))
        assert shown.count("Traceback (most recent call last)") == 1, shown
        return error
    raise AssertionError(f"no error; it returned {outcome!r}")
