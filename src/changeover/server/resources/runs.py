"""Runs: the work from one message to its answer, its outcome so far, and waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel

from changeover.errors import ChangeoverError, ConversationNotFound
from changeover.facts import ApprovalRequest, HandoffRecord, HandoffResult, Ledger, RunResult, Ticket, Usage
from changeover.facts import State as HandoffState
from changeover.ids import run_id, split_run
from changeover.relay.inputs.requests import Resume, Say
from changeover.relay.ports.lists import RunRow
from changeover.relay.result import error_of, result_of, waiting_result
from changeover.relay.state import State
from changeover.server.problems import Problem
from changeover.server.resource import Filter, Id, Part, Resource, Served, Some, Who, listed, seen
from changeover.server.wire import Json, Page, price
from changeover.team import Team

resource = Resource("runs")

LIMITED = ("handoffs", "turns", "tokens", "cost", "agents")
"""What is limited, by the names of the ledger."""


class Pending(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run waits for: the decision of a person, or the claim of a worker."""

    id: str
    kind: str
    """approval, permission, escalation or task for a person; claim for a worker."""
    conversation: str
    agent: str
    receiver: str = ""
    message: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}
    roles: tuple[str, ...] = ()
    """A person who decides must have one of these; empty allows any person."""
    at: float = 0.0
    expires_at: float | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of a run, or its state so far."""

    conversation: str
    run: str
    status: Literal["queued", "running", "waiting", "completed", "cancelled", "failed"]
    output: Any
    """The answer: as the `output` type of the agent that gave it, else the text."""
    text: str
    """The answer as it was written."""
    agent: str
    agent_name: str
    error: str = ""
    """Why it failed."""
    pending: list[Pending] = []
    handoffs: list[HandoffRecord] = []
    variables: dict[str, Any] = {}
    artifacts: dict[str, str | None] = {}
    workflow_state: dict[str, Any] = {}
    usage: Usage = Usage()
    cost: float | None = None
    """In US dollars; null if the price of a call is unknown."""
    price: str = ""
    """The cost as people read it; in the list of a conversation's runs, of all runs up to this one."""
    ledger: Ledger = Ledger()
    limits: dict[str, float] = {}
    """The limits of the run by the names of the ledger, without those that are not set."""
    guards: list[str] = []
    """The names of the guards that judge its handoffs, as the team is declared now."""


class HandoffOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a package that was offered or submitted."""

    handoff: str
    conversation: str
    agent: str
    """The receiver that accepted it, or that was asked last."""
    agent_name: str
    state: HandoffState
    result: str
    """The answer as it was written."""
    output: Any
    """The answer as the `output` type of the agent that gave it, else the text."""
    reason: str
    """Why no receiver accepted it, or what it waits for."""
    error: str
    """Why the receiver that accepted it failed."""
    iterations: int
    duration: float
    pending: list[Pending]


def handoff_outcome(result: HandoffResult) -> HandoffOutcome:
    """The result of a handoff for clients."""
    return HandoffOutcome(
        handoff=result.handoff_id,
        conversation=result.conversation_id,
        agent=result.agent,
        agent_name=result.agent_name,
        state=result.state,
        result=result.result,
        output=_plain(result.output),
        reason=result.reason,
        error=result.error,
        iterations=result.iterations,
        duration=result.duration,
        pending=[_pending(each) for each in result.pending],
    )


def _plain(output: Any) -> Any:
    """An answer of any type as JSON holds it."""
    if isinstance(output, BaseModel):
        return output.model_dump(mode="json")
    return msgspec.to_builtins(output, enc_hook=str)


def outcome_of(result: RunResult, error: str = "") -> Outcome:
    """A run's result for clients."""
    return Outcome(
        conversation=result.conversation_id,
        run=result.run_id,
        status=result.status,
        output=_plain(result.output),
        text=result.text,
        agent=result.final_agent,
        agent_name=result.final_agent_name,
        error=error,
        pending=[_pending(each) for each in result.pending],
        handoffs=result.handoff_chain,
        variables=dict(result.variables),
        artifacts=dict(result.artifacts),
        workflow_state=dict(result.workflow_state),
        usage=result.usage,
        cost=result.cost,
        price=price(result.cost),
        ledger=result.ledger,
    )


