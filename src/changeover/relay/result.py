"""Results: the RunResult for callers, the error of a failed run, a delegate's return, the head of a conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, assert_never

from msgspec.structs import replace

from changeover.agent.roster import Roster
from changeover.errors import (
    ChangeoverError,
    CircuitBreakerOpen,
    DeadlockDetected,
    EconomicLimitExceeded,
    ExpectationError,
    FunctionError,
    HandoffRefusedError,
    HandoffTargetNotFoundError,
    MaxHandoffsExceededError,
    ModelError,
    StepError,
    UnknownAgentError,
    WorkerError,
)
from changeover.facts import ApprovalRequest, DelegateResult, HandoffRecord, Ledger, Mode, RunResult, Ticket, Usage
from changeover.faults import (
    AgentFault,
    Fault,
    FunctionFault,
    LimitFault,
    ModelFault,
    ReceiverFault,
    RefusalFault,
    ResultFault,
    StepFault,
    WorkerFault,
)
from changeover.handoffs.context import changed
from changeover.ids import descent, offer_of, run_id, split_handoff, split_task
from changeover.messages import Message
from changeover.relay.commands import CancelChild, RunChild
from changeover.relay.events import Entry, HandoffReturned
from changeover.relay.fold.answers import open_offers
from changeover.relay.fold.handoffs import last_words
from changeover.relay.ports.log import Head, Spending
from changeover.relay.run import Outcome
from changeover.relay.state import State


def result_of(conversation: str, outcome: Outcome, chain: list[HandoffRecord] | None = None) -> RunResult:
    """The result of a run that has ended; `chain` includes what its delegates handed on."""
    run = outcome.run
    variables, artifacts, workflow_state = outcome.travelling
    return RunResult(
        output=outcome.output,
        text=outcome.output,
        final_agent=outcome.agent,
        final_agent_name=outcome.name,
        run_id=run.ref,
        conversation_id=conversation,
        status=_status(outcome),
        handoff_chain=outcome.handoffs if chain is None else chain,
        variables=variables,
        handed=outcome.handed,
        artifacts=artifacts,
        workflow_state=workflow_state,
        usage=run.usage,
        cost=run.whole_cost,
        ledger=run.last_ledger(outcome),
        fell_back=run.fell_back,
        returned=outcome.returned,
    )


def error_of(fault: Fault, result: RunResult) -> ChangeoverError:
    """The exception to raise for this fault, with the result so far."""
    error: ChangeoverError
    match fault:
        case LimitFault(limit="max_handoffs"):
            error = MaxHandoffsExceededError(fault.figure, result.handoff_chain, result)
        case LimitFault():
            error = EconomicLimitExceeded(fault.limit, fault.figure, result, fault.spent)
        case ReceiverFault():
            error = HandoffTargetNotFoundError(fault.sender, fault.receiver, fault.available)
        case RefusalFault():
            error = _refusal(fault)
        case ResultFault():
            error = ExpectationError(fault.agent, fault.reason)
        case ModelFault() | WorkerFault() | FunctionFault():
            error = _failure(fault)
        case AgentFault() | StepFault():
            error = _misplaced(fault)
        case _:
            assert_never(fault)
    error.result = result
    return error


def _refusal(fault: RefusalFault) -> HandoffRefusedError:
    if fault.cycle:
        return DeadlockDetected(fault.agent, fault.reason, fault.cycle)
    if fault.circuit is not None:
        return CircuitBreakerOpen(fault.agent, fault.reason, fault.circuit)
    return HandoffRefusedError(fault.agent, fault.reason)


def _misplaced(fault: AgentFault | StepFault) -> ChangeoverError:
    if isinstance(fault, AgentFault):
        return UnknownAgentError(fault.agent, fault.available)
    return StepError(fault.workflow, fault.step, fault.reason)


def _failure(fault: ModelFault | WorkerFault | FunctionFault) -> ChangeoverError:
    match fault:
        case ModelFault(agent=agent, reason=reason):
            return ModelError(f"{agent!r} got no usable reply from its model: {reason}", agent=agent)
        case WorkerFault(agent=agent, reason=reason):
            return WorkerError(f"the worker of {agent!r} gave up: {reason}", agent=agent)
        case FunctionFault(agent=agent, reason=reason):
            return FunctionError(f"the function of {agent!r} raised {reason}", agent=agent)


def waiting_result(state: State, run: int, pending: list[ApprovalRequest | Ticket]) -> RunResult:
    """The interim result of a run that waits for a person's decision or a worker's claim."""
    current = state.run if state.run is not None and state.run.id == run else None
    return RunResult(
        output="",
        text="",
        final_agent=state.agent,
        final_agent_name=state.names.get(state.agent, state.agent),
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


def typed(result: RunResult, roster: Roster) -> RunResult:
    """The result of a run with its answers as values of the types that their agents declare."""
    if result.status != "completed":
        return result
    output = roster.value(result.final_agent, result.text)
    if output is result.text and not result.returned:
        return result
    return replace(result, output=output, returned=typed_returns(result.returned, roster))


def typed_returns(returned: Iterable[DelegateResult], roster: Roster) -> tuple[DelegateResult, ...]:
    """The results of delegates with their responses as values of the types that their agents declare."""
    return tuple(replace(each, output=roster.value(each.author or each.agent, each.response)) for each in returned)


def handoffs_of(state: State) -> list[HandoffRecord]:
    """Every handoff of a conversation; open offers come last."""
    return [*state.handoffs, *open_offers(state, state.run)] if state.run else state.handoffs


def handoff_in(state: State, id: str) -> HandoffRecord | None:
    """The latest handoff of a conversation that has this id."""
    waiting = open_offers(state, state.run) if state.run else []
    return next((record for record in (*waiting, *reversed(state.handoffs)) if record.id == id), None)


def attempts_of(state: State, id: str) -> list[HandoffRecord]:
    """All attempts of the task of a handoff, the first one first; empty if there is no such handoff."""
    records = {record.id: record for record in handoffs_of(state)}
    if id not in records:
        return []
    attempts = [records[id]]
    while (before := records.get(attempts[0].retry_of)) is not None:
        attempts.insert(0, before)
    for record in records.values():
        if record.retry_of == attempts[-1].id:
            attempts.append(record)
    return attempts


def handoffs_in(entries: Sequence[Entry]) -> list[HandoffRecord]:
    """Every handoff of the conversations with these entries, in the order of their offers."""
    ids = dict.fromkeys(entry.conversation for entry in entries)
    states = [State(id).fold(entry for entry in entries if entry.conversation == id) for id in ids]
    return _ordered(record for state in states for record in handoffs_of(state))


async def whole_chain(own: Sequence[HandoffRecord], state_of: Callable[[str], Awaitable[State]]) -> list[HandoffRecord]:
    """These handoffs of a conversation, and those that their delegates made, in the order of their offers.

    `state_of` gives the state of a delegate's conversation.
    """
    found = list(own)
    for record in own:
        if record.mode is Mode.DELEGATE and record.task_id:
            child = await state_of(split_task(record.task_id)[0])
            found += await whole_chain(handoffs_of(child), state_of)
    return _ordered(found)


def _ordered(records: Iterable[HandoffRecord]) -> list[HandoffRecord]:
    """By time; of the same time, those of a conversation come before those of its delegates."""
    return sorted(records, key=lambda record: (record.at, descent(split_handoff(record.id)[0])))


def head_of(
    state: State,
    working: bool,
    due: float | None = None,
    spent: tuple[Spending, ...] = (),
    edition: int | None = None,
) -> Head:
    """The head of a conversation, as readers of the store see it."""
    if state.run is not None or state.inbox or state.callbacks:
        return Head("running" if working else "waiting", state.agent, working, due, (), (), (), spent, edition)
    over = _status(state.last) if state.last else "completed"
    return Head(over, state.agent, working, None, (), (), (), spent, edition)


def spent_in(outcomes: Iterable[Outcome]) -> tuple[Spending, ...]:
    """The spending of each agent in these runs, without delegates: their own conversations hold that."""
    return tuple(
        Spending(outcome.run.id, agent, outcome.at - outcome.run.at, share)
        for outcome in outcomes
        for agent, share in outcome.shares.items()
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
        artifacts=changed(artifacts, given.artifacts if given else {}),
        workflow_state=changed(workflow_state, given.workflow_state if given else {}),
        partial=last_words(record) if outcome.fault else "",
        by=run.by if outcome.cancelled else run.by or outcome.agent,
    )


def _error(command: RunChild | CancelChild, outcome: Outcome) -> str:
    if outcome.cancelled:
        return command.reason if isinstance(command, CancelChild) else "cancelled"
    return str(error_of(outcome.fault, result_of(command.child, outcome))) if outcome.fault else ""
