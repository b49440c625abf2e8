"""Results: the RunResult for callers, the return of a delegate to its sender, the head of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from changeover.errors import error_of
from changeover.facts import ApprovalRequest, HandoffRecord, Ledger, RunResult, Ticket, Usage
from changeover.ids import offer_of, run_id
from changeover.messages import Message
from changeover.relay.commands import CancelChild, RunChild
from changeover.relay.events import Entry, HandoffReturned
from changeover.relay.fold.answers import open_offers
from changeover.relay.fold.handoffs import last_words
from changeover.relay.ports import Head, Spending
from changeover.relay.run import Outcome
from changeover.relay.state import State


def result_of(conversation: str, outcome: Outcome) -> RunResult:
    """The result of a run that has ended."""
    run = outcome.run
    variables, artifacts, workflow_state = outcome.travelling
    return RunResult(
        output=outcome.output,
        final_agent=outcome.agent,
        run_id=run.ref,
        conversation_id=conversation,
        status=_status(outcome),
        handoff_chain=outcome.handoffs,
        variables=variables,
        handed=outcome.handed,
        artifacts=artifacts,
        workflow_state=workflow_state,
        usage=run.usage,
        cost=run.whole_cost,
        ledger=run.ledger(outcome.at),
        fell_back=run.fell_back,
        returned=outcome.returned,
    )


def waiting_result(state: State, run: int, pending: list[ApprovalRequest | Ticket]) -> RunResult:
    """The interim result of a run that waits for a person's decision or a worker's claim."""
    current = state.run if state.run is not None and state.run.id == run else None
    return RunResult(
        output="",
        final_agent=state.agent,
        run_id=run_id(state.id, run),
        conversation_id=state.id,
        status="waiting",
        handoff_chain=[*state.handoffs[current.first :], *open_offers(state, current)] if current else [],
        variables=state.variables,
        handed=state.handed,
        artifacts=state.artifacts,
        workflow_state=state.workflow_state,
        usage=current.usage if current else Usage(),
        cost=current.whole_cost if current else 0.0,
        ledger=current.ledger(state.at) if current else Ledger(cost=0.0),
        pending=pending,
    )


def handoffs_of(state: State) -> list[HandoffRecord]:
    """Every handoff of a conversation; open offers come last."""
    return [*state.handoffs, *open_offers(state, state.run)] if state.run else state.handoffs


def handoff_in(state: State, id: str) -> HandoffRecord | None:
    """The latest handoff of a conversation that has this id."""
    waiting = open_offers(state, state.run) if state.run else []
    return next((record for record in (*waiting, *reversed(state.handoffs)) if record.id == id), None)


def handoffs_in(entries: Sequence[Entry]) -> list[HandoffRecord]:
    """Every handoff of the conversations with these entries, in the order of their offers."""
    ids = dict.fromkeys(entry.conversation for entry in entries)
    states = [State(id).fold(entry for entry in entries if entry.conversation == id) for id in ids]
    return sorted((record for state in states for record in handoffs_of(state)), key=lambda record: record.at)


def head_of(state: State, working: bool, due: float | None = None) -> Head:
    """The head of a conversation, as readers of the store see it."""
    if state.run is not None or state.inbox or state.callbacks:
        return Head("running" if working else "waiting", state.agent, working, due)
    return Head(_status(state.last) if state.last else "completed", state.agent, working)


def spent_in(outcomes: Iterable[Outcome]) -> tuple[Spending, ...]:
    """What each agent spent in these runs, without delegates: their own conversations hold that."""
    return tuple(
        Spending(outcome.run.id, agent, outcome.at - outcome.run.at, account.share())
        for outcome in outcomes
        for agent, account in outcome.run.accounts.items()
    )


def _status(outcome: Outcome) -> Literal["completed", "failed", "cancelled"]:
    if outcome.cancelled:
        return "cancelled"
    return "failed" if outcome.fault else "completed"


def returned_of(command: RunChild | CancelChild, outcome: Outcome, record: Sequence[Message] = ()) -> HandoffReturned:
    """The return of a delegate; that of a cancelled one holds its last words."""
    run, given = outcome.run, outcome.run.spoken.given
    _, artifacts, workflow_state = outcome.travelling
    return HandoffReturned(
        offer_of(command.id),
        command.task,
        command.receiver,
        success=not (outcome.fault or outcome.cancelled),
        response=last_words(record) if outcome.cancelled else outcome.output,
        author="" if outcome.agent == command.receiver else outcome.agent,
        error=_error(command, outcome),
        fault=outcome.fault,
        cancelled=outcome.cancelled,
        iterations=run.turns,
        tool_calls=run.tool_calls,
        duration=outcome.at - run.at,
        spent=run.spent(),
        artifacts=_new(artifacts, given.artifacts if given else {}),
        workflow_state=_new(workflow_state, given.workflow_state if given else {}),
    )


def _error(command: RunChild | CancelChild, outcome: Outcome) -> str:
    if outcome.cancelled:
        return command.reason if isinstance(command, CancelChild) else "cancelled"
    return str(error_of(outcome.fault, result_of(command.child, outcome))) if outcome.fault else ""


def _new(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    return {} if after is before else {name: value for name, value in after.items() if before.get(name, ...) != value}
