"""SqlLists: reads the read models of a database as records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Unpack

import msgspec

from changeover.errors import ConversationNotFound
from changeover.facts import HandoffRecord
from changeover.ids import below, split_run, split_task
from changeover.relay.context_flow import ValueFlow, context_flow
from changeover.relay.events import Entry
from changeover.relay.ports.lists import (
    EVERYTHING,
    PAGE,
    MessageRow,
    Page,
    Paging,
    R,
    Record,
    RunRow,
    TaskRow,
    check_filters,
    order_of,
)
from changeover.relay.ports.tables import Tried
from changeover.relay.result import handoffs_in
from changeover.relay.sanitize import text_of
from changeover.stores.codec import check_order, entry_of
from changeover.stores.sql.database import Call, Row
from changeover.stores.sql.measures import SqlMeasures
from changeover.stores.sql.page_query import Listing, page
from changeover.stores.sql.statements import statements
from changeover.stores.sql.trials import TrialReader

JSON = frozenset({"context", "variables", "arguments", "roles", "detail"})
"""Columns whose text is JSON."""

Ask = Callable[[Call], Awaitable[list[Row]]]
"""Runs a query."""


class SqlLists:
    """Reads with one function for queries whose answer is small, and another for those that may be large."""

    def __init__(self, dialect: str, small: Ask, large: Ask) -> None:
        self._dialect, self._small, self._large = dialect, small, large

    async def listed(
        self,
        kind: type[R],
        wanted: Mapping[str, str] = EVERYTHING,
        within: str | None = None,
        roots: bool = False,
        **paging: Unpack[Paging],
    ) -> Page[R]:
        check_filters(kind, wanted)
        order, limit = order_of(kind, paging.get("sort", "")), paging.get("limit", PAGE)
        values: dict[str, Any] = {**_placed(kind, wanted), "limit": limit + 1}
        listing = Listing(
            kind,
            order,
            frozenset(values.keys() - {"limit"}),
            wanted.get("status", ""),
            within is not None,
            roots,
            bool(wanted.get("user")),
            bool(cursor := paging.get("cursor")),
        )
        if within is not None:
            prefix = below(within)
            values |= {"conversation_": within, "prefix_": prefix, "length_": len(prefix)}
        if cursor:
            values |= {f"after_{index}": value for index, value in enumerate(order.key(cursor))}
        # A search for a text may have to look at many rows.
        ask = self._large if "text" in wanted else self._small
        rows = await ask(page(self._dialect, listing)(**values))
        fields = len(kind.__struct_fields__)
        found = Page(_record(kind, row[:fields]) for row in rows[:limit])
        if len(rows) > limit:
            found.next = order.cursor(rows[limit - 1][fields:])
        return found

    async def one(self, kind: type[R], id: str) -> R | None:
        return next(iter(await self.listed(kind, {"id": id}, limit=1)), None)

    async def tree(self, conversation: str) -> list[Entry]:
        prefix = below(conversation)
        tree = statements(self._dialect).feed.tree(conversation=conversation, prefix=prefix, length=len(prefix))
        logs: dict[str, list[Entry]] = {}
        entries = [entry_of(row) for row in await self._small(tree)]
        for entry in entries:
            logs.setdefault(entry.conversation, []).append(entry)
        for id, log in logs.items():
            check_order(id, log)
        return entries

    async def handoffs(self, conversation: str) -> list[HandoffRecord]:
        if not (entries := await self.tree(conversation)):
            raise ConversationNotFound(conversation)
        return handoffs_in(entries)

    async def context_flow(self, conversation: str) -> list[ValueFlow]:
        if not (entries := await self.tree(conversation)):
            raise ConversationNotFound(conversation)
        return context_flow(entries)

    @property
    def measures(self) -> SqlMeasures:
        return SqlMeasures(statements(self._dialect).measures, self._large)

    @property
    def trials(self) -> Tried:
        return TrialReader(statements(self._dialect).trials, self._large)


def _record(kind: type[R], row: Row) -> R:
    named = zip(kind.__struct_fields__, row, strict=True)
    return kind(**{name: msgspec.json.decode(value) if name in JSON else value for name, value in named})


PLACES: dict[type[Record], dict[str, Callable[[str], tuple[str, str]]]] = {
    TaskRow: {"id": split_task, "run_id": split_run},
    RunRow: {"id": split_run},
    MessageRow: {"task_id": split_task},
}
"""Ids that begin with that of their conversation, by which an index finds them."""


def _placed(kind: type[Record], wanted: Mapping[str, str]) -> dict[str, str]:
    """The filters, with the conversation that they imply."""
    texts = {name: text_of(value).replace("\0", "\ufffd") for name, value in wanted.items()}
    for name, split in PLACES.get(kind, {}).items():
        if name in texts:
            texts.setdefault("conversation", split(texts[name])[0])
    return texts
