"""Lists: the records of the read models, and the port by which teams, the CLI and a server read them."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

import msgspec
from msgspec import Struct

from changeover.errors import MisconfiguredError
from changeover.facts import HandoffRecord
from changeover.relay.context_flow import ValueFlow
from changeover.relay.events import Entry
from changeover.relay.ports.tables import Measures, Tried
from changeover.relay.ports.tokens import Audited


class ConversationRow(Struct, frozen=True, kw_only=True):
    """A conversation; `handoffs` counts those that were accepted in it and in the conversations of its delegates.

    `user` is the user to whom the whole tree belongs: the one who spoke first, "" if the message named none. `title` is
    the beginning of the first message, or the name that a user gave later. `said_at` is the time of the last message.
    """

    id: str
    root: str
    parent: str | None
    team: str
    status: str
    agent: str
    handoffs: int
    created_at: float
    updated_at: float
    user: str
    title: str
    said_at: float


class RunRow(Struct, frozen=True, kw_only=True):
    """The run of one message, or of one package that code offered; the runs of delegates are parts of it."""

    id: str
    conversation: str
    first_agent: str
    agent: str
    """The agent that has or had the last of its tasks."""
    status: str
    tasks: int
    """Number of its tasks, without those of delegates."""
    input: str
    output: str | None
    created_at: float
    updated_at: float


class TaskRow(Struct, frozen=True, kw_only=True):
    """One agent's part of a run."""

    id: str
    master_id: str
    parent_id: str | None
    conversation: str
    run_id: str
    handoff_id: str | None
    agent: str
    status: str
    created_at: float
    updated_at: float
    context: dict[str, Any]
    input: str
    output: str | None


class MessageRow(Struct, frozen=True, kw_only=True):
    """A message, a call, a result or a note of a task."""

    seq: int
    kind: str
    agent: str | None
    call: str | None
    at: float
    content: str


class HandoffRow(Struct, frozen=True, kw_only=True):
    """A handoff, from its offer on."""

    id: str
    conversation: str
    run_id: str
    sender: str
    receiver: str
    mode: str
    state: str
    tool: str
    strategy: str
    sender_task_id: str
    task_id: str | None
    offered_at: float
    accepted_at: float | None
    ended_at: float | None
    deadline: float | None
    attempt: int
    retry_of: str | None
    variables: dict[str, Any]
    message: str
    reason: str | None
    tokens_before: int
    tokens_after: int
    strategy_error: str | None


class ApprovalRow(Struct, frozen=True, kw_only=True):
    """A request to a person."""

    id: str
    kind: str
    conversation: str
    root: str
    agent: str
    tool: str
    receiver: str
    message: str
    arguments: dict[str, Any]
    status: str
    requested_at: float
    expires_at: float | None
    on_expiry: str
    decided_at: float | None
    decided_by: str | None
    note: str | None
    roles: list[str]


Record = ConversationRow | RunRow | TaskRow | MessageRow | HandoffRow | ApprovalRow | Audited
R = TypeVar("R", ConversationRow, RunRow, TaskRow, MessageRow, HandoffRow, ApprovalRow, Audited)

PAGE = 200
"""Number of records on a page, unless the caller gives a limit."""
EVERYTHING: Mapping[str, str] = MappingProxyType({})

ORDERS: Mapping[type[Record], Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        ConversationRow: {"-said_at": ("said_at", "number"), "-created_at": ("number",)},
        RunRow: {"-created_at": ("created_at", "conversation", "position")},
        TaskRow: {"-created_at": ("created_at", "conversation", "position")},
        MessageRow: {"seq": ("seq", "part", "conversation")},
        HandoffRow: {"-offered_at": ("offered_at", "id")},
        ApprovalRow: {"-requested_at": ("requested_at", "id")},
        Audited: {"-at": ("at", "id")},
    }
)
"""The orders of each kind of record, the default one first, and the columns that make each of them unambiguous; "-"
means the greatest first. The same name without or with "-" is the reverse order."""

KEYS: Mapping[str, type[int] | type[str]] = MappingProxyType(
    {"number": int, "position": int, "seq": int, "part": int, "conversation": str, "id": str}
)
"""Types of the columns of orders; all others are times."""
MOST_NUMBER = 2**31
"""Upper bound of the numbers in a store, which no number reaches."""


class Order(Struct, frozen=True):
    """The order of a list."""

    sort: str
    """Its name, by which a caller asks for it."""
    columns: tuple[str, ...]
    descending: bool

    def cursor(self, key: Sequence[Any]) -> str:
        """The cursor of the page after the record with this key."""
        return urlsafe_b64encode(msgspec.json.encode([self.sort, *key])).decode().rstrip("=")

    def key(self, cursor: str) -> tuple[Any, ...]:
        """The key in a cursor; raises MisconfiguredError if it is not one of this order."""
        try:
            sort, *key = msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=list[Any])
            if sort == self.sort and self._fits(key):
                return tuple(key)
        except (ValueError, TypeError):  # no base64, or no JSON
            pass
        raise MisconfiguredError(f"cursor={cursor!r} is not a cursor of this list; give `next` of the page before")

    def _fits(self, key: list[Any]) -> bool:
        kinds = [KEYS.get(column, float) for column in self.columns]
        return len(key) == len(kinds) and all(_is(kind, value) for kind, value in zip(kinds, key, strict=True))