def _pending(awaited: ApprovalRequest | Ticket) -> Pending:
    found = Pending(
        id=awaited.id,
        kind=awaited.kind,
        conversation=awaited.conversation,
        agent=awaited.agent,
        receiver=awaited.receiver,
        at=awaited.at,
    )
    if isinstance(awaited, Ticket):
        return replace(found, expires_at=awaited.deadline)
    return replace(
        found,
        message=awaited.message,
        tool=awaited.tool,
        arguments=awaited.arguments,
        roles=awaited.roles,
        expires_at=awaited.expires_at,
    )


async def ended(team: Team, input: Say | Resume) -> Outcome:
    """Put an input and wait for the outcome of its run; a run that failed has an outcome too."""
    try:
        return outcome_of(await team.engine.result(input))
    except ChangeoverError as error:
        if error.result is None:
            raise
        return outcome_of(error.result, str(error))


async def ended_within(seconds: float, team: Team, input: Say | Resume) -> Outcome | None:
    """The outcome of an input, or None if it does not come in time; the run goes on."""
    running = asyncio.ensure_future(ended(team, input))
    running.add_done_callback(lambda task: task.cancelled() or task.exception())
    done, _ = await asyncio.wait({running}, timeout=seconds)
    return running.result() if done else None


@resource.route("GET /runs", Page[RunRow])
async def list_runs(  # noqa: PLR0913 - each is a parameter of the query
    team: Served,
    who: Who,
    part: Part,
    *,
    status: Filter = None,
    agent: Filter = None,
    conversation: Filter = None,
    user: Filter = None,
) -> Json:
    """The runs of all conversations, the newest first; of one conversation with its delegates if it is named."""
    wanted = {"status": status, "agent": agent, "user": user}
    return await listed(team, who, RunRow, wanted, part, within=conversation)


@resource.route("GET /conversations/{id:path}/runs", Page[Outcome], refusals={404: "There is no such conversation"})
async def conversation_runs(id: Id, team: Served, who: Who, some: Some) -> Json:
    """The runs of a conversation, the first one first."""
    await seen(team, who, id)
    state = await state_of(team, id)
    return some.page(list(_summed([_limited(team, state, each) for each in _runs(state)])))


def _summed(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes, each with the price of all up to it."""
    total: float | None = 0.0
    for each in outcomes:
        total = None if total is None or each.cost is None else total + each.cost
        yield replace(each, price=price(total))


@resource.route("GET /runs/{id:path}", Outcome, refusals={404: "There is no such run"})
async def read_run(id: Id, team: Served, who: Who) -> Json:
    """The outcome of a run, or its state so far."""
    conversation, position = split_run(id)
    missing = Problem(404, f"no run has the id {id!r}", kind="run-not-found")
    await seen(team, who, conversation, missing)
    state = await state_of(team, conversation)
    if not position.isdecimal() or len(position) > 9 or int(position) not in _runs(state):
        raise missing
    return Json(_limited(team, state, int(position)))


def _limited(team: Team, state: State, run: int) -> Outcome:
    """The outcome of a run, with its limits and guards."""
    known = state.outcomes[run].run if run in state.outcomes else state.run
    limits = (known.limits if known is not None and known.id == run else None) or team.roster.limits
    found = {name: getattr(limits, f"max_{name}") for name in LIMITED}
    set_ones = {name: float(most) for name, most in found.items() if most is not None}
    roster = team.roster
    guards = [type(each).__name__ for each in (*roster.guards, roster.breaker) if each is not None]
    return replace(outcome_in(state, run), limits=set_ones, guards=guards)


async def state_of(team: Team, conversation: str) -> State:
    """The state of a conversation; raises ConversationNotFound."""
    entries = await team.log.read(conversation)
    if not entries:
        raise ConversationNotFound(conversation)
    return State(conversation).fold(entries)


def _runs(state: State) -> list[int]:
    current = [state.run.id] if state.run else []
    return [*state.outcomes, *current, *state.inbox]


def outcome_in(state: State, run: int) -> Outcome:
    """The outcome of a run for clients, or its state so far."""
    if (outcome := state.outcomes.get(run)) is not None:
        result = result_of(state.id, outcome)
        return outcome_of(result, str(error_of(outcome.fault, result)) if outcome.fault else "")
    so_far = outcome_of(waiting_result(state, run, []))
    return replace(
        so_far, run=run_id(state.id, run), status="running" if state.run and state.run.id == run else "queued"
    )
