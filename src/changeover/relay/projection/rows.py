"""Rows: what an entry adds to the read models and changes in them, by statement, and the bus events it publishes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from changeover.facts import Share, StepReport
from changeover.facts import State as HandoffState
from changeover.ids import handoff_id, task_id
from changeover.relay.events import ApprovalRequested, Entry, HandoffOffered, UserSpoke
from changeover.relay.fold.approvals import request_of
from changeover.relay.run import Task
from changeover.relay.sanitize import text_of, whole

if TYPE_CHECKING:
    from changeover.bus.delivery import Publication
    from changeover.relay.ports.log import Spending

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
Message = tuple[Kind, str, str | None, str | None, str | None]
"""Kind, content, task, agent and call of a message."""

Row = tuple[Any, ...]
S = TypeVar("S")

Name = Literal[
    "new_conversations",
    "moved_conversations",
    "changed_conversations",
    "heard_conversations",
    "renamed_conversations",
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
    "ledgers",
    "refusals",
    "limits",
    "trials",
    "steps",
]
"""The statements that write rows."""

TALLY = ("turns", "handoffs", "tokens", "cost", "agents")

FIELDS: dict[Name, tuple[str, ...]] = {
    "new_conversations": (
        *("number", "id", "root", "parent", "status", "agent", "owner", "due", "position", "seq", *TALLY),
        *("created_at", "updated_at", "team", "user_name", "title", "said_at"),
    ),
    "moved_conversations": ("agent", "position", "seq", *TALLY, "updated_at", "number"),
    "changed_conversations": (*("status", "agent", "owner", "due", "position", "seq", *TALLY, "updated_at", "number"),),
    "heard_conversations": ("said_at", "id"),
    "renamed_conversations": ("title", "id"),
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
    "ledgers": (
        *("conversation", "run", "agent", "ended_at", "elapsed", "handoffs", "turns", "retries"),
        *("input_tokens", "output_tokens", "cost"),
    ),
    "refusals": ("conversation", "position", "at", "sender", "receiver", "kind", "reason"),
    "limits": ("conversation", "position", "at", "agent", "kind"),
    "trials": ("conversation", "experiment", "variant", "at"),
    "steps": (
        *("conversation", "run", "step", "workflow", "status", "ended_at", "elapsed", "retries"),
        *("input_tokens", "output_tokens", "cost"),
    ),
}
"""The fields of each statement's rows. Statements run in this order: a row is added before it is changed."""

SEQ = FIELDS["messages"].index("seq")
"""Index of the seq in a row. Until the store sets it, the value is the number of events before it in the entry."""

_ORDER = {name: place for place, name in enumerate(FIELDS)}


class Opening(NamedTuple):
    """The beginning of a conversation, as its row holds it."""

    root: str
    parent: str | None
    team: str
    user: str
    """The user to whom a root belongs; empty for a delegate's conversation, which belongs to its root's."""
    title: str
    at: float


def opening_of(entry: Entry) -> Opening:
    """The beginning of a conversation, by its first entry."""
    began, spoken = entry.opening, entry.events[1] if len(entry.events) > 1 else None
    user, title = (spoken.user, title_of(spoken.text)) if isinstance(spoken, UserSpoke) else ("", "")
    return Opening(entry.root, began.parent or None, began.team, "" if began.parent else text_of(user), title, entry.at)


TITLE = 80
"""Largest number of characters of a title that is made from a message."""


def title_of(message: str) -> str:
    """The first words of a message, on one line."""
    begin = message[: 4 * TITLE]
    if not begin.isprintable():
        begin = "".join(letter if letter.isprintable() else " " for letter in begin)
    words = " ".join(begin.split())
    if len(words) <= TITLE:
        return text_of(words)
    cut = words[: TITLE - 1]
    return text_of(f"{cut.rpartition(' ')[0] or cut}…")


