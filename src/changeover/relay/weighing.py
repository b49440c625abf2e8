"""How many tokens a thread has, counted once for each message."""

from __future__ import annotations

from changeover.handoffs.tokens import weight
from changeover.messages import Message


class Scale:
    """Weighs a list that only grows. What it remembers decides nothing: it spares counting again."""

    __slots__ = ("_length", "_thread", "_tokens")

    def __init__(self) -> None:
        self._thread: list[Message] | None = None
        self._length = self._tokens = 0

    def weigh(self, thread: list[Message]) -> int:
        """The tokens of all its messages; only those that came since the last time are counted."""
        if thread is not self._thread:
            self._thread, self._length, self._tokens = thread, 0, 0
        if new := thread[self._length :]:
            self._tokens += weight(*new)
            self._length = len(thread)
        return self._tokens
