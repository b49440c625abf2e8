"""Records that all rooms share: handoffs, results of runs, usage, approval requests, tickets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, Literal, TypeAlias

from msgspec import Struct, field
from typing_extensions import TypeVar

from changeover.copies import copied, copy_of, original
from changeover.ids import DEFAULT_TEAM, request_id

T_co = TypeVar("T_co", covariant=True, default=Any)
"""The type of an answer."""

CALENDAR = (-62_135_424_000.0, 253_402_128_000.0)
"""The first and last moment, in seconds since the epoch, that every time zone can show as a date."""


def dated(seconds: float) -> datetime:
    """The date in UTC of a time in seconds since the epoch, limited to CALENDAR."""
    first, last = CALENDAR
    return datetime.fromtimestamp(min(max(seconds, first), last), UTC)


class Mode(StrEnum):
    """How a task is handed over: TRANSFER for good, DELEGATE with a result that comes back."""

    TRANSFER = "transfer"
    DELEGATE = "delegate"


TRANSFER, DELEGATE = Mode.TRANSFER, Mode.DELEGATE
"""For code that every handoff passes: Python 3.11 takes far longer to look a member up in its enum."""


class State(StrEnum):
    """The state of a handoff; `changeover.handoffs.protocol` has the transitions."""

    PENDING = "PENDING"
    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    WORKING = "WORKING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    RETURNED = "RETURNED"


class Usage(Struct, frozen=True, omit_defaults=True, gc=False):
    """The tokens that model requests read and wrote, and their cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cost: float | None = None
    """In US dollars; None if the price of a request is unknown."""

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        tokens = (self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)
        # Without requests the cost is 0, whatever the field says; one unknown price makes the sum unknown.
        costs = [usage.cost for usage in (self, other) if usage.requests]
        known = [cost for cost in costs if cost is not None]
        return Usage(*tokens, self.requests + other.requests, sum(known) if known and known == costs else None)


ONE_REQUEST = Usage(requests=1)
"""The usage of a reply whose provider reports none."""


class Share(Struct, frozen=True, omit_defaults=True, gc=False):
    """One agent's share of what a run spent."""

    handoffs: int = 0
    """Handoffs that it made or tried to make."""
    turns: int = 0
    """Replies of its model."""
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
    """What a run has spent so far, including its delegates and branches."""

    handoffs: int = 0
    turns: int = 0
    """Replies of models."""
    tokens: int = 0
    cost: float | None = None
    """In US dollars; None if the price of a request is unknown."""
    agents: int = 0
    """Different agents that have worked."""
    retries: int = 0
    elapsed: float = 0.0
    """In seconds, without the time in which the run waited for people."""
    by_agent: Mapping[str, Share] = {}
    """The share of each agent, by its id."""


@copied("variables")
class HandoffRecord(Struct, frozen=True, gc=False):
    """One handoff, for display and audit."""

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
    """The id of the receiver's task."""
    error: str = ""
    """Why it was rejected or returned, or failed."""
    attempt: int = 1
    """The number of this offer of the task, from 1."""
    retry_of: str = ""
    """The id of the offer before this one, which was declined."""
    tokens_before: int = 0
    """The tokens of the sender's context; 0 if they were not counted."""
    tokens_after: int = 0
    """The tokens of the context that the receiver got."""
    strategy_error: str = ""
    """Why the context strategy failed, so that the receiver got the last messages instead."""
    sender_name: str = ""
    receiver_name: str = ""
    """The names of sender and receiver for display; their ids if they have none."""

    @property
    def timestamp(self) -> datetime:
        """When it was offered."""
        return dated(self.at)


class Expected(Struct, frozen=True, omit_defaults=True, gc=False):
    """What the sender of a handoff expects of its result."""

    schema: dict[str, Any] = {}
    """A JSON schema; empty allows any text."""
    criteria: tuple[str, ...] = ()
    """What makes the result a good one, in words."""
    sender: str = ""
    tool: str = ""
    """The agent and its tool that declare it: the task may have been handed on since. Empty in old logs."""


@copied("path")
class Handed(Struct, frozen=True, gc=False):
    """The handoff on which the active agent works; the source of its metadata and metrics."""

    sender: str
    message: str
    tool: str
    instructions: str
    tokens: int
    elapsed: float
    retries: int
    path: list[str]
    """The active agents of the conversation in order. The list is shared and grows: only the first `hops` count."""
    hops: int
    expected: Expected | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Patterns of the context variables that the agent's model sees, and does not see."""
    asked: bool = False
    """True if the sender waits for the result."""


