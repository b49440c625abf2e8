"""Live: follow a conversation as server-sent events, or many things at once over one WebSocket."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from typing import Annotated

import msgspec
from fastapi import Header, Request
from msgspec import Struct
from starlette.websockets import WebSocket, WebSocketDisconnect

from changeover.errors import ChangeoverError
from changeover.server.access import ROUTES, Caller
from changeover.server.live import Live, Outbox, notice
from changeover.server.problems import Problem, status_of
from changeover.server.resource import Id, Resource, Served, Who, seen
from changeover.server.resources.conversations import NOT_FOUND, After
from changeover.server.resources.streams import EVENT_STREAM, PATIENCE, EventStream
from changeover.server.resources.watches import LISTS, Watches
from changeover.server.wire import MOST_DEPTH
from changeover.team import Team

resource = Resource("live")

MOST_SUBSCRIPTIONS = 500
"""Conversations that one WebSocket may follow."""
LONGEST_MESSAGE = 10_000
"""Characters of a client's message."""
RESTART, POLICY = 1012, 1008
"""Codes with which WebSockets are closed: the server stops, or the client broke a rule."""


LastEvent = Annotated[str | None, Header(alias="Last-Event-ID", description="The seq of the last event, as `after`.")]


@resource.route("GET /conversations/{id:path}/stream", str, refusals=NOT_FOUND, media=(EVENT_STREAM,))
async def stream_conversation(
    request: Request, id: Id, team: Served, who: Who, after: After = 0, last: LastEvent = None
) -> EventStream:
    """Follow a conversation and its delegates: events from `after` on, and what models write meanwhile."""
    await seen(team, who, id)
    live: Live = request.app.state.live
    known = max(after, int(last)) if last and last.isdecimal() else after
    return EventStream(live, lambda outbox, stack: stack.enter_context(live.subscribed(outbox, id, known)), who.token)


class ClientMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """A client's message over a WebSocket; it has one of these fields, and `after` goes with `subscribe`."""

    subscribe: str | None = None
    after: int = 0
    unsubscribe: str | None = None
    watch: str | None = None
    unwatch: str | None = None
    token: str | None = None
    """Only in the first message, from a client that can set no header and has no cookie."""


class Session:
    """One client's WebSocket."""

    def __init__(self, socket: WebSocket, who: Caller, outbox: Outbox) -> None:
        self._socket, self._who, self._outbox = socket, who, outbox
        state = socket.app.state
        self._team: Team = state.team
        self._live: Live = state.live
        self._watches: Watches = state.watches
        self._open: dict[tuple[str, str], ExitStack] = {}

    async def run(self) -> None:
        """Serve the client until it leaves or is cut off."""
        listening = asyncio.ensure_future(self._listen())
        try:
            while (frames := await self._outbox.take()) is not None:
                for frame in frames:
                    async with asyncio.timeout(PATIENCE):
                        await self._socket.send_text(frame.as_json())
            with suppress(RuntimeError, WebSocketDisconnect):  # the client has left
                await self._socket.close(RESTART)
        finally:
            listening.cancel()
            for each in self._open.values():
                each.close()

    async def _listen(self) -> None:
        try:
            while True:
                await self._handle(await self._socket.receive_text())
        except (WebSocketDisconnect, KeyError):  # KeyError: it sent bytes
            self._outbox.end()

    async def _handle(self, text: str) -> None:
        try:
            message = _decoded(text)
            match message:
                case ClientMessage(subscribe=str(id)):
                    await self._subscribe(id, message.after)
                case ClientMessage(unsubscribe=str(id)):
                    self._leave("conversation", id)
                case ClientMessage(watch=str(name)):
                    self._watch(name)
                case ClientMessage(unwatch=str(name)):
                    self._leave("list", name)
                case _:
                    raise Problem(422, "send subscribe, unsubscribe, watch or unwatch", kind="bad-message")
        except Problem as problem:
            self._outbox.put(notice(problem.kind, problem.detail))

    async def _subscribe(self, id: str, after: int) -> None:
        try:
            await seen(self._team, self._who, id)
        except ChangeoverError as error:
            kind = "not-found" if status_of(type(error)) < 500 else "store-unavailable"
            self._outbox.put(notice(kind, str(error), id))
            return
        self._leave("conversation", id)
        if len(self._open) >= MOST_SUBSCRIPTIONS:
            raise Problem(422, f"a connection follows at most {MOST_SUBSCRIPTIONS}", kind="too-many")
        stack = self._open["conversation", id] = ExitStack()
        stack.enter_context(self._live.subscribed(self._outbox, id, after))

    def _watch(self, name: str) -> None:
        if name not in LISTS:
            raise Problem(422, f"no list is called {name!r}; there are: {', '.join(LISTS)}", kind="bad-message")
        self._leave("list", name)
        stack = self._open["list", name] = ExitStack()
        stack.enter_context(self._watches.watching(self._outbox, name, self._who))

    def _leave(self, kind: str, name: str) -> None:
        if stack := self._open.pop((kind, name), None):
            stack.close()


def _decoded(text: str) -> ClientMessage:
    if len(text) > LONGEST_MESSAGE or text.count("[") + text.count("{") > MOST_DEPTH:
        raise Problem(422, f"a message has at most {LONGEST_MESSAGE:,} characters", kind="bad-message")
    try:
        return msgspec.json.decode(text, type=ClientMessage)
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise Problem(422, str(error), kind="bad-message") from None


async def live(socket: WebSocket) -> None:
    """Follow conversations and watch lists over one connection."""
    await socket.accept()
    try:
        who = await _caller(socket)
        who.needs(ROUTES["WS /live"])
        with socket.app.state.live.connected(who.token) as outbox:
            await Session(socket, who, outbox).run()
    except Problem as problem:
        await socket.send_text(notice(problem.kind, problem.detail).as_json())
        await socket.close(RESTART if problem.status == 503 else POLICY, problem.detail[:120])
    except WebSocketDisconnect:
        return


async def _caller(socket: WebSocket) -> Caller:
    doorkeeper = socket.app.state.doorkeeper
    try:
        caller: Caller = await doorkeeper.caller(socket)
    except Problem:
        if "authorization" in socket.headers:
            raise
        try:
            async with asyncio.timeout(PATIENCE):
                message = _decoded(await socket.receive_text())
        except (TimeoutError, KeyError):
            raise Problem(401, "send a token first", kind="unauthorized") from None
        caller = await doorkeeper.holder(message.token or "")
    return caller


resource.router.add_api_websocket_route("/live", live)
