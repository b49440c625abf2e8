"""Placement: which process works on a conversation. The local engine leaves that to the store; others decide it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from changeover.relay.commands import Command

if TYPE_CHECKING:
    from changeover.engines.local.conversation import Conversation


class Placement(Protocol):
    """Says which conversations a dispatcher works on, and calls the processes that work on the others."""

    @property
    def keeps_time(self) -> bool:
        """True if a conversation without an owner is taken up when its next deadline passes."""
        ...

    def elsewhere(self, conversation: str) -> bool:
        """True if another process or loop has to work on a conversation."""
        ...

    def passes_on(self, conversation: str) -> bool:
        """True if this process decides what follows an input to a conversation, and another one performs it."""
        ...

    def admits(self, live: Conversation, commands: Sequence[Command]) -> bool:
        """True if this process begins these commands; else it gives the conversation up, and calls another one."""
        ...

    def call(self, live: Conversation) -> None:
        """An input was left for the process that works on a conversation, or a caller waits for it: call it."""
        ...

    def recalled(self, conversation: str) -> bool:
        """A conversation is unfinished, and no live process owns it. True if the process whose turn it is was called;
        False if this one has to take it up."""
        ...

    def noticed(self, live: Conversation) -> None:
        """Commands in flight have changed, so that nothing may be left to do here; or a caller has come to wait."""
        ...

    async def heard(self, live: Conversation) -> None:
        """Another process has recorded something in the tree of a conversation for which callers wait."""
        ...

    async def silent(self, live: Conversation) -> bool:
        """Nothing was heard for a while of a conversation that another process works on, and for which callers wait.
        True if that is in order; False if this process has to take it over. Raises EngineError if it cannot go on."""
        ...


class InProcess:
    """Every process works on what it can own in the store, and takes over what its owner has left."""

    keeps_time = False

    def __init__(self, elsewhere: Callable[[str], bool] = lambda conversation: False) -> None:
        self.elsewhere = elsewhere

    def passes_on(self, conversation: str) -> bool:
        return False

    def admits(self, live: Conversation, commands: Sequence[Command]) -> bool:
        return True

    def call(self, live: Conversation) -> None:
        """The owner hears of an input by itself."""

    def recalled(self, conversation: str) -> bool:
        return False

    def noticed(self, live: Conversation) -> None:
        """What rests is released when its callers have been told."""

    async def heard(self, live: Conversation) -> None:
        """Whether it rests is found out when this process takes it over."""

    async def silent(self, live: Conversation) -> bool:
        return False
