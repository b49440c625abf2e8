"""What events mean for the context that travels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.relay.events import ContextPacked
from changeover.relay.fold.calls import find
from changeover.relay.run import Run
from changeover.relay.turn import Offered

if TYPE_CHECKING:
    from changeover.relay.state import State


def pack(state: State, run: Run, event: ContextPacked) -> None:
    if event.usage is not None:
        run.charge(state.agent, event.usage)
        state.summaries += 1
    found = find(run, event.call, Offered)
    if not found or not isinstance(offered := found[1].phase, Offered) or offered.offer.call != event.call:
        return
    turn, call = found
    if event.chapter is not None and event.covered > state.covered:
        # Others who were offered something in the same reply made one of the same messages; the first stands.
        state.chapters, state.covered = (*state.chapters, event.chapter), event.covered
    call.phase = replace(offered, packed=event)
    turn.idle[call.id] = call
