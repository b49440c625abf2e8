"""Entries projected into rows without a database."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from changeover.facts import HandoffRecord, Mode
from changeover.facts import State as HandoffState
from changeover.faults import LimitFault
from changeover.messages import Call
from changeover.relay.events import (
    Entry,
    Event,
    FunctionReturned,
    HandoffOffered,
    ModelReplied,
    RunCompleted,
    RunStarted,
    Unreadable,
    UserSpoke,
)
from changeover.relay.projection.projection import Projection
from changeover.relay.projection.rows import FIELDS, Name, as_json
from changeover.relay.run import Acting, Phase, Replied, Task, Thinking, new_run
from changeover.relay.state import State
from changeover.relay.turn import Offered, OpenCall, Turn, model_turn, turn_of

FAULT = LimitFault("max_turns", 3)


class Leg(NamedTuple):
    """The task that a conversation is at, or ended with."""

    position: int
    run_id: str
    handoff_id: str | None
    agent: str
    status: Any
    context: str = "{}"
    input: str = ""


LEG = Leg(2, "c@1", None, "front", "running", '{"a":1}', "hello")


class Past(NamedTuple):
    """What earlier entries said, as far as a test needs it: inputs and replies by position, open offers."""

    events: Mapping[int, Event] = {}
    offers: tuple[HandoffOffered, ...] = ()


NOTHING = Past()


def offered(call: str, receiver: str = "billing", mode: Mode = Mode.TRANSFER, **more: Any) -> HandoffOffered:
    return HandoffOffered(call, 2, "front", receiver, mode=mode, **more)


class Row(tuple[Any, ...]):
    """A row whose fields have names."""

    def __new__(cls, name: Name, row: tuple[Any, ...]) -> "Row":
        made = super().__new__(cls, row)
        made._fields = FIELDS[name]  # type: ignore[attr-defined]
        return made

    def __getattr__(self, name: str) -> Any:
        return self[self.__dict__["_fields"].index(name)]


def at(position: int, *events: Event | Unreadable) -> Entry:
    return Entry("c", "c", position, "x", 5.0, events)


def projected(entry: Entry, leg: Leg | None, past: Past = NOTHING) -> tuple[dict[str, list[Any]], Leg | None]:
    """The rows of an entry of a conversation that was at this leg, and the leg that it is at then."""
    return projected_from(state_at(entry, leg, past), entry)


def projected_from(state: State, entry: Entry) -> tuple[dict[str, list[Any]], Leg | None]:
    projection = Projection(state)
    projection.fold(entry)
    made = projection.finish()
    named = made.in_order({name: name for name in FIELDS})
    return {name: [Row(name, row) for row in rows] for name, rows in named}, leg_of(state)


def leg_of(state: State) -> Leg | None:
    task = state.work
    if not task.position:
        return None
    return Leg(task.position, task.run, task.handoff, task.agent, task.status, as_json(state.variables), task.input)


def state_at(entry: Entry, leg: Leg | None, past: Past) -> State:
    """A state that these events can follow."""
    state = State(entry.conversation)
    state.root, state.position = entry.root, entry.position
    state.inbox = {place: event for place, event in past.events.items() if isinstance(event, UserSpoke)}
    if leg is None:
        return state
    state.agent, state.task, state.variables = leg.agent, leg.position, msgspec.json.decode(leg.context)
    state.work = Task(leg.position, leg.run_id, leg.agent, leg.input, leg.handoff_id, leg.status)
    run = int(leg.run_id.rpartition("@")[2])
    if any(isinstance(event, RunStarted) for event in entry.events):
        return state  # the run is over, and the next one waits
    state.run = new_run(state.id, run, UserSpoke(leg.input), 0.0, 0, _phase(state, entry, past))
    if leg.handoff_id is not None and leg.handoff_id.startswith(f"{state.id}:"):
        _work_under(state, leg.handoff_id)
    return state


def _phase(state: State, entry: Entry, past: Past) -> Phase:
    turns = [_turn(place, reply) for place, reply in past.events.items() if isinstance(reply, ModelReplied)]
    if past.offers:
        calls = [_offered_call(each) for each in past.offers]
        turns = [turn_of(state.agent, "", {call.id: call for call in calls})]
        if past.offers[0].mode is Mode.TRANSFER:
            turns[0].offered = calls[0]
    if turns:
        return Acting(turns[-1])
    speaks = any(isinstance(event, ModelReplied | FunctionReturned) for event in entry.events)
    ends = any(isinstance(event, RunCompleted) for event in entry.events)
    return Replied("") if ends and not speaks else Thinking(str(state.task))


def _offered_call(offer: HandoffOffered) -> OpenCall:
    return OpenCall(offer.call.partition("+")[0], Call("x", "handoff"), (0, 0), Offered(offer, 1.0))


def _turn(position: int, reply: ModelReplied) -> Turn:
    return model_turn(position, reply.agent, reply.text, reply.calls)


def _work_under(state: State, handoff: str) -> None:
    """The active agent got its task by this handoff."""
    task = f"{state.id}#{state.task}"
    record = HandoffRecord(
        handoff, "front", state.agent, "", Mode.TRANSFER, HandoffState.WORKING, 1.0, "", {}, "full", "c@1", task
    )
    state.handoffs, state.leg = [record], 0
