"""A model that says what a script tells it to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from changeover.errors import ModelError
from changeover.messages import Message, Reply
from changeover.relay.ports import Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.testing.replies import Failure, Line, resolve
from changeover.tools.definition import ToolDefinition

Lines: TypeAlias = Mapping[str, Sequence[Line]]
Play: TypeAlias = Callable[[str, Sequence[Message], Sequence[ToolDefinition]], Line | Awaitable[Line]]

POSSIBLE = "a line of a script is says(…), calls(…), hands_off(…), delegates(…), fails(…), a Reply or an exception"


class ScriptedModel:
    """A model whose replies are given: a list for each agent, or a function of agent, messages and tools.

    A list is read from its beginning in every conversation. Where it stands comes from the conversation's log, so it
    goes on at the right line after a restart, and one script may serve several models.
    """

    def __init__(self, script: Lines | Play, *, latency: float = 0.0) -> None:
        self._read = _reader(script)
        self._latency = latency
        self.requests: list[Request] = []
        """All that this model was asked, in order; the messages are read-only views, not copies."""

    async def reply(self, request: Request) -> Reply:
        """The line of the script that is due, after `latency` seconds."""
        self.requests.append(request)
        if self._latency:
            await asyncio.sleep(self._latency)
        read = self._read(request)
        line = await read if inspect.isawaitable(read) else read
        match line:
            case Failure():
                raise ModelError(line.reason, agent=request.agent, retryable=line.retryable)
            case Reply():
                return resolve(line, request)
            case BaseException():
                # Without the traceback of the last time: the same exception may be raised in many conversations.
                raise line.with_traceback(None)
            case _:
                raise _lost(request, f"the script of {request.agent!r} gave {line!r}; {POSSIBLE}")

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """The reply word by word, its thinking first, then the same reply whole."""
        reply = await self.reply(request)
        for piece in _pieces(reply, request):
            yield piece
            await asyncio.sleep(0)  # whoever reads along gets the word before the next one comes
        yield reply


def _reader(script: Lines | Play) -> Callable[[Request], Line | Awaitable[Line]]:
    if isinstance(script, Mapping):
        return _Lines(script).read
    if callable(script):
        play = script
        return lambda request: play(request.agent, request.messages, request.tools)
    raise TypeError(f"a script is a mapping of agent id to a list of replies, or a function; not {script!r}")


class _Lines:
    """The script of each agent, checked, and safe from what the caller does to its lists later."""

    def __init__(self, script: Lines) -> None:
        self._lines = {agent: _checked(agent, lines) for agent, lines in script.items()}

    def read(self, request: Request) -> Line:
        """The line for the agent's next turn in this conversation."""
        agent, turn = request.agent, request.turn
        lines = self._lines.get(agent)
        if lines is None:
            raise _lost(
                request, f"{agent!r} has no script; there is one for: {', '.join(sorted(self._lines)) or 'nobody'}"
            )
        if turn >= len(lines):
            size = "1 reply" if len(lines) == 1 else f"{len(lines)} replies"
            raise _lost(
                request, f"the script of {agent!r} has {size}, and it was asked for one more (number {turn + 1})"
            )
        return lines[turn]


def _checked(agent: object, lines: object) -> tuple[Line, ...]:
    if not isinstance(agent, str):
        raise TypeError(f"a script belongs to an agent's id, a str; not {agent!r}")
    if not isinstance(lines, Sequence) or isinstance(lines, str):
        raise TypeError(f"the script of {agent!r} must be a list of replies, not {lines!r}")
    for index, line in enumerate(lines):
        if not isinstance(line, Line):
            raise TypeError(f"line {index} of the script of {agent!r} is {line!r}; {POSSIBLE}")
    return tuple(lines)


def _lost(request: Request, message: str) -> ModelError:
    """The script is at fault, and asking again does not help."""
    return ModelError(message, agent=request.agent, retryable=False)


def _pieces(reply: Reply, request: Request) -> Iterator[TextDelta | ThinkingDelta]:
    place = (request.agent, request.conversation, request.command, request.attempt)
    yield from (ThinkingDelta(word, *place) for word in _words(reply.thinking))
    yield from (TextDelta(word, *place) for word in _words(reply.text))


def _words(text: str) -> list[str]:
    """Words with the space after them: joined, they are the text again."""
    return re.findall(r"\S+\s*|\s+", text)
