"""Editions: a team as code and store declared it together at each edition of the store's declarations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from changeover.errors import MisconfiguredError
from changeover.relay.ports.declarations import Declaration, Declarations
from changeover.relay.ports.world import World

Unite: TypeAlias = Callable[[int, Sequence[Declaration]], World]
"""Makes the team of an edition from its rows; raises MisconfiguredError if they do not make a team."""

logger = logging.getLogger("changeover.team")

KEPT = 8
"""Size of the cache of editions: runs that were under way when declarations changed need the older ones."""


class Editions:
    """The declared team by edition. Edition 0 is what code declares; every other one is made on first use."""

    def __init__(self, code: World, unite: Unite | None = None) -> None:
        self._unite = unite
        self.declare(code)

    def declare(self, code: World) -> None:
        """Replace the team that code declares."""
        self._code = self.newest = code
        self.seen = 0
        """The last edition that was read; `newest` is older if its rows do not make a team in this process."""
        self._worlds: dict[int, World] = {}

    async def look(self, declarations: Declarations) -> World:
        """The team of the store's last edition. If its rows do not make a team here, the team before it stays."""
        edition = await declarations.edition() if self._unite is not None else 0
        if edition != self.seen:
            try:
                self.newest = await self.at(edition, declarations)
            except MisconfiguredError as error:
                # Rows are checked when they are written, but a process with other code may have done that.
                logger.error("the declarations in the store do not fit this team, which goes on as it was: %s", error)
            self.seen = edition
        return self.newest

    async def at(self, edition: int, declarations: Declarations) -> World:
        """The team of this edition."""
        if not edition or self._unite is None:
            return self._code
        world = self._worlds.pop(edition, None)
        if world is None:
            world = self._unite(edition, await declarations.at_edition(edition))
        self._worlds[edition] = world  # at the end: the least recently used come first
        if len(self._worlds) > KEPT:
            del self._worlds[next(iter(self._worlds))]
        return world

    @property
    def worlds(self) -> list[World]:
        """The teams of all editions in the cache."""
        return [self._code, *self._worlds.values()]
