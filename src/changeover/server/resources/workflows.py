"""Workflows: definitions with their drawings, the start of a workflow, the progress of its steps, and their retry."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from fastapi import Path
from fastapi.responses import Response
from msgspec import Struct

from changeover.facts import StepReport, WorkflowRun
from changeover.guards.limits import Limits
from changeover.ids import run_id
from changeover.inputs import conversation_id, started
from changeover.observe.drawing.workflow_map import WorkflowMap, input_names, workflow_map
from changeover.observe.metrics import window_of
from changeover.observe.step_metrics import step_metrics
from changeover.relay.inputs.requests import Resume, Say
from changeover.relay.ports.lists import ApprovalRow
from changeover.relay.result import error_of, result_of
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.server.access import Caller
from changeover.server.problems import Problem
from changeover.server.resource import Id, Key, Resource, Served, Who, free_or_seen, own_key, seen
from changeover.server.resources.conversations import RUN, Manner, answered
from changeover.server.resources.figures import StepFigures, Window, step_figures
from changeover.server.resources.runs import state_of
from changeover.server.wire import Json, Page, body
from changeover.team import Team
from changeover.workflows.flow import Flow
from changeover.workflows.plan import Plan, plan_of

resource = Resource("workflows")

StepId = Annotated[str, Path(min_length=1, max_length=64)]


class WorkflowView(Struct, frozen=True, kw_only=True):
    """A workflow of the team."""

    id: str
    name: str
    description: str
    steps: int
    """Number of steps."""
    inputs: list[str]
    """The names of the inputs that its expressions read; functions may read more."""


class WorkflowDetail(WorkflowView, frozen=True, kw_only=True):
    """A workflow with its definition and its drawing."""

    definition: Plan
    """As runs record it; functions are in it by name."""
    map: WorkflowMap


class NewRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a workflow is started with."""

    inputs: dict[str, Any] | str | None = None
    """Values by name, or a text."""
    conversation: str | None = None
    """The id of the conversation; by default a new one."""
    context: dict[str, Any] | None = None
    limits: Limits | None = None


class WorkflowProgress(Struct, frozen=True, kw_only=True):
    """The progress of a run of a workflow; its map is that of the definition that the run began with."""

    conversation: str
    run: str
    workflow: str
    name: str
    status: str
    """running, completed, failed, cancelled, or rolling back: the steps that were done are being undone."""
    error: str
    inputs: Any
    map: WorkflowMap
    steps: list[StepReport]
    waits_for: dict[str, str]
    """By step, the id of the request that a person has to decide first."""
    next_tries: dict[str, float]
    """By step, when its next attempt may begin."""


@resource.route("GET /workflows", Page[WorkflowView])
async def list_workflows(team: Served) -> Json:
    """The workflows of the team."""
    return Json(Page([WorkflowView(**_about(plan)) for plan in await plans(team)]))


@resource.route("GET /workflows/{id}", WorkflowDetail, refusals={404: "There is no such workflow"})
async def read_workflow(id: Id, team: Served) -> Json:
    """A workflow with its definition, and with the places of its steps."""
    plan = await _plan(team, id)
    drawing = await _drawn(plan)
    return Json(WorkflowDetail(**_about(plan), definition=plan, map=drawing))


@resource.route(
    "POST /workflows/{id}/runs",
    RUN,
    body=NewRun,
    refusals={404: "There is no such workflow", 409: "The id or the key is taken"},
)
async def start_workflow(
    id: Id, team: Served, who: Who, given: Annotated[NewRun, body(NewRun)], manner: Manner, key: Key = None
) -> Response:
    """Start a workflow. Answers at once, waits for the outcome, or streams the run."""
    say = await start_of(team, who, id, given, key)
    return await answered(team, say, manner)


@resource.route(
    "GET /conversations/{id:path}/workflows",
    Page[WorkflowProgress],
    refusals={404: "There is no such conversation"},
)
async def list_progress(id: Id, team: Served, who: Who) -> Json:
    """The runs of workflows in a conversation, the newest first, with the progress of their steps."""
    await seen(team, who, id)
    state = await state_of(team, id)
    pending = await team.log.lists.listed(ApprovalRow, {"status": "pending"}, id, limit=100)
    asked = {_call(each, id): each.id for each in pending}
    return Json(Page([await _progress(state, run, run.flow, asked) for run in _runs(state) if run.flow is not None]))


@resource.route(
    "POST /conversations/{id:path}/steps/{step}/retry",
    RUN,
    refusals={404: "There is no such conversation", 409: "Its workflow has not ended"},
)
async def retry_step(id: Id, step: StepId, team: Served, who: Who, manner: Manner) -> Response:
    """Repeat a step of the workflow that ended last here, and all steps after it."""
    await seen(team, who, id)
    return await answered(team, Resume(id, step), manner)


