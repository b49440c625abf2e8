"""What every store says of a conversation that is over, and of one that is not."""

from __future__ import annotations

from changeover.errors import EngineError, Owned

ENDED = ("completed", "failed", "cancelled")

UNFINISHED = "an unfinished run"
CLAIMABLE = "whoever claims what waits there"


def at_work(conversation: str, owner: str = UNFINISHED) -> Owned:
    """Something goes on there, or is going to, so that it cannot be forgotten."""
    return Owned(conversation, owner)


def forgotten(root: str) -> EngineError:
    """Somebody followed what is not there any more; under this id, another conversation may begin."""
    return EngineError(f"the conversation {root!r} was forgotten")
