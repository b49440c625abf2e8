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
        """Call the process that works on a conversation: an input was appended for it, or a caller waits."""
        ...

    def recalled(self, conversation: str) -> bool:
        """Call the process that has to take up an unfinished conversation without a live owner. False if that is this
        process."""
        ...

    def noticed(self, live: Conversation) -> None:
        """Called when commands in flight have changed, so that nothing may be left to do here, or a caller waits."""
        ...

    async def heard(self, live: Conversation) -> None:
        """Called when another process has recorded something in the tree of a conversation for which callers wait."""
        ...

    async def silent(self, live: Conversation) -> bool:
        """Called when another process works on a conversation for which callers wait, and has recorded nothing for a
        while. False if this process has to take it over. Raises EngineError if it cannot go on."""
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
        """Do nothing: the owner of a conversation finds inputs in the log itself."""

    def recalled(self, conversation: str) -> bool:
        return False

    def noticed(self, live: Conversation) -> None:
        """Do nothing: `Waits` releases a conversation that only waits, once its callers know what is pending."""

    async def heard(self, live: Conversation) -> None:
        """Do nothing: this process sees what a conversation waits for when it takes it over."""

    async def silent(self, live: Conversation) -> bool:
        return False