class Rows(defaultdict[Name, list[Row]]):
    """Rows by the name of their statement, bound in the order of FIELDS."""

    def __init__(self) -> None:
        super().__init__(list)
        self.published: list[Publication] = []
        """Events of the bus that tell what the entry records."""
        self._behind: Rows | None = None

    def later(self) -> Rows:
        """Rows that are written after all of these."""
        self._behind = self._behind or Rows()
        return self._behind

    def take(self, rows: Rows, seq: int) -> None:
        """Add the rows of an entry whose first event has this seq."""
        for name, those in rows.items():
            if name == "messages":
                self[name] += [(*row[:SEQ], row[SEQ] + seq, *row[SEQ + 1 :]) for row in those]
            else:
                self[name] += those
        self.published += rows.published
        if rows._behind is not None:
            self.later().take(rows._behind, seq)

    def storable(self) -> Rows:
        """The same rows, with every text in a form that all databases can hold."""
        rows = Rows()
        for name, those in self.items():
            rows[name] = [tuple(whole(row)) for row in those]
        rows.published = self.published
        if self._behind is not None:
            rows._behind = self._behind.storable()
        return rows

    def add_conversation(
        self, number: int, id: str, opening: Opening, now: tuple[tuple[Any, ...], tuple[Any, ...], float]
    ) -> None:
        """Add a conversation; `now` is its status with agent, owner and due time, its counters, and the time."""
        (status, counters, at), began = now, opening.at
        names, whose = (number, id, opening.root, opening.parent), (opening.team, opening.user, opening.title, began)
        self["new_conversations"].append((*names, *status, *counters, began, at, *whose))

    def add_task(self, where: tuple[str, str, str | None, float], task: Task, context: str, output: str | None) -> None:
        """Add a task of this conversation and root, below this parent, that began at this time."""
        id, root, parent, at = where
        names = (task_id(id, task.position), root, parent, task.run, task.handoff, task.agent)
        self["tasks"].append((id, task.position, *names, task.status, at, at, context, task.input, output))

    def add_handoff(self, where: tuple[str, str, float], offer: HandoffOffered, tool: str, task: str | None) -> None:
        """Add a handoff of this conversation and run, offered now; accepted too if its receiver has a task."""
        id, run, at = where
        names = (handoff_id(id, offer.call), id, run, task_id(id, offer.task), task)
        state, accepted = (HandoffState.WORKING, at) if task else (HandoffState.PENDING, None)
        who = (offer.sender, offer.receiver, offer.mode, state)
        how = (tool, offer.strategy, offer.merge)
        times = (at, accepted, None, offer.deadline, offer.attempt, offer.retry_of or None)
        told = (as_json(offer.variables), offer.message, None, offer.before, offer.after, None)
        self["handoffs"].append((*names, *who, *how, *times, *told, offer.capability or None))

    def end_handoff(self, state: HandoffState, at: float | None, reason: str | None, id: str) -> None:
        """End a handoff; one that was accepted in the same entry changes once."""
        accepted = self.get("accepted_handoffs")
        if not accepted or accepted[-1][-1] != id:
            self["ended_handoffs"].append((state, at, reason, id))
            return
        _, task, since, _ = accepted.pop()
        if not accepted:
            del self["accepted_handoffs"]
        self["closed_handoffs"].append((state, task, since, at, reason, id))

    def add_approval(self, id: str, root: str, at: float, asked: ApprovalRequested) -> None:
        """Add a request to people in this conversation."""
        names = (request_of(id, asked, at).id, asked.kind, id, root, asked.call, task_id(id, asked.task))
        what = (asked.agent, asked.tool, asked.receiver, asked.message, as_json(asked.arguments))
        until, roles = (asked.expires_at, asked.on_expiry), ENCODER.encode(asked.roles).decode()
        self["approvals"].append((*names, *what, "pending", at, *until, None, None, None, roles))

    def add_spending(self, entry: Entry, spent: Spending) -> None:
        """Add what one agent spent in a run that ended with this entry."""
        share, used, who = spent.share, spent.share.usage, (entry.conversation, spent.run, spent.agent)
        counted = (share.handoffs, share.turns, share.retries, used.input_tokens, used.output_tokens, share.cost)
        self["ledgers"].append((*who, entry.at, spent.elapsed, *counted))

    def add_step(self, where: tuple[str, int], workflow: str, step: StepReport, at: float) -> None:
        """Add the figures of a step of a workflow, in a run of this conversation that ends now."""
        status = "cancelled" if step.status == "running" else step.status
        elapsed = None if status == "cancelled" else step.seconds
        counted = (step.retries, step.usage.input_tokens, step.usage.output_tokens, Share(usage=step.usage).cost)
        self["steps"].append((*where, step.id, workflow, status, at, elapsed, *counted))

    def in_order(self, statements: Mapping[Name, S]) -> list[tuple[S, list[Row]]]:
        """The statements in the order in which they must run, each with its rows."""
        these = [(statements[name], self[name]) for name in sorted(self, key=_ORDER.__getitem__)]
        return these if self._behind is None else these + self._behind.in_order(statements)


def as_json(value: Any) -> str:
    """JSON of this value; {} if it is empty."""
    try:
        return ENCODER.encode(value).decode() if value else "{}"
    except UnicodeEncodeError:  # a lone surrogate
        return ENCODER.encode(whole(value)).decode()


ENCODER = msgspec.json.Encoder()
