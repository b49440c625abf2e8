"""The run as whoever performs a command may see it."""

from __future__ import annotations

from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.tools.run_context import RunContext


def context_of(state: State, run: Run, command: str) -> RunContext:
    """What tools, Function members and instructions are given."""
    spoken = run.spoken
    return RunContext(
        state.id,
        run.ref,
        state.agent,
        command,
        spoken.text,
        spoken.user,
        spoken.correlation_id,
        state.variables,
        state.handed,
        state.artifacts,
        state.workflow_state,
        state.returned,
    )
