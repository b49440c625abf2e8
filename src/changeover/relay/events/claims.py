"""Work that is served by claims: who took it up again, and from whom it fell back."""

from __future__ import annotations

from changeover.relay.events.recordable import Recordable


class TicketTaken(Recordable, frozen=True, tag="ticket_taken"):
    """A worker took up what an agent owes. That a handoff was taken first is said by its acceptance."""

    ticket: str
    by: str


class TicketLapsed(Recordable, frozen=True, tag="ticket_lapsed"):
    """Whoever had taken it does not work on it any more: anybody may take it."""

    ticket: str
    reason: str
    by: str = ""
    """The worker that gave it back, if it said so itself."""
    worn_out: bool = False
    """That happened so often that a person is asked."""
