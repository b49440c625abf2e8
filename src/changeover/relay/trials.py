"""What a log can say about experiments: what came of the conversations that took part."""

from __future__ import annotations

from typing import Protocol

from changeover.routing.outcomes import Measured


class Tried(Protocol):
    """Conversations that took part in experiments; each is the root of its tree."""

    async def measured(self, experiment: str) -> list[Measured]:
        """What came of each conversation that is over, by their ids: whether its last run completed, what its whole
        tree spent, and how long its own runs took."""
        ...

    async def variants(self) -> dict[str, list[str]]:
        """Which variants were ever chosen, by experiment; also where conversations are still under way."""
        ...


class Trials(Tried, Protocol):
    """The same, where something can be added."""

    async def measure(self, conversation: str, name: str, value: float, at: float) -> None:
        """Keep what somebody measured of a root; what was measured under this name before is forgotten. Raise
        ConversationNotFound if there is no such root."""
        ...
