"""What is outstanding. Commands are derived from the state and never stored, so they may hold references."""

from __future__ import annotations

from msgspec import Struct

from changeover.messages import Call, Message, View
from changeover.relay.events import Event
from changeover.tools.context import RunContext


class CallModel(Struct, frozen=True, gc=False):
    """Ask the active agent's model for its next reply."""

    id: str
    task: int
    context: RunContext
    thread: View[Message]
    turn: int
    """How often this agent's model was called in this conversation before."""
    attempt: int = 1
    not_before: float = 0.0
    """The engine waits until then before it performs this."""
    handoffs: bool = True
    """Whether the model may hand off now."""
    last: bool = False
    """Whether this is the last reply the run may take: no tools, an answer."""


class CallFunction(Struct, frozen=True, gc=False):
    """Call the Function member that is active."""

    id: str
    task: int
    context: RunContext


class RunTool(Struct, frozen=True, gc=False):
    """Carry out one call of a tool."""

    id: str
    task: int
    context: RunContext
    call: Call
    at_most_once: bool = False
    begun: bool = False
    """Its intent is recorded: somebody began it, perhaps in an earlier life."""


class Record(Struct, frozen=True, gc=False):
    """A decision that needs no effect: an event to append at once. It never leaves `settle`."""

    event: Event


Command = CallModel | CallFunction | RunTool