class DelegateResult(Struct, frozen=True, omit_defaults=True, gc=False):
    """The result of a delegate; the sender's model reads it as the result of its call."""

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
    """A remark about the call for the sender's model."""
    author: str = ""
    """The agent that gave the response, if the receiver handed the task on."""
    output: Any = None
    """For code that reads it: the response as the `output` type of the agent that gave it, else as a text."""


RequestKind = Literal["approval", "permission", "escalation", "task"]
"""Why a person is asked: a call needs approval, a receiver needs a permission, no receiver accepted a task, or the task
is handed to the person."""


@copied("arguments")
class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """A request to a person, whose decision (`Team.decide`) the run waits for."""

    conversation: str
    call: str
    agent: str
    tool: str
    arguments: dict[str, Any]
    receiver: str = ""
    """The receiver, if the call is a handoff or a delegation."""
    message: str = ""
    at: float = 0.0
    """When it was made, in seconds since the epoch."""
    expires_at: float | None = None
    """When `on_expiry` is decided automatically; None for never."""
    on_expiry: Literal["reject", "approve"] = "reject"
    kind: RequestKind = "approval"
    roles: tuple[str, ...] = ()
    """The person who decides must have one of these roles; empty allows any person."""

    @property
    def id(self) -> str:
        """The id of the request; it includes a digest, so a decision is for exactly what the person saw."""
        return request_id(self.conversation, self.call, self.digest)

    @property
    def digest(self) -> str:
        """A hash of what the person sees."""
        # Roles are hashed only if there are any, so that requests of versions without roles keep their id.
        roles = (self.roles,) if self.roles else ()
        shown = (self.kind, self.agent, self.tool, self.arguments, self.receiver, self.message, *roles)
        return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


class Ticket(Struct, frozen=True, kw_only=True, gc=False):
    """Work in the queue of an agent with `pull=True`, which a worker claims."""

    id: str
    """The id of the handoff or, if a user spoke to the agent directly, of the run's task."""
    agent: str
    conversation: str
    """The conversation that asked for the work."""
    place: str
    """The conversation in which the agent works: for a delegate, one of its own."""
    root: str
    """The root of the tree of conversations."""
    team: str = DEFAULT_TEAM
    """The team whose workers may claim it."""
    priority: int = 0
    """Tickets with a higher priority are claimed first."""
    deadline: float | None = None
    """When an unclaimed ticket expires, in seconds since the epoch; None for never."""
    at: float = 0.0
    """When it was queued, in seconds since the epoch."""

    @property
    def kind(self) -> Literal["claim"]:
        """Always "claim", which no ApprovalRequest has: it tells the items of `pending` apart."""
        return "claim"

    @property
    def receiver(self) -> str:
        """The agent, under the name that ApprovalRequest has for it."""
        return self.agent


class TicketStatus(Struct, frozen=True, kw_only=True, gc=False):
    """The status of a ticket. It follows the task: after a rejection it is that of the next receiver."""

    id: str
    agent: str
    """The receiver of the last attempt."""
    state: State
    conversation_id: str
    owner: str = ""
    """The worker that holds the claim; empty if there is none."""
    attempts: int = 0
    """How often it was claimed since the last progress."""
    rests: bool = False
    """True while its agent waits for a person or a delegate."""
    at: float = 0.0
    """When it was queued, in seconds since the epoch."""
    deadline: float | None = None
    """When an unclaimed ticket expires."""
    reason: str = ""
    chain: list[HandoffRecord] = field(default_factory=list)
    """All attempts of the task, the first one first; empty for a message to an agent that workers serve."""


class WorkflowRun(Struct, frozen=True, kw_only=True, gc=False):
    """A run of a workflow that was started."""

    workflow: str
    """The id of the workflow."""
    conversation_id: str
    run_id: str


StepStatus: TypeAlias = Literal["pending", "running", "done", "failed", "skipped", "compensated", "cancelled"]
"""The status of a workflow's step; a compensated step was done and then undone."""


class StepReport(Struct, frozen=True, kw_only=True, gc=False):
    """The progress of one step of a workflow run, and what it spent."""

    id: str
    name: str
    """For display; the id if it has no name."""
    agent: str
    """The id of the member that does it."""
    after: tuple[str, ...] = ()
    """The ids of the steps that it comes after."""
    status: StepStatus
    attempts: int = 0
    """The number of attempts at all its items, including attempts to undo them."""
    retries: int = 0
    """How many of these attempts repeated an item that failed; attempts to undo it are not counted."""
    items: int | None = None
    """The number of its items, with `for_each`; else None."""
    items_done: int | None = None
    output: Any = None
    """Its output, once it is done."""
    error: str = ""
    """Why it failed, or why its last attempt did."""
    began: float | None = None
    ended: float | None = None
    """When it began and ended, in seconds since the epoch; None if it has not."""
    usage: Usage = Usage()
    """What its members and their models have spent."""

    @property
    def seconds(self) -> float | None:
        """How long it took; None if it has not ended."""
        return None if self.began is None or self.ended is None else self.ended - self.began


