"""Prompts: the prompt of an agent's model, exactly as the engine would send it, with the last task of the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from changeover.agent.roster import Seat
from changeover.handoffs.tokens import count
from changeover.ids import split_task
from changeover.messages import Assistant, Message, Note, ToolResult, User, View
from changeover.relay.commands import CallModel
from changeover.relay.perform.request import declared_for, request_of, written
from changeover.relay.ports.lists import HandoffRow
from changeover.relay.ports.world import World
from changeover.relay.state import State, context_of
from changeover.server.access import Caller
from changeover.server.problems import Problem
from changeover.server.resource import Id, Resource, Served, Who, visible
from changeover.server.resources.agents import NOT_FOUND, known_agent
from changeover.server.wire import Json
from changeover.team import Team
from changeover.tools.run_context import RunContext
from changeover.tools.tool import ToolDefinition

resource = Resource("prompts")

PREVIEW = "preview"
"""The conversation of a prompt that belongs to none."""
MOST_LINES = 20
ROLES: dict[type[Message], str] = {User: "user", Assistant: "assistant", ToolResult: "tool", Note: "note"}


class SentTool(Struct, frozen=True):
    """A function as models get it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON schema of its arguments."""


class Line(Struct, frozen=True):
    """A message of a prompt."""

    role: str
    text: str


class NextPrompt(Struct, frozen=True, kw_only=True):
    """The prompt of one call of a model."""

    agent: str
    instructions: str
    """The system prompt: the agent's own, and what the handoff adds."""
    own: str
    """The agent's own instructions in it."""
    tools: list[SentTool]
    settings: dict[str, Any]
    messages: list[Line]
    """The last messages that it reads."""
    left_out: int
    """How many messages come before them."""
    tokens: int
    """Of instructions and tools."""
    handoff: str = ""
    """The handoff whose package is in it: the last one to this agent; empty if there was none."""


@resource.route("GET /agents/{id}/prompt", NextPrompt, refusals={**NOT_FOUND, 409: "It has no model"})
async def read_prompt(id: Id, team: Served, who: Who) -> Json:
    """The prompt that the model of an agent would get if its last task came now."""
    await known_agent(team, id)
    world = await team.engine.world()
    if not has_model(world, id):
        raise Problem(409, f"{id!r} has no model, so there is no prompt", kind="no-prompt")
    return Json(await prompt_of(team, who, world, id))


def has_model(world: World, agent: str) -> bool:
    """True if a member has a model here; workers elsewhere may have that of an agent whose tasks they claim."""
    return isinstance(world.roster.seats.get(agent), Seat) and agent in world.models


async def prompt_of(team: Team, who: Caller, world: World, agent: str) -> NextPrompt:
    """The prompt of an agent in this world, with the last handoff to it that the caller may see."""
    row, command = await _last(team, who, agent)
    declared, model = declared_for(world, command)
    request = request_of(world, command, await written(declared, command.context), model)
    tools, thread = [sent(each) for each in request.tools], command.thread
    return NextPrompt(
        agent=agent,
        instructions=request.instructions,
        own=request.own_instructions or "",
        tools=tools,
        settings=dict(request.settings),
        messages=[Line(ROLES.get(type(each), "note"), each.text) for each in thread[-MOST_LINES:]],
        left_out=max(0, len(thread) - MOST_LINES),
        tokens=count(request.instructions) + count(msgspec.json.encode(tools).decode()),
        handoff=row.id if row else "",
    )


def sent(definition: ToolDefinition) -> SentTool:
    """A tool as models get it."""
    return SentTool(definition.name, definition.description, dict(definition.parameters))


async def _last(team: Team, who: Caller, agent: str) -> tuple[HandoffRow | None, CallModel]:
    """The first model call of the last task that was handed to an agent, and the handoff; else an empty call."""
    rows: Sequence[HandoffRow] = await team.log.lists.listed(
        HandoffRow, visible(team, who, {"receiver": agent}), limit=5, sort="-offered_at"
    )
    for row in rows:
        if row.task_id and (command := await _call(team, row.task_id)):
            return row, command
    return None, CallModel(PREVIEW, 0, RunContext(PREVIEW, PREVIEW, agent, PREVIEW), View([]), 0)


async def _call(team: Team, task: str) -> CallModel | None:
    conversation, position = split_task(task)
    state = State(conversation)
    for entry in await team.log.read(conversation):
        state.fold([entry])
        if str(state.task) == position and (run := state.run):
            return CallModel(PREVIEW, state.task, context_of(state, run, PREVIEW), View(state.thread), 0)
    return None