@resource.route("GET /workflows/{id}/metrics", Page[StepFigures], refusals={404: "There is no such workflow"})
async def read_step_metrics(id: Id, team: Served, window: Window = None) -> Json:
    """The metrics of the steps of a workflow in the runs that ended, in the order of declaration."""
    plan = await _plan(team, id)
    span = window_of(window, team.clock.now())
    found = {each.step: each for each in step_figures(await step_metrics(team.log.measures, *span, id))}
    known = [step.id for step in plan.steps if step.id in found]
    return Json(Page([found.pop(step) for step in known] + list(found.values())))


async def plans(team: Team) -> list[Plan]:
    """The workflows of a team as data."""
    roster = (await team.engine.world()).roster
    return [plan_of(each) for each in roster.workflows.values()]


async def start_of(team: Team, who: Caller, id: str, given: NewRun, key: str | None) -> Say:
    """The input that starts a workflow for a caller; raises Problem."""
    await _plan(team, id)
    own = own_key(key, who)
    where = conversation_id(given.conversation, own or "")
    if where and not await free_or_seen(team, who, where) and not key:
        raise Problem(409, f"the conversation {where!r} exists; give another id", kind="exists")
    options = {"conversation": given.conversation, "context": given.context, "limits": given.limits, "key": own}
    return started(team.roster.workflows[id], given.inputs, {**options, "user": who.user or None})


async def _plan(team: Team, id: str) -> Plan:
    found = {plan.id: plan for plan in await plans(team)}
    if id not in found:
        known = ", ".join(sorted(found)) or "none"
        raise Problem(404, f"no workflow is called {id!r}; this team has: {known}", kind="workflow-not-found")
    return found[id]


async def _drawn(plan: Plan) -> WorkflowMap:
    """The map of a plan; one with hundreds of steps takes long to place."""
    return await asyncio.to_thread(_placed, msgspec.json.encode(plan))


@lru_cache(maxsize=16)
def _placed(plan: bytes) -> WorkflowMap:
    return workflow_map(msgspec.json.decode(plan, type=Plan))


def _about(plan: Plan) -> dict[str, Any]:
    return {
        "id": plan.id,
        "name": plan.title,
        "description": plan.description,
        "steps": len(plan.steps),
        "inputs": input_names(plan),
    }


def _runs(state: State) -> list[Run]:
    """The runs of a conversation, the newest first."""
    ended = [outcome.run for outcome in state.outcomes.values()]
    return [*([state.run] if state.run else []), *reversed(ended)]


def _call(request: ApprovalRow, root: str) -> str:
    """The call of a conversation that waits for a request, which a delegate below the call may have made."""
    if request.conversation == root:
        return request.id.split(":")[1]
    return request.conversation.removeprefix(f"{root}/").partition("/")[0]


async def _progress(state: State, run: Run, flow: Flow, asked: dict[str, str]) -> WorkflowProgress:
    outcome, error, status = state.outcomes.get(run.id), "", "rolling back" if flow.fault else "running"
    if outcome is not None:
        result = result_of(state.id, outcome)
        status = "failed" if outcome.fault else result.status
        error = str(error_of(outcome.fault, result)) if outcome.fault else ""
    waiting = {flow.calls[call][0].step: approval for call, approval in asked.items() if call in flow.calls}
    return WorkflowProgress(
        conversation=state.id,
        run=run_id(state.id, run.id),
        workflow=flow.plan.id,
        name=flow.plan.title,
        status=status,
        error=error,
        inputs=flow.inputs,
        map=await _drawn(flow.plan),
        steps=flow.report(),
        waits_for=waiting,
        next_tries={piece.step: piece.not_before for piece, _ in flow.calls.values() if piece.not_before},
    )


class Conducting:
    """The workflows of a team, for one caller of the command line."""

    def __init__(self, team: Team, who: Caller) -> None:
        self._team, self._who = team, who

    async def listed(self) -> list[Plan]:
        return await plans(self._team)

    async def start(
        self, workflow: str, inputs: dict[str, Any] | str | None, conversation: str | None, key: str | None
    ) -> WorkflowRun:
        say = await start_of(self._team, self._who, workflow, NewRun(inputs=inputs, conversation=conversation), key)
        ref = await self._team.engine.put(say)
        id = run_id(ref.conversation, ref.run)
        return WorkflowRun(workflow=workflow, conversation_id=ref.conversation, run_id=id)

    async def retry(self, conversation: str, step: str) -> None:
        await seen(self._team, self._who, conversation)
        await self._team.engine.put(Resume(conversation, step))
