"""Statements that go to the database together, so that a transaction takes few round trips."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from changeover.stores.sql.database import Call, Row, Session

Step = tuple[Call, Callable[[list[Row]], None]]
"""A statement, and what is done with what it finds."""


class Round:
    """What a transaction is going to ask next; in the order in which it was asked for."""

    __slots__ = ("_later", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self._later: list[Step] = []

    def later(self, call: Call, heed: Callable[[list[Row]], None] = lambda rows: None) -> None:
        """Ask this with what is asked next."""
        self._later.append((call, heed))

    def run(self, calls: Sequence[Call] = ()) -> list[list[Row]]:
        """Ask these, after what was put off; what these find."""
        if not self._later and not calls:
            return []
        later, self._later = self._later, []
        found = self.session.run([*(call for call, _ in later), *calls])
        for (_, heed), rows in zip(later, found, strict=False):
            heed(rows)
        return found[len(later) :]
