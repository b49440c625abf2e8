"""What the projection of an entry needs of earlier ones: a few rows, never more for a longer conversation."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from changeover.relay.events import Entry, Event, HandoffAccepted, HandoffOffered, RunStarted, Unreadable


class Leg(Struct):
    """The task that a conversation is at, or ended with."""

    position: int
    run_id: str
    handoff_id: str | None
    agent: str
    status: str
    context: str = "{}"
    input: str = ""


class Wants(Struct):
    """What must be looked up."""

    leg: bool
    texts: bool = False
    """Whether also the leg's context and input are wanted: they may be long."""
    events: list[int] = field(default_factory=list)
    offers: list[str] = field(default_factory=list)


class Known(Struct):
    """What was found."""

    leg: Leg | None = None
    events: dict[int, Event | Unreadable] = field(default_factory=dict)
    offers: dict[str, dict[str, Any]] = field(default_factory=dict)


def wants(entry: Entry) -> Wants:
    """What of earlier entries this one builds upon."""
    found, offered = Wants(leg=entry.position > 0), set()
    for event in entry.events:
        match event:
            case RunStarted(run=run):
                found.texts = True
                _note(found, entry, run)
            case HandoffOffered(call=call):
                offered.add(call)
                _note(found, entry, reply_of(call))
            case HandoffAccepted(call=call):
                found.texts = True
                if call not in offered:
                    found.offers.append(call)
            case _:
                pass
    return found


def reply_of(call: str) -> int:
    """The position of the reply in which this call was written."""
    return int(call.partition(".")[0])


def _note(found: Wants, entry: Entry, position: int) -> None:
    if position < entry.position:
        found.events.append(position)
