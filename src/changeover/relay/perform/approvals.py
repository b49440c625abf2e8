"""The effect that asks whether a call needs approval, and the check that a decision fits its request."""

from __future__ import annotations

import logging
import re
from typing import Any

from changeover.agent.moves import BadArguments, NoSuchReceiver, UseTool, misfit_words, not_json
from changeover.copies import copy_of
from changeover.errors import PackageError
from changeover.facts import ApprovalRequest, RequestKind
from changeover.guards.approval import (
    KINDS,
    POSSIBLE,
    Approval,
    Decision,
    Edit,
    verdict_words,
)
from changeover.handoffs.context import strip_metadata
from changeover.handoffs.json_value import json_copy
from changeover.relay.commands import SeekApproval
from changeover.relay.events import ApprovalRequested, ApprovalWaived, CallRefused, Event
from changeover.relay.perform.callbacks import TROUBLE, called, let_go
from changeover.relay.ports.world import World
from changeover.tools.run_context import RunContext

logger = logging.getLogger("changeover.approvals")

BRACES = re.compile(r"\{(\w+)\}")
WAYS: dict[RequestKind, str] = {
    "approval": "approve it, reject it, edit it or respond",
    "permission": "approve or reject it",
    "escalation": "pick a receiver by Edit(receiver=…), answer by Respond(…), or give it back by Reject(…)",
    "task": "answer it by Respond(…), reject it, or hand it on by Edit(receiver=…)",
}


async def seek_approval(world: World, command: SeekApproval) -> Event:
    """Request approval of a call, unless its arguments do not fit or no approval is needed."""
    call, context = command.call, command.context
    args, _ = strip_metadata(call.args)
    if not command.receiver:
        wrong = misfit_words(call.name, not_json(call)) if call.malformed else ""
        if wrong := wrong or world.toolkits[context.agent].misfit(call.name, args, context):
            return CallRefused(context.command, command.task, wrong, "arguments")
    if not await _needed(command.approval, command):
        return ApprovalWaived(context.command, command.task, command.rule, command.receiver)
    seconds = command.approval.expires
    return ApprovalRequested(
        context.command,
        command.task,
        context.agent,
        call.name,
        args,
        command.receiver,
        "\n\n".join(filter(None, (await _summary(command, args), command.message))),
        None if seconds is None else world.clock.now() + seconds,
        command.approval.on_expiry,
        roles=tuple(command.approval.roles),
        rule=command.rule,
    )


async def _needed(approval: Approval, command: SeekApproval) -> bool:
    if approval.when is None:
        return True
    try:
        return bool(await called(approval.when, command.context, copy_of(command.call.args)))
    except TROUBLE as error:
        let_go(error)
        # A predicate that fails has not said that the call is safe.
        logger.exception("the approval of %s could not be judged, so a person is asked", command.call.name)
        return True


async def _summary(command: SeekApproval, args: dict[str, Any]) -> str:
    """The declared sentence about a call; empty if there is none, or its function fails."""
    declared = command.approval.summary
    if declared is None or isinstance(declared, str):
        return BRACES.sub(lambda found: str(args.get(found[1], found[0])), declared or "")
    try:
        return str(await called(declared, command.context, copy_of(args)))
    except TROUBLE as error:
        let_go(error)
        logger.exception("the summary of %s could not be made, so the call is shown as it is", command.call.name)
        return ""


def misfit(world: World, request: ApprovalRequest, decision: Decision) -> str:
    """Why a decision does not fit its request under the current declarations; empty if it does."""
    if type(decision) not in POSSIBLE[request.kind]:
        return f"{verdict_words(decision)} is no answer to {KINDS[request.kind]}; {WAYS[request.kind]}"
    if not isinstance(decision, Edit):
        return ""
    if (request.kind != "approval" or not request.tool) and decision.arguments is not None:
        return "there are no arguments to change; give a receiver"
    if decision.receiver and not request.receiver:
        return f"{request.tool} is no handoff, so it has no receiver to change"
    if decision.receiver and decision.receiver not in world.roster.present:
        there = ", ".join(world.roster.present)
        return f"{world.roster.missing(decision.receiver)}; this team has: {there}"
    if decision.arguments is None:
        return "" if decision.receiver else "an Edit changes the arguments, the receiver, or both"
    return _unkept(decision.arguments) or _arguments_misfit(world, request, decision.arguments)


def _unkept(arguments: object) -> str:
    try:
        json_copy(arguments)
    except PackageError as error:
        return f"no log can keep these arguments ({error})"
    return ""


def _arguments_misfit(world: World, request: ApprovalRequest, arguments: object) -> str:
    if not isinstance(arguments, dict):
        return f"the arguments must be a dict, not {type(arguments).__name__}"
    move = world.roster.move_of(request.agent, request.tool)
    if move is None:
        return f"{request.agent} has no tool called {request.tool!r} any more, so its arguments cannot be changed"
    if isinstance(move, UseTool):
        if request.receiver:
            return f"{request.tool} is done already, and only the receiver can be changed"
        return world.toolkits[request.agent].misfit(request.tool, arguments, _outside(request))
    match move.read(arguments, request.message):
        case BadArguments(reason=reason):
            return reason
        case NoSuchReceiver(receiver=receiver):
            return f"no agent is called {receiver!r}"
        case _:
            return ""


def _outside(request: ApprovalRequest) -> RunContext:
    """A context for the check of a tool's arguments outside a run."""
    return RunContext(request.conversation, "", request.agent, request.call)
