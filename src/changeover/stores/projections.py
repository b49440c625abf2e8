"""From events to the rows that people query: one small function for each event, and a table that names them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

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
from changeover.stores.codec import Events
from changeover.stores.legs import Leg, Offered
from changeover.stores.rows import Kind, Rows, Said, as_json
from changeover.stores.wording import fault_words, result_words


class Past(Protocol):
    """What earlier entries of the conversation said, where an event builds upon it."""

    def event(self, position: int) -> Event | Unreadable | None: ...

    def offer(self, id: str) -> Offered | None: ...


def project(entry: Entry, events: Events, leg: Leg | None, past: Past, rows: Rows) -> Leg | None:
    """Add the rows that this entry makes or changes; return the leg that the conversation is at then."""
    projection = Projection(entry, events, leg, past, rows)
    for event in events:
        PROJECTIONS[type(event)](projection, event)
        projection.position += 1
    return projection.finish()


class Projection:
    """One entry on its way into the read models. Several changes to one row become one write."""

    __slots__ = ("_at", "_entry", "_events", "_heard", "_id", "_leg", "_moved", "_offers", "_past", "_rows", "position")

    def __init__(self, entry: Entry, events: Events, leg: Leg | None, past: Past, rows: Rows) -> None:
        self.position = entry.position
        self._entry, self._events, self._leg, self._past, self._rows = entry, events, leg, past, rows
        self._id, self._at = entry.conversation, entry.at
        self._moved: tuple[str, str | None] | None = None
        """What became of the leg's task in this entry: status and output."""
        self._heard: dict[int, UserSpoke] = {}
        self._offers: dict[str, HandoffOffered] = {}

    def finish(self) -> Leg | None:
        for position, spoken in self._heard.items():
            self._quote(spoken, position, None)
        for offer in self._offers.values():
            self._add_handoff(offer, None)
        self._let_go()
        return self._leg

    def _nothing(self, event: Event | Unreadable) -> None:
        """It is nobody's message, and no task changes by it."""

    def _hear(self, event: UserSpoke) -> None:
        self._heard[self.position] = event

    def _begin(self, event: RunStarted) -> None:
        task = f"{self._id}#{self.position}"
        spoken = self._heard.pop(event.run, None) or self._past.event(event.run)
        if not isinstance(spoken, UserSpoke):
            return
        if event.run >= self._entry.position:
            self._quote(spoken, event.run, task)
        else:
            self._rows.given_messages.append((task, self._id, event.run))
        context = _merged(self._leg.context if self._leg else "{}", spoken.context)
        run = f"{self._id}@{event.run}"
        self._take_on(Leg(self.position, run, None, event.agent, "running", context, spoken.text), None)

    def _reply(self, event: ModelReplied) -> None:
        self._work()
        task = f"{self._id}#{event.task}"
        if event.thinking:
            self._say(("thinking", event.thinking, task, event.agent, None))
        if event.text:
            self._say(("assistant_message", event.text, task, event.agent, None), 1)
        for index, call in enumerate(event.calls):
            content = as_json({"name": call.name, "args": call.malformed or call.args})
            self._say(("tool_call", content, task, event.agent, f"{self.position}.{index}"), 2 + index)

    def _answer(self, event: FunctionReturned) -> None:
        self._work()
        self._say(("assistant_message", event.text, f"{self._id}#{event.task}", event.agent, None))

    def _err(self, event: ModelFailed | FunctionFailed) -> None:
        self._work()
        self._say(("error", event.reason, f"{self._id}#{event.task}", event.agent, None))

    def _finish_tool(self, event: ToolFinished) -> None:
        self._say(("tool_result", result_words(event), f"{self._id}#{event.task}", self._agent, event.call))

    def _refuse(self, event: CallRefused) -> None:
        self._say(("tool_result", event.reason, f"{self._id}#{event.task}", self._agent, event.call))

    def _offer(self, event: HandoffOffered) -> None:
        self._offers[event.call] = event

    def _hand_over(self, event: HandoffAccepted) -> None:
        sender, id, task = self._leg, f"{self._id}:{event.call}", f"{self._id}#{self.position}"
        offer = self._offers.pop(event.call, None)
        offered = Offered(offer.merge, as_json(offer.variables)) if offer else self._past.offer(id)
        if sender is None or offered is None:
            return
        if offer:
            self._add_handoff(offer, task)
        else:
            self._rows.accepted_handoffs.append((Standing.WORKING, task, self._at, id))
        self._say(("handoff", id, f"{self._id}#{event.task}", sender.agent, event.call))
        self._end_leg("completed", Standing.COMPLETE)
        context = _context(sender.context, offered)
        leg = Leg(self.position, sender.run_id, id, event.receiver, "pending", context, sender.input)
        self._take_on(leg, f"{self._id}#{sender.position}")

    def _complete(self, event: RunCompleted) -> None:
        self._end_leg("completed", Standing.COMPLETE, self._last_words())

    def _fail(self, event: RunFailed) -> None:
        self._note("error", fault_words(event.fault))
        self._end_leg("failed", Standing.FAILED)

    def _try_again(self, event: RunResumed) -> None:
        self._note("status_change", "running")
        self._moved = ("running", None)
        if self._leg and self._leg.handoff_id:
            self._rows.ended_handoffs.append((Standing.WORKING, None, self._leg.handoff_id))

    def _work(self) -> None:
        """A sign of life of the agent that has the task."""
        if self._leg and self._leg.status == "pending" and self._moved is None:
            self._moved = ("running", None)

    def _end_leg(self, status: str, state: Standing, output: str | None = None) -> None:
        self._moved = (status, output)
        if self._leg and self._leg.handoff_id:
            self._rows.ended_handoffs.append((state, self._at, self._leg.handoff_id))

    def _let_go(self) -> None:
        """Write down what became of the leg's task."""
        if self._moved and (leg := self._leg):
            status, output = self._moved
            self._rows.moved_tasks.append((status, output, self._at, self._id, leg.position))
            self._leg = Leg(leg.position, leg.run_id, leg.handoff_id, leg.agent, status, leg.context, leg.input)
        self._moved = None

    def _take_on(self, leg: Leg, parent: str | None) -> None:
        """An agent gets a task."""
        self._let_go()
        self._leg = leg
        self._rows.add_task(self._entry, leg, parent)

    def _add_handoff(self, offer: HandoffOffered, task: str | None) -> None:
        run = self._leg.run_id if self._leg else ""
        self._rows.add_handoff(self._entry, offer, self._tool(offer.call), run, task)

    def _note(self, kind: Kind, content: str) -> None:
        """A message about the leg itself."""
        self._say((kind, content, f"{self._id}#{self._leg.position}" if self._leg else None, self._agent, None))

    def _say(self, said: Said, part: int = 0) -> None:
        self._rows.add_message(self._entry, self.position, said, part)

    def _quote(self, spoken: UserSpoke, position: int, task: str | None) -> None:
        """What a user said, which may have been a while ago."""
        self._rows.add_message(self._entry, position, ("user_message", spoken.text, task, None, None))

    @property
    def _agent(self) -> str | None:
        return self._leg.agent if self._leg else None

    def _tool(self, call: str) -> str:
        """The name under which the model called for this handoff."""
        position, _, index = call.partition(".")
        here = int(position) - self._entry.position
        reply = self._events[here] if here >= 0 else self._past.event(int(position))
        return reply.calls[int(index)].name if isinstance(reply, ModelReplied) else ""

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


def _context(before: str, offered: Offered) -> str:
    """The variables of the receiver's task."""
    if offered.merge == "replace":
        return offered.variables
    return before if offered.variables == "{}" else _merged(before, msgspec.json.decode(offered.variables))


def _merged(before: str, new: dict[str, Any]) -> str:
    return as_json(merge_variables(msgspec.json.decode(before), new, "merge")) if new else before
