"""Streams: frames as server-sent events, and the run of a message as such a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, aclosing
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from changeover.errors import ChangeoverError
from changeover.relay.inputs.requests import Resume, Say
from changeover.relay.stream import Recorded, RunFinished, TextDelta, ThinkingDelta
from changeover.server.live import Frame, Live, Outbox, delta_frame, event_frame, notice
from changeover.server.resources.runs import outcome_of
from changeover.team import Team

EVENT_STREAM = "text/event-stream"
PATIENCE = 30.0
"""Seconds in which a client has to read what it is sent."""
SILENT = b": alive\n\n"


class EventStream(Response):
    """Frames as server-sent events, until the outbox ends or the client leaves."""

    media_type = EVENT_STREAM

    def __init__(self, live: Live, fill: Callable[[Outbox, ExitStack], Any], token: str = "") -> None:
        """`fill` is called when a client is connected, and has to fill its outbox; the stack is unwound at the end. The
        stream ends early if the token with this id no longer holds."""
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._live, self._fill, self._token = live, fill, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with ExitStack() as stack:
            outbox = stack.enter_context(self._live.connected(self._token))
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _sent(send, b"retry: 1000\n\n")
            self._fill(outbox, stack)
            leaving = asyncio.ensure_future(_left(receive, outbox))
            stack.callback(leaving.cancel)
            while (frames := await outbox.take(keep_alive=True)) is not None:
                await _sent(send, b"".join(frame.as_sse() for frame in frames) or SILENT)
            await _sent(send, b"", more=False)


async def _sent(send: Send, body: bytes, more: bool = True) -> None:
    # A client that does not read at all would hold its outbox for ever.
    async with asyncio.timeout(PATIENCE):
        await send({"type": "http.response.body", "body": body, "more_body": more})


async def _left(receive: Receive, outbox: Outbox) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    outbox.end()


async def streamed(live: Live, team: Team, input: Say | Resume) -> EventStream:
    """The run of a message as a stream, which ends with its outcome. If the client leaves, the run goes on.

    Raises the error that refuses the message before the stream begins.
    """
    items = _frames(team, input)
    first = await anext(items)

    def fill(outbox: Outbox, stack: ExitStack) -> None:
        outbox.put(first)
        filling = asyncio.ensure_future(_pump(items, outbox))
        stack.callback(filling.cancel)

    return EventStream(live, fill)


async def _pump(items: AsyncGenerator[Frame, None], outbox: Outbox) -> None:
    async with aclosing(items):
        async for frame in items:
            outbox.put(frame)
    outbox.end()


async def _frames(team: Team, input: Say | Resume) -> AsyncGenerator[Frame, None]:
    begun = False
    try:
        async with aclosing(team.engine.stream(input)) as items:
            async for item in items:
                begun = True
                match item:
                    case Recorded():
                        yield event_frame(item)
                    case TextDelta() | ThinkingDelta():
                        yield delta_frame(item)
                    case RunFinished():
                        yield Frame("finished", msgspec.json.encode(outcome_of(item.result)))
                    case _:  # clients see from the events which agent is active
                        continue
    except ChangeoverError as error:
        if not begun:
            raise
        if error.result is None:
            yield notice("failed", f"{error}; the conversation can be resumed", input.conversation)
        else:
            yield Frame("finished", msgspec.json.encode(outcome_of(error.result, str(error))))
