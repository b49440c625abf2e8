"""What a model reads: its tokens, its text, and the addresses in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from changeover.handoffs.tokens import count, weight
from changeover.messages import Message, User

ADDRESS = re.compile(r"context://[0-9a-f]+")


def read_weight(message: Message) -> int:
    """The tokens of a message, with what its files hold: a model reads that too."""
    return weight(message) + count(_attached(message))


def read_text(messages: Sequence[Message]) -> str:
    """All that stands in some messages."""
    return "\n".join(f"{each.text}\n{_attached(each)}" for each in messages)


def addresses(messages: Sequence[Message]) -> list[str]:
    """Where more can be fetched, according to some messages."""
    return list(dict.fromkeys(ADDRESS.findall(read_text(messages))))


def _attached(message: Message) -> str:
    files = message.files if isinstance(message, User) else ()
    return "\n".join(file.data.decode() for file in files)
