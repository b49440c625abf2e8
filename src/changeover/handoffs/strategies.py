"""How much of a conversation a receiver sees. What is left out is left out of its view, never of the record."""

from __future__ import annotations

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


Strategy = Full | MessageOnly | Recent
