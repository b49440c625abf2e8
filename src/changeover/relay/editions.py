"""Editions: a team as code and store declared it together at each edition of the store's declarations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from changeover.errors import MisconfiguredError
from changeover.relay.ports.declarations import Declaration, Declarations
from changeover.relay.ports.world import World

Unite: TypeAlias = Callable[[int, Sequence[Declaration]], World]
"""The team of this edition, which has these rows; raises MisconfiguredError if they are no team."""

logger = logging.getLogger("changeover.team")

KEPT = 8
"""How many editions are kept: those of runs that were under way when declarations changed."""


class Editions:
    """The declared team by edition. Edition 0 is what code declares; every other one is made on first use."""

    def __init__(self, code: World, unite: Unite | None = None) -> None:
        self._unite = unite
        self.declare(code)

    def declare(self, code: World) -> None:
        """Code declares this team from now on."""
        self._code = self.newest = code
        self.seen = 0
        """The last edition that was looked at; `newest` is older if that is no team for this process."""
        self._worlds: dict[int, World] = {}

    async def look(self, declarations: Declarations) -> World:
        """The team of the store's last edition. If that is no team for this process, the one before holds."""
        edition = await declarations.edition() if self._unite is not None else 0
        if edition != self.seen:
            try:
                self.newest = await self.at(edition, declarations)
            except MisconfiguredError as error:
                # Rows are checked when they are written, but other code may have checked them.
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
        """The teams of all editions that are kept."""
        return [self._code, *self._worlds.values()]
