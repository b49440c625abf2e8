"""`perform`, which carries out a command for any engine, and the calls of models, tools and functions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from math import isfinite
from typing import Any

from msgspec.structs import replace

from changeover.agent.agent import Function, Instructions
from changeover.agent.moves import CONDITIONAL, closed, misfit_words, not_json
from changeover.agent.roster import Seat, tried_model
from changeover.agent.specialist import ToSpecialist, guidance
from changeover.copies import original
from changeover.errors import ModelError
from changeover.facts import ONE_REQUEST
from changeover.handoffs.context import briefed, strip_metadata
from changeover.messages import Reply
from changeover.relay.commands import (
    CallBack,
    CallFunction,
    CallModel,
    Effect,
    FetchContext,
    FindReceiver,
    JudgeResult,
    JudgeTask,
    PackContext,
    RunTool,
    SeekApproval,
)
from changeover.relay.events import (
    CallRefused,
    Event,
    FunctionFailed,
    FunctionReturned,
    ModelFailed,
    ModelReplied,
    SkillLoaded,
    ToolFinished,
    ToolStarted,
)
from changeover.relay.perform.approvals import seek_approval
from changeover.relay.perform.broker import described, find_receiver
from changeover.relay.perform.callbacks import TROUBLE, called, let_go, words_of
from changeover.relay.perform.checks import call_checked
from changeover.relay.perform.context import DEFINITION, fetch_context, pack_context
from changeover.relay.perform.handoffs import call_back, judge_result
from changeover.relay.perform.judge import judge_task
from changeover.relay.ports import Emit, Intend, Model, Request, World
from changeover.relay.result import typed_returns
from changeover.relay.sanitize import reply_of, text_of
from changeover.tools.command import Command, Directive, directive_of
from changeover.tools.run_context import RunContext
from changeover.tools.tool import ToolDefinition

logger = logging.getLogger("changeover.relay")

LAST_WORD = "This is the last reply this run may take: no tool is left, answer the user now."


def perform(world: World, command: Effect, intend: Intend, emit: Emit | None = None) -> Awaitable[Event]:
    """Perform one command. `intend` commits an intent; `emit` receives text deltas, if a reader wants them."""
    if isinstance(command, CallModel):
        if command.checks:  # nothing is streamed: an answer must not leave before it is checked
            return call_checked(command, partial(_call_model, world, command, None))
        return _call_model(world, command, emit)
    if isinstance(command, RunTool):
        return _run_tool(world, command, intend)
    return PLAIN[type(command)](world, command)


async def _call_model(world: World, command: CallModel, emit: Emit | None) -> Event:
    agent = command.context.agent
    seat = world.roster.seats[agent]
    assert isinstance(seat, Seat)
    try:
        tried = _tried(world, command) if command.variants else {}
        instructions = await _written(tried.get("instructions", seat.agent.instructions), command)
        model = world.models[tried.get("model", agent)]
        tools = _tools(seat, command) if getattr(model, "calls_tools", True) else ()
        if seat.seeks and command.handoffs and any(tool.name == seat.seeks for tool in tools):
            instructions = f"{instructions}\n\n{_guided(world, seat)}".lstrip()
        request = _request(seat, command, instructions, tools)
        given = await (model.reply(request) if emit is None else _streamed(model, request, emit))
        reply = reply_of(given, command.id)
    except TROUBLE as error:
        let_go(error)
        return ModelFailed(agent, command.task, words_of(error), _retry_at(world, command, error))
    usage = None if reply.usage == ONE_REQUEST else reply.usage
    return ModelReplied(agent, command.task, reply.text, reply.thinking, reply.calls, usage, reply.extra)


async def _written(declared: Instructions, command: CallModel) -> str:
    """The instructions as a text; a function writes them for each call."""
    if isinstance(declared, str):
        return declared
    written: object = declared(command.context)
    if isawaitable(written):
        written = await written
    if not isinstance(written, str):
        raise TypeError(f"the function that writes its instructions returned {written!r:.100}, not a text")
    return written


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


def _guided(world: World, seat: Seat) -> str:
    """The guidance of an agent that may ask for a specialist: which specialists there are."""
    move = seat.moves[seat.seeks]
    assert isinstance(move, ToSpecialist)
    others = [each for each in world.registry.available if each.id != seat.agent.id and each.id in world.roster.seats]
    return guidance(seat.seeks, described([each for each in others if not move.among or each.id in move.among]))


def _request(seat: Seat, command: CallModel, instructions: str, tools: tuple[ToolDefinition, ...]) -> Request:
    context, own_instructions = command.context, instructions
    variables = original(context, "context")
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


def _tools(seat: Seat, command: CallModel) -> tuple[ToolDefinition, ...]:
    if command.last:
        return ()
    definitions = seat.definitions if command.handoffs else seat.alone
    if seat.conditional:
        definitions = tuple(each for each in definitions if _is_open(seat, each.name, command.context))
    return (*definitions, DEFINITION) if command.fetches else definitions


def _is_open(seat: Seat, name: str, context: RunContext) -> bool:
    """Whether the condition of a tool, a handoff or a delegate lets the model see it."""
    move = seat.moves[name]
    if not isinstance(move, CONDITIONAL) or not (why := closed(move.declared.when, context)):
        return True
    if "could not be judged" in why:
        logger.warning("%s is not shown to the model: %s", name, why)
    return False


async def _streamed(model: Model, request: Request, emit: Emit) -> Reply:
    async for piece in model.stream(request):
        if isinstance(piece, Reply):
            return piece
        emit(piece)
    raise ModelError("its stream ended without a reply", agent=request.agent)


def _retry_at(world: World, command: CallModel, error: BaseException) -> float | None:
    if command.attempt >= world.attempts or not getattr(error, "retryable", True):
        return None
    wait, asked = world.backoff * 2.0 ** (command.attempt - 1), getattr(error, "retry_after", None)
    if isinstance(asked, int | float) and isfinite(asked):
        wait = max(wait, asked)
    return world.clock.now() + wait


async def _run_tool(world: World, command: RunTool, intend: Intend) -> Event:
    call, task, toolkit = command.call, command.task, world.toolkits[command.context.agent]
    if command.begun:
        return ToolFinished(command.id, task, "", ok=False, unknown=True)
    args, dropped = strip_metadata(call.args)
    malformed = misfit_words(call.name, not_json(call)) if call.malformed else ""
    if wrong := malformed or toolkit.misfit(call.name, args, command.context):
        return CallRefused(command.id, task, wrong, "arguments")
    if command.at_most_once:
        # Committed before the effect and outside its `try`, so that no effect exists without its intent.
        await intend(ToolStarted(command.id, task))
    try:
        outcome = await toolkit.call(call.name, args, command.context)
    except TROUBLE as error:
        let_go(error)
        return ToolFinished(command.id, task, f"{call.name} failed: {words_of(error)}", ok=False)
    if outcome.skill:
        return SkillLoaded(command.id, task, outcome.skill, outcome.text)
    came = (outcome.text, outcome.ok, False, dropped, outcome.directive)
    return ToolFinished(command.id, task, *came, command.read_only, outcome.files)


async def _call_function(world: World, command: CallFunction) -> Event:
    context = command.context
    member = world.roster.seats[context.agent]
    assert isinstance(member, Function)
    if context.returned:
        context = replace(context, returned=typed_returns(context.returned, world.roster))
    try:
        text, directive = _answer_of(await called(member.fn, context))
    except TROUBLE as error:
        let_go(error)
        return FunctionFailed(context.agent, command.task, words_of(error))
    return FunctionReturned(context.agent, command.task, text, directive)


def _answer_of(given: Any) -> tuple[str, Directive | None]:
    """The return value of a Function member: an answer, or a directive."""
    if isinstance(given, str):
        return text_of(given), None
    if not isinstance(given, Command):
        raise TypeError(f"a function must return a str or a Command, not {type(given).__name__}")
    directive = directive_of(given)
    if not directive.leads:
        raise TypeError("a function must return an answer, or a Command that goes somewhere: give it a goto")
    return "", directive


PLAIN: dict[type[Effect], Callable[[World, Any], Awaitable[Event]]] = {
    CallFunction: _call_function,
    SeekApproval: seek_approval,
    FindReceiver: find_receiver,
    JudgeTask: judge_task,
    JudgeResult: judge_result,
    PackContext: pack_context,
    FetchContext: fetch_context,
    CallBack: call_back,
}
"""Effects that stream nothing and commit no intent."""
