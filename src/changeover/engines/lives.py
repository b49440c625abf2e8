"""The conversations in memory: those at work, and as many quiet ones as are worth keeping."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import islice

from changeover.engines.local.conversation import Live
from changeover.errors import EngineError
from changeover.relay.ports import Log
from changeover.relay.state import State

KEPT = 1_024

# Our own: a program that seeds Python's gets the same numbers again. Not os.urandom: that is a system call each time.
_RANDOM = random.Random()
if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_RANDOM.seed)


class Lives:
    """Loads conversations from the log, and forgets those that have been quiet for longest."""

    def __init__(self, log: Log, kept: int = KEPT) -> None:
        self._log, self._kept = log, kept
        self._lives: dict[str, Live] = {}

    def new(self) -> Live:
        """A conversation that nobody can have begun: its id is made here, and the log need not be asked."""
        conversation = f"{_RANDOM.getrandbits(64):016x}"
        return self._keep(conversation, Live(State(conversation)))

    async def get(self, conversation: str) -> Live:
        live = self._lives.pop(conversation, None)
        if live is None:
            entries = await self._log.read(conversation)
            # Another task may have loaded it while this one was reading.
            live = self._lives.pop(conversation, None) or Live(State(conversation).fold(entries))
        return self._keep(conversation, live)

    def __iter__(self) -> Iterator[Live]:
        return iter(list(self._lives.values()))

    def here(self, conversation: str) -> Live | None:
        """The conversation, if it is in memory."""
        return self._lives.get(conversation)

    async def refresh(self, live: Live) -> None:
        """Fold again what the log says. The caller holds the lock."""
        entries = await self._log.read(live.state.id)
        live.catch_up(State(live.state.id).fold(entries), entries)

    def drop(self, root: str) -> None:
        """Know nothing of a conversation and those below it."""
        for conversation in [id for id in self._lives if id.partition("/")[0] == root]:
            del self._lives[conversation]

    def fail(self, error: EngineError) -> None:
        """Tell everybody who still waits, and forget all."""
        for live in self._lives.values():
            live.fail(error)
        self._lives.clear()

    def _keep(self, conversation: str, live: Live) -> Live:
        if len(self._lives) >= self._kept:
            self._forget()
        self._lives[conversation] = live  # at the end: the oldest stand first
        return live

    def _forget(self) -> None:
        for conversation, live in list(islice(self._lives.items(), self._kept // 8)):
            if live.quiet:
                del self._lives[conversation]