def _is(kind: type[Any], value: object) -> bool:
    match value:
        case bool() | None:
            return False
        case int() if kind is int:
            return abs(value) < MOST_NUMBER
        case str():
            return kind is str and "\0" not in value
        case _:
            return isinstance(value, int | float) and kind is float


def order_of(kind: type[Record], sort: str = "") -> Order:
    """The order of this name, by default the first of the kind; raises MisconfiguredError if there is none."""
    orders = ORDERS[kind]
    sort = sort or next(iter(orders))
    reverse = sort[1:] if sort.startswith("-") else f"-{sort}"
    if (columns := orders.get(sort, orders.get(reverse))) is None:
        possible = ", ".join(f"{each}, {each.removeprefix('-') if each[0] == '-' else f'-{each}'}" for each in orders)
        raise MisconfiguredError(f"sort={sort!r} is no order of this list; there are: {possible}")
    return Order(sort, columns, sort.startswith("-"))


FILTERS: Mapping[type[Record], frozenset[str]] = MappingProxyType(
    {
        ConversationRow: frozenset(("id", "root", "parent", "status", "agent", "user", "team", "title", "text")),
        RunRow: frozenset(("id", "conversation", "status", "agent", "first_agent", "user", "team")),
        TaskRow: frozenset(
            ("id", "master_id", "parent_id", "conversation", "run_id", "handoff_id", "agent", "status", "user", "team")
        ),
        MessageRow: frozenset(("conversation", "task_id", "kind", "agent", "call", "user", "team")),
        HandoffRow: frozenset(
            ("id", "conversation", "run_id", "sender", "receiver", "mode", "state", "tool", "user", "team")
        ),
        ApprovalRow: frozenset(
            ("id", "kind", "conversation", "root", "agent", "tool", "receiver", "status", "user", "team")
        ),
        Audited: frozenset(("id", "actor", "token", "action", "subject")),
    }
)
"""The filters of each kind of record."""


def check_filters(kind: type[Record], wanted: Mapping[str, str]) -> None:
    """Raise MisconfiguredError if a list of this kind has no such filter."""
    if unknown := wanted.keys() - FILTERS[kind]:
        names = ", ".join(sorted(unknown))
        raise MisconfiguredError(f"this list has no filter {names}; it has: {', '.join(sorted(FILTERS[kind]))}")


class Paging(TypedDict, total=False):
    """Which part of a list is read."""

    limit: int
    """Records of the page at most; by default PAGE."""
    sort: str
    """One of the orders of the kind, or its reverse."""
    cursor: str | None
    """`next` of the page before."""


class Page(list[R]):
    """One page of a list."""

    next: str | None = None
    """The cursor of the next page; None on the last one."""


class RecordLists(Protocol):
    """Reads the records and figures of a store; writes nothing."""

    async def listed(
        self,
        kind: type[R],
        wanted: Mapping[str, str] = EVERYTHING,
        within: str | None = None,
        roots: bool = False,
        **paging: Unpack[Paging],
    ) -> Page[R]:
        """Records of a kind: the newest first, messages in the order of their conversation.

        `wanted` filters by column; "user" is the one to whom the tree belongs, and "text" looks for a text in the
        titles and ids of conversations. `within` filters by conversation and all below it; `roots` leaves out the
        conversations of delegates. Raises MisconfiguredError if a filter, the order or the cursor does not fit.
        """
        ...

    async def one(self, kind: type[R], id: str) -> R | None:
        """The record with this id."""
        ...

    async def handoffs(self, conversation: str) -> list[HandoffRecord]:
        """Every handoff of a conversation and its delegates, in the order of their offers.

        Raise ConversationNotFound if there is no such conversation.
        """
        ...

    async def context_flow(self, conversation: str) -> list[ValueFlow]:
        """Which hop of a conversation and its delegates set or changed each context variable and artifact.

        Raise ConversationNotFound if there is no such conversation.
        """
        ...

    @property
    def measures(self) -> Measures:
        """The figures of metrics."""
        ...

    @property
    def trials(self) -> Tried:
        """The results of experiments."""
        ...


class Lists(RecordLists, Protocol):
    """Reads a store, its logs included; writes nothing."""

    async def tree(self, conversation: str) -> list[Entry]:
        """The entries of a conversation and of all below it, by seq."""
        ...
