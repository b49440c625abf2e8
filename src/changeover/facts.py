"""Records that everyone may hold: what a handoff was, what a run gave, why it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from changeover.ids import cleanup_key, request_id

CALENDAR = (-62_135_424_000.0, 253_402_128_000.0)
"""Between these every time zone has a date."""


def dated(seconds: float) -> datetime:
    """A time as a date, in UTC; what is further away than the calendar reaches is where that ends."""
    first, last = CALENDAR
    return datetime.fromtimestamp(min(max(seconds, first), last), UTC)


class Mode(StrEnum):
    """How a task passes: for good, or with a result coming back."""

    TRANSFER = "transfer"
    DELEGATE = "delegate"


class State(StrEnum):
    """Where a handoff stands."""

    PENDING = "PENDING"
    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    WORKING = "WORKING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    RETURNED = "RETURNED"


class Usage(Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens that models read and wrote, and what they cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cost: float | None = None
    """In US dollars; None while there are requests means that nobody knows."""

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        tokens = (self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)
        # No request costs nothing, whatever its cost says; one unknown price makes the sum unknown.
        costs = [usage.cost for usage in (self, other) if usage.requests]
        known = [cost for cost in costs if cost is not None]
        return Usage(*tokens, self.requests + other.requests, sum(known) if known and known == costs else None)


ONE_REQUEST = Usage(requests=1)
"""A reply of which nothing more is known."""


class Share(Struct, frozen=True, omit_defaults=True, gc=False):
    """What one agent spent of what a run did."""

    handoffs: int = 0
    """Those that it made, or tried to."""
    turns: int = 0
    retries: int = 0
    usage: Usage = Usage()

    @property
    def tokens(self) -> int:
        return self.usage.total_tokens

    @property
    def cost(self) -> float | None:
        """In US dollars: 0 if no model was called, None if the price of one call is unknown."""
        return self.usage.cost if self.usage.requests else 0.0

    def __add__(self, other: Share) -> Share:
        handoffs, turns = self.handoffs + other.handoffs, self.turns + other.turns
        return Share(handoffs, turns, self.retries + other.retries, self.usage + other.usage)


class Ledger(Struct, frozen=True, gc=False):
    """What a run has spent so far, its delegates and branches included."""

    handoffs: int = 0
    turns: int = 0
    tokens: int = 0
    cost: float | None = None
    agents: int = 0
    retries: int = 0
    elapsed: float = 0.0
    by_agent: Mapping[str, Share] = {}
    """Who spent what of it."""


class HandoffRecord(Struct, frozen=True, gc=False):
    """One handoff, as people read it."""

    id: str
    sender: str
    receiver: str
    message: str
    mode: Mode
    state: State
    at: float
    """When it was offered, in seconds since the epoch."""
    tool: str
    variables: dict[str, Any]
    strategy: str
    run_id: str
    task_id: str
    """The task that the receiver got."""
    error: str = ""
    """Why it was rejected or returned, or ended without what it was made for."""
    attempt: int = 1
    """The how-manieth try this is to find somebody for the task."""
    retry_of: str = ""
    """The handoff that was declined before."""
    tokens_before: int = 0
    """How many tokens the sender's context had, as far as it was said."""
    tokens_after: int = 0
    """How many of them, or in place of them, the receiver got."""
    strategy_error: str = ""
    """Why the receiver got only the last messages instead of what its strategy makes of them."""

    @property
    def timestamp(self) -> datetime:
        """When it was offered."""
        return dated(self.at)


class Expected(Struct, frozen=True, omit_defaults=True, gc=False):
    """What the result of a handoff has to be like, as far as it can be written down."""

    schema: dict[str, Any] = {}
    """A JSON schema; any form will do if it is empty."""
    criteria: tuple[str, ...] = ()
    """What makes it a good one, in words."""


class Rollback(Struct, frozen=True, gc=False):
    """A handoff that was undone, as whoever cleans up after it is told."""

    handoff: HandoffRecord
    reason: str
    by: str
    partial_result: str
    """What the receiver had said last."""

    @property
    def idempotency_key(self) -> str:
        """The same however often it is tried."""
        return cleanup_key(self.handoff.id)


class Handed(Struct, frozen=True, gc=False):
    """The handoff under which an agent works: what its metadata and its metrics are made of."""

    sender: str
    message: str
    tool: str
    instructions: str
    tokens: int
    elapsed: float
    retries: int
    path: list[str]
    """Every agent of the conversation in turn; it grows, so `hops` says how much of it was walked by then."""
    hops: int
    expected: Expected | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Which context variables are shown to its model, and which are not."""
    asked: bool = False
    """The sender waits for the result."""


class DelegateResult(Struct, frozen=True, omit_defaults=True, gc=False):
    """What came back from a delegate: to a model it is the result of its call."""

    handoff_id: str
    agent: str
    success: bool
    response: str = ""
    summary: str = ""
    """The beginning of a long response."""
    iterations: int = 0
    tool_calls: int = 0
    duration: float = 0.0
    error: str = ""
    note: str = ""
    """What its sender should know of the call itself."""


RequestKind = Literal["approval", "permission", "escalation", "task"]
"""Why a person is asked: may it be done, may the receiver take it, nobody wants it, it is the person's own task."""


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """Something that a person has to decide before it goes on."""

    conversation: str
    call: str
    agent: str
    tool: str
    arguments: dict[str, Any]
    receiver: str = ""
    """Who would take over or be asked, if it is a handoff."""
    message: str = ""
    at: float = 0.0
    expires_at: float | None = None
    on_expiry: Literal["reject", "approve"] = "reject"
    kind: RequestKind = "approval"
    roles: tuple[str, ...] = ()
    """Who decides has to have one of these; without any, anybody may."""

    @property
    def id(self) -> str:
        """Names the very request that was shown: were anything in it different, so would be its id."""
        return request_id(self.conversation, self.call, self.digest)

    @property
    def digest(self) -> str:
        # Only if there are any: what was asked before there were roles keeps its id.
        roles = (self.roles,) if self.roles else ()
        shown = (self.kind, self.agent, self.tool, self.arguments, self.receiver, self.message, *roles)
        return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


