"""Profiles as a store keeps them, in the core's words: what people say of agents beside what code declares."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from changeover.routing.profile import Profile


class KeptAgent(Struct, frozen=True):
    """What a store says of one agent."""

    id: str
    profile: Profile | None = None
    """None leaves it as it was declared."""
    enabled: bool = True
    removed: bool = False
    updated_at: float = 0.0
    """In seconds since the epoch, by the clock of the store."""

    @property
    def absent(self) -> bool:
        """Whether nothing is handed to it."""
        return self.removed or not self.enabled


class Agents(Protocol):
    """What a store says of agents, to everybody who shares it."""

    async def all(self) -> list[KeptAgent]:
        """Everything it says, by the ids; those that were removed too."""
        ...

    async def put(self, profile: Profile) -> None:
        """Keep this profile, in the place of another with its id; one that was removed is there again."""
        ...

    async def switch(self, id: str, enabled: bool) -> None:
        """Enable or disable an agent, whoever declared it; one that was removed is there again."""
        ...

    async def remove(self, id: str) -> None:
        """Leave an agent out, whoever declared it."""
        ...

    async def version(self) -> int:
        """A number that grows with every change; 0 if there was none."""
        ...
