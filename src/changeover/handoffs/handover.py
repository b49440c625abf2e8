"""Handover: all that a strategy may make the receiver's context of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from changeover.handoffs.chapters import Chapter
from changeover.messages import Message


class Handover(Struct, frozen=True, kw_only=True):
    """What the sender has, and who is to get it."""

    sender: str
    receiver: str
    purpose: str = ""
    """What the receiver is there for, as it was declared."""
    capabilities: tuple[str, ...] = ()
    message: str = ""
    """What the sender says to the receiver."""
    request: str = ""
    """What the user asked for."""
    messages: Sequence[Message] = ()
    """What was said since the last chapter, oldest first."""
    chapters: tuple[Chapter, ...] = ()
    """What was packed before, oldest first."""
    variables: Mapping[str, Any] = {}
    artifacts: Mapping[str, str | None] = {}
    workflow_state: Mapping[str, Any] = {}
