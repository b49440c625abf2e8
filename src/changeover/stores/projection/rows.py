"""Rows: what one transaction writes, by statement, and Legs: the task that each conversation is at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from changeover.facts import State
from changeover.ids import handoff_id, task_id
from changeover.relay.events import ApprovalRequested, Entry, HandoffOffered
from changeover.relay.fold.approvals import request_of
from changeover.relay.ports import Spending
from changeover.stores.sql.database import Row
from changeover.stores.sql.jobs import Append

KEPT = 2_048
"""How many conversations are remembered from one transaction to the next."""


Widened = tuple[str, dict[str, dict[str, Any]]]


class Leg(Struct, frozen=True, gc=False):
    """The task that a conversation is at, or ended with."""

    position: int
    run_id: str
    handoff_id: str | None
    agent: str
    status: str
    context: str = "{}"
    input: str = ""
    widened: Widened | None = ("", {})
    """What the calls of the last turn added to the context, by call; None if only the log knows."""


Stand = tuple[int, int, Leg | None]
"""The number of a conversation, where its log ends, and the leg that it is at then."""

NOBODYS: Stand = (0, 0, None)


class Offered(NamedTuple):
    """An offer that an earlier entry made."""

    merge: str
    variables: str
    mode: str


class Legs:
    """Remembers the legs of the conversations at work."""

    def __init__(self) -> None:
        self._stands: dict[str, Stand] = {}

    def get(self, conversation: str, number: int, end: int, look_up: Callable[[str], Leg | None]) -> Leg | None:
        """The leg of a conversation whose log ends here; nobody can have moved it without moving the end, or begun
        another under its id without another number."""
        whose, known, leg = self._stands.get(conversation, NOBODYS)
        return leg if known == end and whose == number else look_up(conversation)

    def knows(self, append: Append) -> bool:
        """Whether nothing has to be looked up for this, so far as one can tell without its number."""
        return self._stands.get(append.conversation, NOBODYS)[1] == append.entry.position

    def keep(self, stands: Mapping[str, Stand]) -> None:
        """These are committed."""
        for conversation in stands:  # what was last at work stands last
            self._stands.pop(conversation, None)
        self._stands.update(stands)
        if len(self._stands) > KEPT:
            for oldest in list(self._stands)[: KEPT // 4 - KEPT]:
                del self._stands[oldest]


Kind = Literal[
    "user_message",
    "assistant_message",
    "thinking",
    "tool_call",
    "tool_result",
    "skill_load",
    "subtask_created",
    "error",
    "status_change",
    "handoff",
]
Said = tuple[Kind, str, str | None, str | None, str | None]
"""What a message is: its kind, its content, and the task, the agent and the call that it belongs to."""

Name = Literal[
    "new_conversations",
    "moved_conversations",
    "changed_conversations",
    "entries",
    "tasks",
    "moved_tasks",
    "widened_tasks",
    "messages",
    "given_messages",
    "handoffs",
    "packed_handoffs",
    "accepted_handoffs",
    "closed_handoffs",
    "fallen_handoffs",
    "retaken_handoffs",
    "ended_handoffs",
    "approvals",
    "decided_approvals",
    "withdrawn_approvals",
    "recalled_approvals",
    "recalled_handoffs",
    "withdrawn_handoffs",
    "ledgers",
    "refusals",
    "trials",
]
"""The statements that write rows."""

TALLY = ("turns", "handoffs", "tokens", "cost", "agents")

FIELDS: dict[Name, tuple[str, ...]] = {
    "new_conversations": (
        *("number", "id", "root", "parent", "status", "agent", "owner", "due", "position", "seq", *TALLY),
        *("created_at", "updated_at"),
    ),
    "moved_conversations": ("agent", "position", "seq", *TALLY, "updated_at", "number"),
    "changed_conversations": (*("status", "agent", "owner", "due", "position", "seq", *TALLY, "updated_at", "number"),),
    "entries": ("conversation", "position", "root", "cause", "at", "seq", "schema", "body"),
    "tasks": (
        *("conversation", "position", "id", "master_id", "parent_id", "run_id", "handoff_id", "agent", "status"),
        *("created_at", "updated_at", "context", "input", "output"),
    ),
    "moved_tasks": ("status", "output", "updated_at", "conversation", "position"),
    "widened_tasks": ("context", "conversation", "position"),
    "messages": ("conversation", "position", "part", "seq", "kind", "task_id", "agent", "call", "at", "content"),
    "given_messages": ("task_id", "conversation", "position"),
    "handoffs": (
        *("id", "conversation", "run_id", "sender_task_id", "task_id", "sender", "receiver", "mode", "state", "tool"),
        *("strategy", "merge", "offered_at", "accepted_at", "ended_at", "deadline", "attempt", "retry_of", "variables"),
        *("message", "reason", "tokens_before", "tokens_after", "strategy_error", "capability"),
    ),
    "packed_handoffs": ("strategy", "tokens_after", "strategy_error", "id"),
    "accepted_handoffs": ("state", "task_id", "accepted_at", "id"),
    "closed_handoffs": ("state", "task_id", "accepted_at", "ended_at", "reason", "id"),
    "fallen_handoffs": ("id",),
    "retaken_handoffs": ("id",),
    "ended_handoffs": ("state", "ended_at", "reason", "id"),
    "approvals": (
        *("id", "kind", "conversation", "root", "call", "task_id", "agent", "tool", "receiver", "message", "arguments"),
        *("status", "requested_at", "expires_at", "on_expiry", "decided_at", "decided_by", "note", "roles"),
    ),
    "decided_approvals": ("status", "decided_at", "decided_by", "note", "id"),
    "withdrawn_approvals": ("conversation",),
    "recalled_approvals": ("conversation", "call"),
    "recalled_handoffs": ("ended_at", "reason", "id"),
    "withdrawn_handoffs": ("ended_at", "reason", "conversation"),
    "ledgers": (
        *("conversation", "run", "agent", "ended_at", "elapsed", "handoffs", "turns", "retries"),
        *("input_tokens", "output_tokens", "cost"),
    ),
    "refusals": ("conversation", "position", "at", "sender", "receiver", "kind", "reason"),
    "trials": ("conversation", "experiment", "variant", "at"),
}
"""What stands where in the rows of each statement. In this order they are carried out: what is added stands before what
changes it."""


_ORDER = {name: place for place, name in enumerate(FIELDS)}


class Rows(defaultdict[Name, list[Row]]):
    """All that one transaction writes, by statement: most need few of them."""

    def __init__(self) -> None:
        super().__init__(list)
        self._behind: Rows | None = None

    def later(self) -> Rows:
        """Rows that are written when all of these are."""
        self._behind = self._behind or Rows()
        return self._behind

    def add_task(self, entry: Entry, leg: Leg, parent: str | None, output: str | None) -> None:
        id, at, what = entry.conversation, entry.at, (leg.context, leg.input, output)
        names = (task_id(id, leg.position), entry.root, parent, leg.run_id, leg.handoff_id, leg.agent)
        self["tasks"].append((id, leg.position, *names, leg.status, at, at, *what))

    def add_handoff(self, entry: Entry, offer: HandoffOffered, tool: str, run: str, task: str | None) -> None:
        """A handoff that was offered and, if its receiver has a task already, accepted."""
        id, at = entry.conversation, entry.at
        names = (handoff_id(id, offer.call), id, run, task_id(id, offer.task), task)
        state, accepted = (State.WORKING, at) if task else (State.PENDING, None)
        who = (offer.sender, offer.receiver, offer.mode, state)
        how = (tool, offer.strategy, offer.merge)
        times = (at, accepted, None, offer.deadline, offer.attempt, offer.retry_of or None)
        told = (as_json(offer.variables), offer.message, None, offer.before, offer.after, None)
        self["handoffs"].append((*names, *who, *how, *times, *told, offer.capability or None))

    def end_handoff(self, state: State, at: float | None, reason: str | None, id: str) -> None:
        """A handoff is over; if it was accepted in the very same entry, that is one change."""
        accepted = self.get("accepted_handoffs")
        if not accepted or accepted[-1][-1] != id:
            self["ended_handoffs"].append((state, at, reason, id))
            return
        _, task, since, _ = accepted.pop()
        if not accepted:
            del self["accepted_handoffs"]
        self["closed_handoffs"].append((state, task, since, at, reason, id))

    def add_approval(self, entry: Entry, asked: ApprovalRequested) -> None:
        id, at = entry.conversation, entry.at
        names = (request_of(id, asked, at).id, asked.kind, id, entry.root, asked.call, task_id(id, asked.task))
        what = (asked.agent, asked.tool, asked.receiver, asked.message, as_json(asked.arguments))
        until, roles = (asked.expires_at, asked.on_expiry), ENCODER.encode(asked.roles).decode()
        self["approvals"].append((*names, *what, "pending", at, *until, None, None, None, roles))

    def add_spending(self, entry: Entry, spent: Spending) -> None:
        share, used, who = spent.share, spent.share.usage, (entry.conversation, spent.run, spent.agent)
        counted = (share.handoffs, share.turns, share.retries, used.input_tokens, used.output_tokens, share.cost)
        self["ledgers"].append((*who, entry.at, spent.elapsed, *counted))

    def in_order(self) -> list[tuple[Name, list[Row]]]:
        """The statements that are needed, as they are carried out, and the rows of each."""
        these = [(name, self[name]) for name in sorted(self, key=_ORDER.__getitem__)]
        return these if self._behind is None else these + self._behind.in_order()


def as_json(value: Any) -> str:
    return ENCODER.encode(value).decode() if value else "{}"


ENCODER = msgspec.json.Encoder()
