"""`perform`, which carries out a command for any engine, and the calls of models, tools and functions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import isfinite
from typing import Any

from msgspec.structs import replace

from changeover.agent.agent import Function
from changeover.agent.moves import misfit_words, not_json
from changeover.errors import ModelError
from changeover.facts import ONE_REQUEST
from changeover.handoffs.context import strip_metadata
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
from changeover.relay.perform.broker import find_receiver
from changeover.relay.perform.callbacks import TROUBLE, called, let_go, words_of
from changeover.relay.perform.checks import call_checked
from changeover.relay.perform.context import fetch_context, pack_context
from changeover.relay.perform.handoffs import call_back, judge_result
from changeover.relay.perform.judge import judge_task
from changeover.relay.perform.request import declared_for, request_of, written
from changeover.relay.ports.world import Emit, Intend, Model, Request, World
from changeover.relay.result import typed_returns
from changeover.relay.sanitize import reply_of, text_of
from changeover.tools.command import Command, Directive, directive_of

logger = logging.getLogger("changeover.relay")


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
    agent, began = command.context.agent, world.clock.now()
    try:
        declared, model = declared_for(world, command)
        instructions = declared if isinstance(declared, str) else await written(declared, command.context)
        request = request_of(world, command, instructions, model)
        given = await (model.reply(request) if emit is None else _streamed(model, request, emit))
        reply = reply_of(given, command.id)
    except TROUBLE as error:
        let_go(error)
        return ModelFailed(agent, command.task, words_of(error), _retry_at(world, command, error))
    usage = None if reply.usage is ONE_REQUEST or reply.usage == ONE_REQUEST else reply.usage
    said = (reply.text, reply.thinking, reply.calls, usage, reply.extra, None, began)
    if isinstance(declared, str):
        return ModelReplied(agent, command.task, *said)
    text = text_of(instructions)
    known = command.written.get(text)
    return ModelReplied(agent, command.task, *said, "" if known else text, known or 0)


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
    began = world.clock.now()
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
        return ToolFinished(command.id, task, f"{call.name} failed: {words_of(error)}", ok=False, began=began)
    if outcome.skill:
        return SkillLoaded(command.id, task, outcome.skill, outcome.text)
    came = (outcome.text, outcome.ok, False, dropped, outcome.directive)
    return ToolFinished(command.id, task, *came, command.read_only, outcome.files, began)


async def _call_function(world: World, command: CallFunction) -> Event:
    context = command.context
    member = world.roster.member(context.agent)
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
