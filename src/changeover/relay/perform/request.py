"""The request of a model call: its instructions, messages and tools, by the declarations and the run's state."""

from __future__ import annotations

import logging
from inspect import isawaitable
from typing import Any

from changeover.agent.agent import Instructions
from changeover.agent.moves import CONDITIONAL, closed
from changeover.agent.roster import Seat, tried_model
from changeover.agent.specialist import ToSpecialist, guidance
from changeover.copies import original
from changeover.handoffs.context import briefed
from changeover.relay.commands import CallModel
from changeover.relay.perform.broker import described
from changeover.relay.perform.context import DEFINITION
from changeover.relay.ports.world import Model, Request, World
from changeover.tools.run_context import RunContext
from changeover.tools.tool import ToolDefinition

logger = logging.getLogger("changeover.relay")

LAST_WORD = "This is the last reply this run may take: no tool is left, answer the user now."


def declared_for(world: World, command: CallModel) -> tuple[Instructions, Model]:
    """The instructions and the model of the agent, under the experiments of this tree."""
    agent = command.context.agent
    if not command.variants:
        return _seat(world, command).agent.instructions, world.models[agent]  # most calls
    tried = _tried(world, command)
    return tried.get("instructions", _seat(world, command).agent.instructions), world.models[tried.get("model", agent)]


def _seat(world: World, command: CallModel) -> Seat:
    seat = world.roster.seats[command.context.agent]
    assert isinstance(seat, Seat)
    return seat


def _tried(world: World, command: CallModel) -> dict[str, Any]:
    """The agent's instructions and model name under the experiments of this tree."""
    agent, found = command.context.agent, dict[str, Any]()
    for subject in ("instructions", "model"):
        trial = world.roster.trials.get((subject, agent))
        variant = command.variants.get(trial.name) if trial else None
        if trial is None or variant not in trial.variants:
            continue  # there is no experiment, or the variant was removed
        named = subject == "model"
        found[subject] = tried_model(agent, trial.name, variant) if named else trial.variants[variant]
    return found


async def written(declared: Instructions, context: RunContext) -> str:
    """The instructions as a text; a function writes them for each call."""
    if isinstance(declared, str):
        return declared
    text: object = declared(context)
    if isawaitable(text):
        text = await text
    if not isinstance(text, str):
        raise TypeError(f"the function that writes its instructions returned {text!r:.100}, not a text")
    return text


def request_of(world: World, command: CallModel, instructions: str, model: Model) -> Request:
    """The request of a model call whose agent has these instructions."""
    context, seat = command.context, _seat(world, command)
    tools = _tools(seat, command) if getattr(model, "calls_tools", True) else ()
    if seat.seeks and command.handoffs and any(tool.name == seat.seeks for tool in tools):
        instructions = f"{instructions}\n\n{_guided(world, seat)}".lstrip()
    own_instructions, variables = instructions, original(context, "context")
    if context.handed or variables:
        instructions = briefed(instructions, variables, context.handed)
    if command.last:
        instructions = f"{instructions}\n\n{LAST_WORD}"
    return Request(
        agent=context.agent,
        instructions=instructions,
        messages=command.thread,
        tools=tools,
        settings=seat.agent.settings,
        conversation=context.conversation,
        command=command.id,
        attempt=command.attempt,
        turn=command.turn,
        own_instructions=own_instructions,
        context=context,
    )


def _guided(world: World, seat: Seat) -> str:
    """The guidance of an agent that may ask for a specialist: which specialists there are."""
    move = seat.moves[seat.seeks]
    assert isinstance(move, ToSpecialist)
    others = [each for each in world.registry.available if each.id != seat.agent.id and each.id in world.roster.seats]
    return guidance(seat.seeks, described([each for each in others if not move.among or each.id in move.among]))


def _tools(seat: Seat, command: CallModel) -> tuple[ToolDefinition, ...]:
    if command.last:
        return ()
    definitions = seat.definitions if command.handoffs else seat.alone
    if seat.conditional:
        definitions = tuple(each for each in definitions if _is_open(seat, each.name, command.context))
    return (*definitions, DEFINITION) if command.fetches else definitions


def _is_open(seat: Seat, name: str, context: RunContext) -> bool:
    """True if the condition of a tool, a handoff or a delegate lets the model see it."""
    move = seat.moves[name]
    if not isinstance(move, CONDITIONAL) or not (why := closed(move.declared.when, context)):
        return True
    if "could not be judged" in why:
        logger.warning("%s is not shown to the model: %s", name, why)
    return False
