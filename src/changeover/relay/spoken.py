"""What a caller says, checked: all that is wrong with it is raised together, before anything is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from changeover.errors import MisconfiguredError
from changeover.guards.limits import Limits, limit_faults
from changeover.handoffs.context import METADATA
from changeover.relay.events import UserSpoke


def spoken(
    text: object,
    *,
    agent: str | None = None,
    context: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    user: str | None = None,
    correlation_id: str | None = None,
) -> UserSpoke:
    """The event that records it."""
    variables, faults = _variables(context) if context else ({}, [])
    named = {"user": user, "correlation_id": correlation_id}
    texts = {"what the user says": text, **{name: given for name, given in named.items() if given is not None}}
    if faults := [*text_faults(texts), *faults, *limit_faults(limits)]:
        raise MisconfiguredError(*faults)
    return UserSpoke(str(text), user or "", agent or "", variables, limits, correlation_id or "")


def check_texts(**given: object) -> None:
    """Raise MisconfiguredError unless all of these are texts: what is none could not be read back from a log."""
    if faults := _no_texts(given):
        raise MisconfiguredError(*faults)


def text_faults(given: Mapping[str, object]) -> list[str]:
    """Which of these are no texts, or none that could be read back once they are recorded."""
    found = _no_texts(given)
    for what, text in given.items():
        if isinstance(text, str) and not text.isascii() and not _keepable(text):
            found.append(f"{what} holds half a character (a lone surrogate), which no store can keep")
    return found


def _no_texts(given: Mapping[str, object]) -> list[str]:
    wrong = ((what, text) for what, text in given.items() if not isinstance(text, str))
    return [f"{what} must be a str, not {type(text).__name__}" for what, text in wrong]


def _keepable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _variables(context: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The context as a log gives it back, which also makes it ours; and what is wrong with it."""
    if not isinstance(context, Mapping):
        return {}, [f"the context must be a mapping of names to values, not {type(context).__name__}"]
    faults = [f"the context variable {name!r} is reserved; rename it" for name in sorted(METADATA & context.keys())]
    try:
        return msgspec.json.decode(msgspec.json.encode(dict(context))), faults
    except (TypeError, ValueError, RecursionError) as error:
        return {}, [*faults, f"the context must be what JSON can hold: {error}"]
