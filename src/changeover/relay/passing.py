"""What a handoff leaves behind: the record that people read, and what its receiver may know of it."""

from __future__ import annotations

from changeover.facts import Handed, HandoffRecord
from changeover.facts import State as Standing
from changeover.handoffs.protocol import Signal, advance
from changeover.handoffs.strategies import MessageOnly
from changeover.messages import Message, Note, User
from changeover.relay.events import HandoffOffered
from changeover.relay.run import Run
from changeover.relay.turn import Offered, OpenCall

IN_WORK = advance(Standing.PENDING, Signal.ACCEPT, Signal.START)
"""In process, a receiver begins in the very append that records its acceptance."""


def record_of(conversation: str, position: int, run: Run, call: OpenCall, offered: Offered) -> HandoffRecord:
    """The handoff that was accepted at this position, as people read it."""
    offer = offered.offer
    return HandoffRecord(
        f"{conversation}:{call.id}",
        offer.sender,
        offer.receiver,
        offer.message,
        offer.mode,
        IN_WORK,
        offered.at,
        call.call.name,
        offer.variables,
        offer.strategy,
        run.ref,
        f"{conversation}#{position}",
    )


def handed_of(offer: HandoffOffered, tool: str, run: Run, now: float, path: list[str]) -> Handed:
    """The handoff as its receiver finds it, with what the run had spent by then."""
    return Handed(
        offer.sender,
        offer.message,
        tool,
        offer.instructions,
        run.tokens,
        now - run.at,
        run.retries,
        path,
        len(path),
    )


def thread_of(offer: HandoffOffered, run: Run, thread: list[Message]) -> list[Message]:
    """What the receiver's model reads of the sender's thread."""
    if offer.strategy != MessageOnly.name:
        return thread
    # A new list: the old one is still read through the views of earlier requests.
    return [User(run.spoken.text, run.spoken.user or "user"), Note(offer.message, offer.sender)]
