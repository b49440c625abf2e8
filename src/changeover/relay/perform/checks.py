"""Checked model calls: an agent's checks judge what its model would read, and what it answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from changeover.guards.checks import Content, Direction, Replace, Ruling, ruling_of
from changeover.guards.guard import ALLOW, Deny
from changeover.relay.commands import CallModel
from changeover.relay.events import Checked, ContentChecked, Event, ModelReplied
from changeover.relay.perform.callbacks import TROUBLE, called, let_go, within, words_of
from changeover.relay.sanitize import text_of

logger = logging.getLogger("changeover.checks")

CALL_TIMEOUT = 60.0
"""Seconds that one check may take."""
UNCHECKED = "This could not be checked, so it is withheld."
"""The answer if a check fails."""
WITHHELD = "[withheld]"
"""What a model reads in the place of a message that was refused."""


async def call_checked(command: CallModel, call: Callable[[], Awaitable[Event]]) -> Event:
    """Call the model, unless a check refuses or replaces what it would read; its answer is checked before anything is
    recorded of it."""
    if (held := await _check_input(command)) is not None:
        return held
    replied = await call()
    if not isinstance(replied, ModelReplied) or replied.calls or not replied.text:
        return replied
    match await _rule(command, replied.text, "output"):
        case Deny(reason=words):
            return _answered(replied, text_of(words), Checked("deny", text_of(words)))
        case Replace(text=text):
            return _answered(replied, text, Checked("replace"))
        case _:
            return replied


async def _check_input(command: CallModel) -> ContentChecked | None:
    """The refusal or replacement of what is new to the agent; None if its model may read all of it."""
    who, replaced = (command.context.agent, command.task), dict[str, str]()
    for text in command.unchecked:
        match await _rule(command, text, "input"):
            case Deny(reason=words):
                return ContentChecked(*who, "input", "deny", text_of(words), {text: WITHHELD})
            case Replace(text=new):
                replaced[text] = new
            case _:
                pass
    return ContentChecked(*who, "input", "replace", replaced=replaced) if replaced else None


async def _rule(command: CallModel, text: str, direction: Direction) -> Ruling:
    """The ruling of all checks: each judges what the one before it left, and one that raises denies."""
    left = text
    for check in command.checks:
        content = Content(left, direction, command.context)
        try:
            ruling = ruling_of(await within(CALL_TIMEOUT, partial(called, check, content)))
        except TROUBLE as error:
            let_go(error)
            logger.error("a check of %s failed in %s: %s", command.context.agent, command.id, words_of(error))
            return Deny(UNCHECKED)
        if isinstance(ruling, Deny):
            return ruling
        left = text_of(ruling.text) if isinstance(ruling, Replace) else left
    return ALLOW if left == text else Replace(left)


def _answered(replied: ModelReplied, text: str, checked: Checked) -> ModelReplied:
    """The reply with another text, without thinking and provider's data: they may hold the text that is withheld."""
    return replace(replied, text=text, thinking="", extra={}, checked=checked)
