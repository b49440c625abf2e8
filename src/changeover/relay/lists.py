"""Lists: the records of the read models, and the port by which teams, the CLI and a server read them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from changeover.facts import HandoffRecord
from changeover.relay.events import Entry
from changeover.relay.tables import Measures, Tried


class ConversationRow(Struct, frozen=True, kw_only=True):
    """A conversation; the `turns` and `handoffs` of a root are what its tree spent in the last run."""

    id: str
    root: str
    parent: str | None
    team: str
    status: str
    agent: str
    turns: int
    handoffs: int
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


Record = ConversationRow | TaskRow | MessageRow | HandoffRow | ApprovalRow
R = TypeVar("R", ConversationRow, TaskRow, MessageRow, HandoffRow, ApprovalRow)

PAGE = 200
"""Records that a list has at most, unless the caller says otherwise."""
EVERYTHING: Mapping[str, str] = MappingProxyType({})


class Lists(Protocol):
    """Reads a store; writes nothing."""

    async def listed(
        self,
        kind: type[R],
        wanted: Mapping[str, str] = EVERYTHING,
        within: str | None = None,
        limit: int = PAGE,
        roots: bool = False,
    ) -> list[R]:
        """The newest records of a kind; messages in the order of their conversation.

        `wanted` filters by column, `within` by conversation and all below it; `roots` leaves out the conversations of
        delegates.
        """
        ...

    async def one(self, kind: type[R], id: str) -> R | None:
        """The record with this id."""
        ...

    async def tree(self, conversation: str) -> list[Entry]:
        """The entries of a conversation and of all below it, by seq."""
        ...

    async def handoffs(self, conversation: str) -> list[HandoffRecord]:
        """Every handoff of a conversation and its delegates, in the order of their offers.

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
