"""Functions that users declare: the arguments of callbacks, and checks of signatures and of plain functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from changeover.facts import HandoffRecord
from changeover.ids import cleanup_key, follow_up_key


class Rollback(Struct, frozen=True, gc=False):
    """A handoff that was rolled back; the argument of `on_rollback=` of a handoff or delegate."""

    handoff: HandoffRecord
    reason: str
    by: str
    partial_result: str
    """The last text of the receiver."""

    @property
    def idempotency_key(self) -> str:
        """A key that stays the same over all tries of this rollback."""
        return cleanup_key(self.handoff.id)


class Acceptance(Struct, frozen=True, gc=False):
    """A handoff that its receiver accepted; the argument of `on_accepted=` of a handoff or delegate."""

    handoff: HandoffRecord
    by: str = ""
    """The person or worker that accepted, if one did."""

    @property
    def idempotency_key(self) -> str:
        """A key that stays the same over all tries of this call."""
        return follow_up_key(self.handoff.id)


def arity_faults(option: str, function: object, *given: str) -> list[str]:
    """The faults of a function that is called with these arguments; none if its signature is unknown."""
    if not callable(function):
        return []
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError, NameError):
        return []
    try:
        signature.bind(*given)
    except TypeError as error:
        called = f"it is called with {len(given)} argument{'s' * (len(given) > 1)} ({', '.join(given)})"
        return [f"has {option}={_name(function)}, but {called}, and it takes {signature}: {error}"]
    return []


def is_plain(function: object) -> bool:
    """True if this is a function that need not be awaited, also behind partials and as a callable object."""
    if isinstance(function, partial):
        return is_plain(function.func)
    awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
    return callable(function) and not awaited


def condition_faults(option: str, condition: object) -> list[str]:
    """The faults of a condition: it has to be a plain function of the run's context."""
    if not is_plain(condition):
        given = f"{_name(condition)}, which has to be awaited" if callable(condition) else repr(condition)
        return [f"has {option}={given}; give a plain function of the run's context"]
    return arity_faults(option, condition, "context")


def is_awaitable(answer: object) -> bool:
    """True if a condition returned an awaitable; a coroutine is closed."""
    if inspect.iscoroutine(answer):
        answer.close()
    return inspect.isawaitable(answer)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", "") or repr(function)
