"""Read models in the transaction of an append: what is looked up for them, and what is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from changeover.stores.codec import decode
from changeover.stores.database import Call, Row
from changeover.stores.jobs import Append
from changeover.stores.lookups import Known, Leg, Wants, wants
from changeover.stores.projections import project
from changeover.stores.statements import Statements


class View:
    """One append as the read models see it."""

    def __init__(self, sql: Statements, append: Append) -> None:
        self._sql, self._append = sql, append
        self._wants: Wants = wants(append.entry)

    def asks(self) -> list[Call]:
        """What must be known before anything can be written."""
        entry, views, wanted = self._append.entry, self._sql.views, self._wants
        calls = []
        if wanted.leg:
            leg = views.leg_with_texts if wanted.texts else views.leg
            calls.append(leg(conversation=entry.conversation))
        for position in wanted.events:
            calls.append(self._sql.log.entry_at(conversation=entry.conversation, position=position))
        for call in wanted.offers:
            calls.append(views.offer(id=f"{entry.conversation}:{call}"))
        return calls

    def writes(self, found: Iterator[Sequence[Row]]) -> list[Call]:
        """What is written, now that this is known; the entry has its seq by then."""
        append, statements = self._append, self._sql.views.writes
        writes = project(append.entry, append.events, self._known(found))
        return [statements[name].of(row) for name, row in writes]

    def _known(self, found: Iterator[Sequence[Row]]) -> Known:
        known = Known()
        if self._wants.leg and (rows := next(found)):
            known.leg = Leg(*rows[0])
        for position in self._wants.events:
            for row in next(found):
                known.events[position] = decode(row[5])[position - row[2]]
        for call in self._wants.offers:
            for merge, variables in next(found):
                known.offers[call] = {"merge": merge, "variables": variables}
        return known
