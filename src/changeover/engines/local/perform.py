"""Which part of the engine carries out which command."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, assert_never

from changeover.engines.answering import ask_receiver, expiry
from changeover.engines.local.approvals import await_decision
from changeover.engines.local.children import cancel_child, run_child
from changeover.engines.local.conversation import Live
from changeover.relay.commands import (
    AskReceiver,
    AwaitApproval,
    AwaitClaim,
    CallFunction,
    CallModel,
    CancelChild,
    CleanUp,
    Command,
    FetchContext,
    FindReceiver,
    JudgeResult,
    JudgeTask,
    PackContext,
    RunChild,
    RunTool,
    SeekApproval,
)
from changeover.relay.events import Event
from changeover.relay.perform.calls import perform

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

EFFECTS = (
    *(CallModel, CallFunction, RunTool, SeekApproval, FindReceiver, JudgeTask, JudgeResult, PackContext, FetchContext),
    CleanUp,
)
"""What is performed the same by every engine; the rest is this one's own."""


def performed(engine: LocalEngine, live: Live, command: Command) -> Awaitable[Event]:
    """The outcome of a command."""
    if isinstance(command, EFFECTS):
        intend = partial(engine.intend, live, command.id)
        return perform(engine.world, command, intend, live.emit if live.readers else None)
    match command:
        case RunChild():
            return run_child(engine, live, command)
        case CancelChild():
            return cancel_child(engine, live, command)
        case AwaitApproval():
            return await_decision(engine, live, command)
        case AskReceiver():
            return ask_receiver(engine, live, command)
        case AwaitClaim():
            return expiry(engine, command)
        case _:
            assert_never(command)
