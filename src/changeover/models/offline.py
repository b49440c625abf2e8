"""A model without a model: no network, no key, the same words always give the same reply."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from typing import Any, assert_never

from changeover.messages import Call, Reply
from changeover.models.offline_choice import Answer, AskFor, Choice, HandOver, Use, choose, meant
from changeover.models.offline_request import Reading, read
from changeover.models.offline_voice import answer, ask_for, hand_over
from changeover.relay.ports import Request
from changeover.relay.stream import TextDelta, ThinkingDelta


class OfflineModel:
    """Picks a handoff, a tool or an answer by comparing the user's words with what agents and tools are for.

    It understands nothing: it is for trying a team out, for demos and for tests of the way work takes. Every text it
    writes ends with `(offline)`. On the same words it hands over once, calls each tool at most once, and then answers.
    """

    async def reply(self, request: Request) -> Reply:
        """The reply, by the request alone."""
        reading = meant(read(request))
        return _reply(request, reading, choose(reading))

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """The reply word by word, then the same reply whole."""
        reply = await self.reply(request)
        for word in re.findall(r"\S+\s*|\s+", reply.text):
            yield TextDelta(word, request.agent, request.conversation, request.command, request.attempt)
            await asyncio.sleep(0)  # whoever reads along gets the word before the next one comes
        yield reply


def _reply(request: Request, reading: Reading, choice: Choice) -> Reply:
    match choice:
        case HandOver(tool=tool, args=args):
            return Reply(text=hand_over(reading, choice), calls=_calls(request, [(tool, args)]))
        case Use(calls=calls):
            return Reply(calls=_calls(request, calls))
        case AskFor():
            return Reply(text=ask_for(choice))
        case Answer(understood=understood):
            return Reply(text=answer(reading, understood))
        case _:
            assert_never(choice)


def _calls(request: Request, calls: Iterable[tuple[str, dict[str, Any]]]) -> tuple[Call, ...]:
    # A command has one reply, so its id makes the ids of its calls unique.
    return tuple(Call(f"call_{request.command}_{index}", name, args) for index, (name, args) in enumerate(calls))
