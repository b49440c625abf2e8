"""From events to the rows that people query. Pure: whatever an entry does not say itself is given beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from changeover.facts import State as Standing
from changeover.handoffs.context import merge_variables
from changeover.relay.events import (
    CallRefused,
    Entry,
    Event,
    FunctionFailed,
    FunctionReturned,
    HandoffAccepted,
    HandoffOffered,
    ModelFailed,
    ModelReplied,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    Started,
    ToolFinished,
    ToolStarted,
    Unreadable,
    UserSpoke,
)
from changeover.stores.lookups import Known, Leg, reply_of
from changeover.stores.wording import fault_words, result_words

Write = tuple[str, dict[str, Any]]
"""The name of a statement, and what is bound to it."""

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


def project(entry: Entry, events: Sequence[Event | Unreadable], known: Known) -> list[Write]:
    """The rows that this entry adds or changes."""
    projection = Projection(entry, events, known)
    for event in events:
        PROJECTIONS[type(event)](projection, event)
        projection.position += 1
    return projection.writes


class Projection:
    """One entry on its way into the read models. Several changes to one row become one write."""

    def __init__(self, entry: Entry, events: Sequence[Event | Unreadable], known: Known) -> None:
        self.position = entry.position
        self.writes: list[Write] = []
        self._entry, self._events, self._known = entry, events, known
        self._leg = known.leg
        self._task: dict[str, Any] | None = None
        """The row of the leg's task, if this entry has written it before."""
        self._offers: dict[str, dict[str, Any]] = {}
        self._heard: dict[int, dict[str, Any]] = {}
        self._part = (-1, 0)

    def _nothing(self, event: Event | Unreadable) -> None:
        """It is nobody's message, and no task changes by it."""

    def _hear(self, event: UserSpoke) -> None:
        self._heard[self.position] = self._say("user_message", event.text)

    def _begin(self, event: RunStarted) -> None:
        spoken = self._event(event.run)
        if not isinstance(spoken, UserSpoke):
            return
        before = self._leg.context if self._leg else "{}"
        run = f"{self._entry.conversation}@{event.run}"
        leg = Leg(self.position, run, None, event.agent, "running", _merged(before, spoken.context), spoken.text)
        self._take_on(leg, None)
        task = self._id(self.position)
        if event.run in self._heard:
            self._heard[event.run]["task_id"] = task
        else:
            where = {"conversation": self._entry.conversation, "position": event.run}
            self.writes.append(("give_message", {**where, "task_id": task}))

    def _reply(self, event: ModelReplied) -> None:
        self._work()
        if event.thinking:
            self._say("thinking", event.thinking, event.task, event.agent)
        if event.text:
            self._say("assistant_message", event.text, event.task, event.agent)
        for index, call in enumerate(event.calls):
            content = _json({"name": call.name, "args": call.malformed or call.args})
            self._say("tool_call", content, event.task, event.agent, f"{self.position}.{index}")

    def _answer(self, event: FunctionReturned) -> None:
        self._work()
        self._say("assistant_message", event.text, event.task, event.agent)

    def _err(self, event: ModelFailed | FunctionFailed) -> None:
        self._work()
        self._say("error", event.reason, event.task, event.agent)

    def _finish_tool(self, event: ToolFinished) -> None:
        self._say("tool_result", result_words(event), event.task, self._agent, event.call)

    def _refuse(self, event: CallRefused) -> None:
        self._say("tool_result", event.reason, event.task, self._agent, event.call)

    def _offer(self, event: HandoffOffered) -> None:
        row = {
            "id": f"{self._entry.conversation}:{event.call}",
            "conversation": self._entry.conversation,
            "run_id": self._leg.run_id if self._leg else "",
            "sender_task_id": self._id(event.task),
            "task_id": None,
            "sender": event.sender,
            "receiver": event.receiver,
            "mode": str(event.mode),
            "state": str(Standing.PENDING),
            "tool": self._tool(event.call),
            "strategy": event.strategy,
            "merge": event.merge,
            "offered_at": self._entry.at,
            "accepted_at": None,
            "ended_at": None,
            "variables": _json(event.variables),
            "message": event.message,
        }
        self._offers[event.call] = row
        self.writes.append(("add_handoff", row))

    def _hand_over(self, event: HandoffAccepted) -> None:
        sender, offer = self._leg, self._offers.get(event.call) or self._known.offers.get(event.call)
        if sender is None or offer is None:
            return
        id = f"{self._entry.conversation}:{event.call}"
        accepted = {"task_id": self._id(self.position), "state": str(Standing.WORKING), "accepted_at": self._entry.at}
        if event.call in self._offers:
            self._offers[event.call] |= accepted
        else:
            self.writes.append(("accept_handoff", {"id": id, **accepted}))
        self._say("handoff", id, event.task, sender.agent, event.call)
        self._end_leg("completed", Standing.COMPLETE)
        variables = msgspec.json.decode(offer["variables"])
        context = _json(variables) if offer["merge"] == "replace" else _merged(sender.context, variables)
        leg = Leg(self.position, sender.run_id, id, event.receiver, "pending", context, sender.input)
        self._take_on(leg, self._id(sender.position))

    def _complete(self, event: RunCompleted) -> None:
        self._say("status_change", "completed", self._at, self._agent)
        self._end_leg("completed", Standing.COMPLETE, self._last_words())

    def _fail(self, event: RunFailed) -> None:
        self._say("error", fault_words(event.fault), self._at, self._agent)
        self._end_leg("failed", Standing.FAILED)

    def _try_again(self, event: RunResumed) -> None:
        self._say("status_change", "running", self._at, self._agent)
        self._move("running")
        if self._leg and self._leg.handoff_id:
            again = {"id": self._leg.handoff_id, "state": str(Standing.WORKING), "ended_at": None}
            self.writes.append(("end_handoff", again))

    def _work(self) -> None:
        """A sign of life of the agent that has the task."""
        if self._leg and self._leg.status == "pending":
            self._move("running")

    def _end_leg(self, status: str, state: Standing, output: str | None = None) -> None:
        self._move(status, output)
        if self._leg and self._leg.handoff_id:
            ended = {"id": self._leg.handoff_id, "state": str(state), "ended_at": self._entry.at}
            self.writes.append(("end_handoff", ended))

    def _take_on(self, leg: Leg, parent: str | None) -> None:
        """An agent gets a task."""
        self._leg = leg
        self._task = {
            "conversation": self._entry.conversation,
            "position": self.position,
            "id": self._id(self.position),
            "master_id": self._entry.root,
            "parent_id": parent,
            "run_id": leg.run_id,
            "handoff_id": leg.handoff_id,
            "agent": leg.agent,
            "status": leg.status,
            "created_at": self._entry.at,
            "updated_at": self._entry.at,
            "context": leg.context,
            "input": leg.input,
            "output": None,
        }
        self.writes.append(("add_task", self._task))

    def _move(self, status: str, output: str | None = None) -> None:
        if self._leg is None:
            return
        if self._task is None:
            where = {"conversation": self._entry.conversation, "position": self._leg.position}
            self._task = {**where, "updated_at": self._entry.at}
            self.writes.append(("move_task", self._task))
        self._leg.status = status
        self._task |= {"status": status, "output": output}

    def _say(
        self, kind: Kind, content: str, task: int | None = None, agent: str | None = None, call: str | None = None
    ) -> dict[str, Any]:
        self._part = (self.position, self._part[1] + 1 if self._part[0] == self.position else 0)
        row = {
            "conversation": self._entry.conversation,
            "position": self.position,
            "part": self._part[1],
            "seq": self._entry.seq + self.position - self._entry.position,
            "kind": kind,
            "task_id": None if task is None else self._id(task),
            "agent": agent,
            "call": call,
            "at": self._entry.at,
            "content": content,
        }
        self.writes.append(("add_message", row))
        return row

    @property
    def _agent(self) -> str | None:
        return self._leg.agent if self._leg else None

    @property
    def _at(self) -> int | None:
        return self._leg.position if self._leg else None

    def _id(self, position: int) -> str:
        return f"{self._entry.conversation}#{position}"

    def _event(self, position: int) -> Event | Unreadable | None:
        """An event of this entry, or an earlier one that was looked up."""
        index = position - self._entry.position
        return self._events[index] if index >= 0 else self._known.events.get(position)

    def _tool(self, call: str) -> str:
        reply = self._event(reply_of(call))
        return reply.calls[int(call.partition(".")[2])].name if isinstance(reply, ModelReplied) else ""

    def _last_words(self) -> str | None:
        """What the agent said last; a run ends in the entry in which it was said."""
        texts = (event.text for event in reversed(self._events) if isinstance(event, ModelReplied | FunctionReturned))
        return next(texts, None)


PROJECTIONS: dict[type[Event | Unreadable], Callable[[Projection, Any], None]] = {
    Started: Projection._nothing,
    UserSpoke: Projection._hear,
    RunStarted: Projection._begin,
    ModelReplied: Projection._reply,
    ModelFailed: Projection._err,
    FunctionReturned: Projection._answer,
    FunctionFailed: Projection._err,
    ToolStarted: Projection._nothing,
    ToolFinished: Projection._finish_tool,
    CallRefused: Projection._refuse,
    HandoffOffered: Projection._offer,
    HandoffAccepted: Projection._hand_over,
    RunCompleted: Projection._complete,
    RunFailed: Projection._fail,
    RunResumed: Projection._try_again,
    Unreadable: Projection._nothing,
}
"""What each event means for those who look from outside."""


def _merged(before: str, new: dict[str, Any]) -> str:
    return _json(merge_variables(msgspec.json.decode(before), new, "merge")) if new else before


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
