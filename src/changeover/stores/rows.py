"""Rows on their way to the database. They are plain tuples, which drivers bind twice as fast as anything with names."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from changeover.facts import State
from changeover.relay.events import ApprovalRequested, Entry, HandoffOffered
from changeover.relay.folding.asking import request_of
from changeover.relay.ports import Spending
from changeover.stores.database import Row
from changeover.stores.legs import Leg

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

TALLY = ("turns", "handoffs", "tokens", "cost", "agents")

FIELDS: dict[str, tuple[str, ...]] = {
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
"""What stands where in the rows of each statement."""


class Rows:
    """All that one transaction writes, by statement; what is added stands before what changes it."""

    __slots__ = tuple(FIELDS)

    def __init__(self) -> None:
        self.new_conversations: list[Row] = []
        self.moved_conversations: list[Row] = []
        self.changed_conversations: list[Row] = []
        self.entries: list[Row] = []
        self.tasks: list[Row] = []
        self.moved_tasks: list[Row] = []
        self.widened_tasks: list[Row] = []
        self.messages: list[Row] = []
        self.given_messages: list[Row] = []
        self.handoffs: list[Row] = []
        self.packed_handoffs: list[Row] = []
        self.accepted_handoffs: list[Row] = []
        self.fallen_handoffs: list[Row] = []
        self.retaken_handoffs: list[Row] = []
        self.ended_handoffs: list[Row] = []
        self.approvals: list[Row] = []
        self.decided_approvals: list[Row] = []
        self.withdrawn_approvals: list[Row] = []
        self.recalled_approvals: list[Row] = []
        self.recalled_handoffs: list[Row] = []
        self.withdrawn_handoffs: list[Row] = []
        self.ledgers: list[Row] = []
        self.refusals: list[Row] = []
        self.trials: list[Row] = []

    def add_task(self, entry: Entry, leg: Leg, parent: str | None) -> None:
        id, at = entry.conversation, entry.at
        names = (f"{id}#{leg.position}", entry.root, parent, leg.run_id, leg.handoff_id)
        self.tasks.append((id, leg.position, *names, leg.agent, leg.status, at, at, leg.context, leg.input, None))

    def add_message(self, entry: Entry, position: int, said: Said, part: int = 0) -> None:
        kind, content, task, agent, call = said
        seq = entry.seq + position - entry.position
        self.messages.append((entry.conversation, position, part, seq, kind, task, agent, call, entry.at, content))

    def add_handoff(self, entry: Entry, offer: HandoffOffered, tool: str, run: str, task: str | None) -> None:
        """A handoff that was offered and, if its receiver has a task already, accepted."""
        id, at = entry.conversation, entry.at
        names = (f"{id}:{offer.call}", id, run, f"{id}#{offer.task}", task)
        state, accepted = (State.WORKING, at) if task else (State.PENDING, None)
        who = (offer.sender, offer.receiver, offer.mode, state)
        how = (tool, offer.strategy, offer.merge)
        times = (at, accepted, None, offer.deadline, offer.attempt, offer.retry_of or None)
        told = (as_json(offer.variables), offer.message, None, offer.before, offer.after, None)
        self.handoffs.append((*names, *who, *how, *times, *told, offer.capability or None))

    def add_approval(self, entry: Entry, asked: ApprovalRequested) -> None:
        id, at = entry.conversation, entry.at
        names = (request_of(id, asked, at).id, asked.kind, id, entry.root, asked.call, f"{id}#{asked.task}")
        what = (asked.agent, asked.tool, asked.receiver, asked.message, as_json(asked.arguments))
        until, roles = (asked.expires_at, asked.on_expiry), ENCODER.encode(asked.roles).decode()
        self.approvals.append((*names, *what, "pending", at, *until, None, None, None, roles))

    def add_spending(self, entry: Entry, spent: Spending) -> None:
        share, who = spent.share, (entry.conversation, spent.run, spent.agent)
        counted = (share.handoffs, share.turns, share.retries)
        tokens = (share.usage.input_tokens, share.usage.output_tokens)
        self.ledgers.append((*who, entry.at, spent.elapsed, *counted, *tokens, share.cost))

    def by_statement(self) -> list[tuple[str, list[Row]]]:
        """The name of each statement that is needed, and its rows."""
        return [(name, rows) for name in FIELDS if (rows := getattr(self, name))]


def as_json(value: Any) -> str:
    return ENCODER.encode(value).decode() if value else "{}"


ENCODER = msgspec.json.Encoder()
