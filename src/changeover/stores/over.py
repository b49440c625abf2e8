"""What every store says of a conversation that is over, and of one that is not."""

from __future__ import annotations

from changeover.errors import EngineError

ENDED = ("completed", "failed", "cancelled")

UNFINISHED = "a run has not ended"
CLAIMABLE = "something waits to be claimed"


def forgotten(root: str) -> EngineError:
    """Somebody followed what is not there any more; under this id, another conversation may begin."""
    return EngineError(f"the conversation {root!r} was forgotten")
