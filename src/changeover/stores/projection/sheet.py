"""Sheet: one entry being projected, with the current task and the rows written so far."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from changeover.facts import State as Standing
from changeover.guards.deadlock import DEADLOCK
from changeover.handoffs.context import merge_variables
from changeover.ids import call_path, handoff_id, reply_of, run_id, split_handoff, task_id
from changeover.messages import with_labels
from changeover.relay.events import Entry, Event, HandoffOffered, ModelReplied, Unreadable, UserSpoke
from changeover.stores.codec import Events
from changeover.stores.projection.rows import Kind, Leg, Offered, Rows, Said, as_json

TAKEN_BACK = frozenset({"withdrawn_approvals", "withdrawn_handoffs"})
"""What concerns all that stands open in a conversation."""


class Past(Protocol):
    """What earlier entries of a conversation said, where an event builds upon it."""

    def event(self, conversation: str, position: int) -> Event | Unreadable | None: ...

    def offer(self, id: str) -> Offered | None: ...

    def widened(self, conversation: str, turn: str) -> dict[str, dict[str, Any]]:
        """What the calls of a turn added to the context, by call."""
        ...


class Sheet(msgspec.Struct):
    """What all events of an entry write upon. Several changes to one row become one write."""

    entry: Entry
    id: str
    """The conversation."""
    at: float
    events: Events
    leg: Leg | None
    past: Past
    rows: Rows
    position: int = 0
    """That of the event at hand."""
    heard: dict[int, UserSpoke] = msgspec.field(default_factory=dict)
    offers: dict[str, HandoffOffered] = msgspec.field(default_factory=dict)
    _moved: tuple[str, str | None] | None = None
    """What became of the leg's task in this entry: status and output."""
    _new: bool = False
    """Whether the leg began in this entry, and its task is still to be written."""
    _parent: str | None = None

    @property
    def agent(self) -> str | None:
        return self.leg.agent if self.leg else None

    @property
    def status(self) -> str:
        """How the leg's task stands by now."""
        return self._moved[0] if self._moved else self.leg.status if self.leg else ""

    @property
    def ticket(self) -> str:
        """By which the leg's work is claimed, if it is."""
        return (self.leg.handoff_id or handoff_id(self.id, self.leg.position)) if self.leg else ""

    def task(self, position: int) -> str:
        """The task of this conversation that began here."""
        return task_id(self.id, position)

    def is_at(self, run: int) -> bool:
        """Whether the leg belongs to this run; 0 is any."""
        return run == 0 or (self.leg is not None and self.leg.run_id == run_id(self.id, run))

    def finish(self) -> Leg | None:
        """Write down what is left; the leg that the conversation is at then."""
        for position, spoken in self.heard.items():
            self.quote(spoken, position, None)
        self._put_down_offers()
        self._let_go()
        return self.leg

    def turn_over(self) -> None:
        """A run begins. What was taken back of an earlier one, all at once, stands before what this one asks for."""
        self._put_down_offers()
        if not TAKEN_BACK.isdisjoint(self.rows):
            self.rows = self.rows.later()

    def take_on(self, leg: Leg, parent: str | None) -> None:
        """An agent gets a task."""
        self._let_go()
        self.leg, self._new, self._parent = leg, True, parent

    def work(self) -> None:
        """A sign of life of the agent that has the task."""
        if self.leg and self.leg.status == "pending" and self._moved is None:
            self._moved = ("running", None)

    def move(self, status: str) -> None:
        """The task goes on like this."""
        self._moved = (status, None)

    def end_leg(self, status: str, state: Standing, output: str | None = None, reason: str | None = None) -> None:
        """The task is over, and the handoff that led to it."""
        self._moved = (status, output)
        self.stand(state, self.at, reason)

    def stand(self, state: Standing, ended: float | None, reason: str | None = None) -> None:
        """How the handoff stands that led to the leg. The one that made a delegate is its sender's to end."""
        if self.leg and self.leg.handoff_id and split_handoff(self.leg.handoff_id)[0] == self.id:
            self.rows.end_handoff(state, ended, reason, self.leg.handoff_id)

    def end_handoff(self, call: str, state: Standing, reason: str = "") -> None:
        """A handoff of this conversation is over; it may have been offered in this very entry."""
        if offer := self.offers.pop(call, None):
            self.add_handoff(offer, None)
        self.rows.end_handoff(state, self.at, reason or None, handoff_id(self.id, call))

    def widen(self, variables: dict[str, Any], call: str) -> None:
        """The context of the leg has these from now on. What the calls of a turn add stands in call order, whichever
        of them ended first."""
        leg = self.leg
        if leg is None or not variables:
            return
        turn = reply_of(call)
        widened = leg.widened or (turn, self.past.widened(self.id, turn))
        added = {**widened[1], call: variables} if widened[0] == turn else {call: variables}
        context = leg.context
        for each in sorted(added, key=call_path):
            context = merged(context, added[each])
        self.leg = replace(leg, context=context, widened=(turn, added))
        if not self._new:
            self.rows["widened_tasks"].append((context, self.id, leg.position))

    def add_handoff(self, offer: HandoffOffered, task: str | None) -> None:
        run = self.leg.run_id if self.leg else ""
        self.rows.add_handoff(self.entry, offer, self._tool(offer.call), run, task)

    def refuse(self, receiver: str, reason: str) -> None:
        """The agent wanted to hand over to this receiver, and was not let."""
        kind = "deadlock" if reason.startswith(DEADLOCK) else "other"
        self.rows["refusals"].append((self.id, self.position, self.at, self.agent or "", receiver, kind, reason))

    def note(self, kind: Kind, content: str) -> None:
        """A message about the leg itself."""
        self.say((kind, content, self.task(self.leg.position) if self.leg else None, self.agent, None))

    def say(self, said: Said, part: int = 0, position: int | None = None) -> None:
        """A message, from the event at hand or from an earlier one of this entry."""
        if position is None:
            position = self.position
        kind, content, task, agent, call = said
        seq = self.entry.seq + position - self.entry.position
        self.rows["messages"].append((self.id, position, part, seq, kind, task, agent, call, self.at, content))

    def quote(self, spoken: UserSpoke, position: int, task: str | None) -> None:
        """What a user said, or the agent that gave the task; which may have been a while ago."""
        speaker = spoken.given.sender if spoken.given else None
        text = with_labels(spoken.text, spoken.files) if spoken.files else spoken.text
        self.say(("user_message", text, task, speaker, None), position=position)

    def _put_down_offers(self) -> None:
        """Write down what was offered and not answered."""
        for offer in self.offers.values():
            self.add_handoff(offer, None)
        self.offers.clear()

    def _let_go(self) -> None:
        """Write down what became of the leg's task, and that there is one."""
        if (leg := self.leg) is None or not (self._new or self._moved):
            self._moved = None
            return
        status, output = self._moved or (leg.status, None)
        if self._moved:
            self.leg = leg = replace(leg, status=status)
        if self._new:
            self.rows.add_task(self.entry, leg, self._parent, output)
        else:
            self.rows["moved_tasks"].append((status, output, self.at, self.id, leg.position))
        self._moved, self._new = None, False

    def _tool(self, call: str) -> str:
        """The name under which a model called for this handoff; none if it was no model, or no call, that led to it."""
        position, *inside = call_path(call)
        if not inside:
            return ""  # a Function member's
        here, number = position - self.entry.position, inside[0]
        reply = self.events[here] if here >= 0 else self.past.event(self.id, position)
        return reply.calls[number].name if isinstance(reply, ModelReplied) and number < len(reply.calls) else ""


def merged(before: str, new: dict[str, Any]) -> str:
    """The variables after these came in, as JSON."""
    return as_json(merge_variables(msgspec.json.decode(before), new, "merge")) if new else before
