"""How much of a conversation a receiver sees. What is left out is left out of its view, never of the record."""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct


class Full(Struct, frozen=True):
    """Everything the sender saw."""

    name = "full"


class MessageOnly(Struct, frozen=True):
    """The user's request and the sender's message, nothing else."""

    name = "message_only"


class Recent(Struct, frozen=True):
    """The last messages, as many as it says."""

    messages: int = 5

    name = "recent"


def recent_of(strategy: Strategy) -> int:
    """How many of the last messages are shown by it; all, if it is negative."""
    match strategy:
        case Full():
            return -1
        case MessageOnly():
            return 0
        case Recent():
            return strategy.messages
        case _:
            assert_never(strategy)


Strategy = Full | MessageOnly | Recent
