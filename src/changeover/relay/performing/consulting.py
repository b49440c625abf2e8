"""Asks a model something beside the conversation: to sum up, to judge, to choose."""

from __future__ import annotations

import asyncio

from changeover.messages import Reply, User
from changeover.relay.ports import Model, Request

HELPER = "helper"
"""As whom it is asked."""


async def consult(
    model: Model, prompt: tuple[str, str], where: tuple[str, str], patience: float | None, turn: int = 0
) -> Reply:
    """What it says to these instructions and this text, in so many seconds; `where` is the conversation, and the
    command for which it is asked."""
    instructions, text = prompt
    conversation, command = where
    request = Request(
        agent=HELPER,
        instructions=instructions,
        messages=[User(text)],
        tools=(),
        settings={},
        conversation=conversation,
        command=command,
        attempt=1,
        turn=turn,
    )
    async with asyncio.timeout(patience):
        return await model.reply(request)