NoTakers: TypeAlias = Literal["return", "queue"]
"""What happens to a task that no receiver accepts: it is returned, or it waits in the queue of the best match."""


class HandoffResult(Struct, frozen=True, kw_only=True):
    """The outcome of a package that code offered (`Team.offer`, `Team.broker`)."""

    handoff_id: str
    agent: str
    """The receiver that accepted it, or that was asked last."""
    state: State
    result: str = ""
    """The answer as it was written."""
    output: Any = None
    """The answer as the `output` type of the agent that gave it, else as a text."""
    reason: str = ""
    """Why no receiver accepted it, or what it waits for."""
    error: str = ""
    """Why the receiver that accepted it failed."""
    summary: str = ""
    iterations: int = 0
    duration: float = 0.0
    conversation_id: str = ""
    pending: list[ApprovalRequest | Ticket] = field(default_factory=list)
    """What it waits for: decisions of people, and claims of workers."""
    agent_name: str = ""
    """The name of `agent` for display; its id if it has none."""

    @property
    def requests(self) -> list[ApprovalRequest]:
        """The pending requests to people."""
        return [each for each in self.pending if isinstance(each, ApprovalRequest)]


Span = tuple[float, float]
"""A time from its start to its end."""


class Spent(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a delegate and the delegates below it have spent."""

    turns: int = 0
    handoffs: int = 0
    retries: int = 0
    usage: Usage = Usage()
    agents: tuple[str, ...] = ()
    waited: float = 0.0
    """Seconds of waiting for people."""
    shares: dict[str, Share] = {}
    """The share of each agent, by its id."""
    waits: tuple[Span, ...] = ()
    """When people were awaited, in order and without overlaps."""


Status = Literal["completed", "waiting", "cancelled", "failed"]


@copied("variables", "artifacts", "workflow_state")
class RunResult(Struct, Generic[T_co], frozen=True, dict=True, kw_only=True):
    """The outcome of one run."""

    output: T_co
    """The answer: a value of the `output` type of the agent that gave it. It is a text if the agent declares no type,
    if the run is not completed, or if the text does not fit the type, such as the words of a person or of a rule."""
    text: str = ""
    """The answer as it was written."""
    final_agent: str
    """The id of the agent that was active at the end."""
    run_id: str
    conversation_id: str
    status: Status
    handoff_chain: list[HandoffRecord] = field(default_factory=list)
    """The handoffs of this run and of its delegates, in order."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The context variables."""
    handed: Handed | None = None
    artifacts: Mapping[str, str | None] = field(default_factory=dict)
    """References to results of the work, by name; None while there is none."""
    workflow_state: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = Usage()
    cost: float | None = None
    """In US dollars: 0 if no model was called, None if the price of one call is unknown."""
    ledger: Ledger = Ledger()
    pending: list[ApprovalRequest | Ticket] = field(default_factory=list)
    """What a run with the status "waiting" waits for: decisions of people, and claims of workers."""
    fell_back: bool = False
    """True if a handoff could not be made and the sender went on alone."""
    returned: tuple[DelegateResult, ...] = ()
    """The results of the branches, if code delegated."""
    final_agent_name: str = ""
    """The name of `final_agent` for display; its id if it has none."""

    @property
    def requests(self) -> list[ApprovalRequest]:
        """The pending requests to people."""
        return [each for each in self.pending if isinstance(each, ApprovalRequest)]

    @cached_property
    def context(self) -> dict[str, Any]:
        """A copy of the context variables, with the metadata of the last handoff (`_handoff_from`, …)."""
        # Computed on demand: in a long conversation, a copy of the chain would slow down every run.
        return whole_context(original(self, "variables"), self.handed)


def whole_context(variables: Mapping[str, Any], handed: Handed | None) -> dict[str, Any]:
    """A deep copy of the variables, with the metadata of the last handoff if there is one."""
    own: dict[str, Any] = copy_of(dict(variables))
    if handed is None:
        return own
    return {
        **own,
        "_handoff_from": handed.sender,
        "_handoff_tool": handed.tool,
        "_handoff_instructions": handed.instructions,
        "_handoff_chain": original(handed, "path")[: handed.hops],
    }