class Ticket(Struct, frozen=True, kw_only=True, gc=False):
    """Work that waits until somebody claims it, or that somebody has claimed."""

    id: str
    """Of the handoff or, where a user speaks to an agent that is served by claims, of the run's task."""
    agent: str
    conversation: str
    """Where it was asked for."""
    place: str
    """Where the agent works on it: a delegate in a conversation of its own."""
    root: str
    priority: int = 0
    deadline: float | None = None
    """Until when somebody has to have taken it."""
    at: float = 0.0
    """Since when it waits."""

    @property
    def kind(self) -> Literal["claim"]:
        """What is awaited, as requests to people say it too."""
        return "claim"

    @property
    def receiver(self) -> str:
        """Whom the work waits for."""
        return self.agent


class TicketStatus(Struct, frozen=True, kw_only=True, gc=False):
    """How a ticket stands."""

    id: str
    agent: str
    state: State
    conversation_id: str
    owner: str = ""
    """Who holds it now."""
    attempts: int = 0
    """How often it was taken since something was last heard of it."""
    rests: bool = False
    """Whether its agent waits for a person or a delegate."""
    at: float = 0.0
    """Since when it waits, or waited."""
    deadline: float | None = None
    reason: str = ""


NoTakers: TypeAlias = Literal["return", "queue"]
"""What becomes of a task that nobody wants: it comes back, or it waits in the queue of whoever fits best."""


class HandoffResult(Struct, frozen=True, kw_only=True):
    """What came of a package that code offered."""

    handoff_id: str
    agent: str
    """Who took it, or was asked last."""
    state: State
    result: str = ""
    reason: str = ""
    """Why nobody took it, or whom it waits for."""
    error: str = ""
    """Why whoever took it could not do it."""
    summary: str = ""
    iterations: int = 0
    duration: float = 0.0
    conversation_id: str = ""
    pending: list[ApprovalRequest | Ticket] = field(default_factory=list)
    """What a person has to decide, or a worker to take, before it goes on."""

    @property
    def requests(self) -> list[ApprovalRequest]:
        """What people have to decide, of what is pending."""
        return [each for each in self.pending if isinstance(each, ApprovalRequest)]


class Spent(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a delegate and everybody below it cost the run."""

    turns: int = 0
    handoffs: int = 0
    retries: int = 0
    usage: Usage = Usage()
    agents: tuple[str, ...] = ()
    waited: float = 0.0
    """For how many seconds people were awaited."""
    shares: dict[str, Share] = {}
    """Who spent what of it."""


Status = Literal["completed", "waiting", "cancelled", "failed"]


class RunResult(Struct, frozen=True, dict=True, kw_only=True):
    """What one run gave."""

    output: str
    final_agent: str
    run_id: str
    conversation_id: str
    status: Status
    handoff_chain: list[HandoffRecord] = field(default_factory=list)
    variables: Mapping[str, Any] = field(default_factory=dict)
    handed: Handed | None = None
    artifacts: Mapping[str, str | None] = field(default_factory=dict)
    workflow_state: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = Usage()
    cost: float | None = None
    """In US dollars: 0 if no model was called, None if the price of one call is unknown."""
    ledger: Ledger = Ledger()
    pending: list[ApprovalRequest | Ticket] = field(default_factory=list)
    """What is awaited while the status is "waiting": people's decisions, and workers."""
    fell_back: bool = False
    returned: tuple[DelegateResult, ...] = ()
    """What came back, if it was code that delegated."""

    @property
    def requests(self) -> list[ApprovalRequest]:
        """What people have to decide, of what is pending."""
        return [each for each in self.pending if isinstance(each, ApprovalRequest)]

    @cached_property
    def context(self) -> dict[str, Any]:
        """The context variables, with the metadata of the last handoff beside them."""
        # Made when asked for: the chain of a long conversation would cost every run a copy.
        return whole_context(self.variables, self.handed)


def whole_context(variables: Mapping[str, Any], handed: Handed | None) -> dict[str, Any]:
    """The variables with the metadata of the last handoff beside them; without one there is none."""
    # A copy through and through: whoever is given it may do with it what they like.
    own: dict[str, Any] = deepcopy(dict(variables)) if variables else {}
    if handed is None:
        return own
    return {
        **own,
        "_handoff_from": handed.sender,
        "_handoff_tool": handed.tool,
        "_handoff_instructions": handed.instructions,
        "_handoff_chain": handed.path[: handed.hops],
    }
