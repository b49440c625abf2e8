"""What every store asks about claims and tickets."""

from __future__ import annotations

from changeover.errors import ClaimLost
from changeover.relay.ports import Head
from changeover.relay.queue import Claim


def about_tickets(head: Head | None, claim: Claim | None) -> bool:
    """Whether an entry has anything to do with tickets; most have not, and should not pay for those that do."""
    return claim is not None or (head is not None and bool(head.tickets or head.rests or head.gone))


def lost(claim: Claim, open_: bool, owner: str | None) -> ClaimLost:
    """The claim does not hold, whether or not its ticket is open; if it is, this is who has it."""
    if not open_:
        return ClaimLost(claim.ticket, "there is nothing left to do")
    return ClaimLost(claim.ticket, "somebody else has it" if owner else "it waits for whoever takes it next")
