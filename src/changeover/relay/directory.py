"""What is known of agents when somebody is looked for: who there is, how much each has to do, and how well it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from changeover.routing.learning import Learned
from changeover.routing.load import Load
from changeover.routing.registry import Registry


class Directory(Protocol):
    """What lies outside a conversation's log: it is read by an effect, and what was chosen by it is an event."""

    @property
    def registry(self) -> Registry:
        """Everybody who can be found now."""
        ...

    async def loads(self, agents: Sequence[str]) -> Mapping[str, Load]:
        """How much these have to do now."""
        ...

    async def learned(self, capability: str) -> Learned:
        """What is known of those who did tasks that needed this."""
        ...
