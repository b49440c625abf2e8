"""What a caller says, checked: all that is wrong with it is raised together, before anything is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from changeover.errors import MisconfiguredError
from changeover.guards.limits import Limits
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
    faults = [*_text_faults(text), *faults, *(limits.faults() if limits else ())]
    if faults:
        raise MisconfiguredError(*faults)
    return UserSpoke(str(text), user or "", agent or "", variables, limits, correlation_id or "")


def _text_faults(text: object) -> list[str]:
    if not isinstance(text, str):
        return [f"what the user says must be a str, not {type(text).__name__}"]
    if not text.isascii() and not _keepable(text):
        return ["what the user says holds half a character (a lone surrogate), which no store can keep"]
    return []


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
