"""What callers are given of a run."""

from __future__ import annotations

from changeover.facts import RunResult
from changeover.relay.ports import Head
from changeover.relay.run import Outcome
from changeover.relay.state import State


def result_of(conversation: str, outcome: Outcome) -> RunResult:
    """The result of a run that has ended."""
    run = outcome.run
    return RunResult(
        output=outcome.output,
        final_agent=outcome.agent,
        run_id=run.ref,
        conversation_id=conversation,
        status="failed" if outcome.fault else "completed",
        handoff_chain=outcome.handoffs,
        variables=outcome.variables,
        handed=outcome.handed,
        usage=run.usage,
        ledger=run.ledger(outcome.at),
    )


def head_of(state: State, working: bool) -> Head:
    """How the conversation stands, for those who look from outside."""
    if state.run is not None or state.inbox:
        return Head("running", state.agent, working)
    last = state.last
    return Head("failed" if last is not None and last.fault else "completed", state.agent, working)
