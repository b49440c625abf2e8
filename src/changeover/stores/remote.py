"""RemoteStore: a store behind a server, whose ports answer as those of a database do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Unpack, cast
from urllib.parse import urlsplit

import msgspec

from changeover.bus.views import BusCalls, ScheduleCalls
from changeover.errors import ChangeoverError, MisconfiguredError, StoreUnavailable, TokenRefused
from changeover.facts import HandoffRecord
from changeover.relay.context_flow import ValueFlow
from changeover.relay.ports.declarations import Declarations
from changeover.relay.ports.lists import EVERYTHING, PAGE, Page, Paging, R
from changeover.relay.ports.log import Breakers
from changeover.relay.ports.tables import Agents, Lessons, Measures, Tried
from changeover.relay.ports.tokens import Tokens
from changeover.stores.calls import Call, Decisions, Listed, Reading, ToolTests, Work, Workflows, call_of

TIMEOUT = 60.0
"""Seconds to wait for an answer of the server."""
MEDIA = "application/msgpack"
PATH = "/api/v1/store"
"""The path of the calls below the address of a server."""


class RemoteStore:
    """The ports of a store behind a server. A token, if the server needs one, is the caller's."""

    def __init__(self, url: str, token: str = "") -> None:
        connection = _Connection(url, token)
        self.lists = RemoteLists(connection)
        self.agents = cast(Agents, _Port("agents", connection))
        self.breakers = cast(Breakers, _Port("breakers", connection))
        self.bus = cast(BusCalls, _Port("bus", connection))
        self.declarations = cast(Declarations, _Port("declarations", connection))
        self.decisions = cast(Decisions, _Port("decisions", connection))
        self.experience = cast(Lessons, _Port("experience", connection))
        self.schedules = cast(ScheduleCalls, _Port("schedules", connection))
        self.tokens = cast(Tokens, _Port("tokens", connection))
        self.tools = cast(ToolTests, _Port("tools", connection))
        self.work = cast(Work, _Port("work", connection))
        self.workflows = cast(Workflows, _Port("workflows", connection))


class RemoteLists:
    """The lists of a store behind a server."""

    def __init__(self, connection: _Connection) -> None:
        self._reading = cast(Reading, _Port("lists", connection))
        self.measures = cast(Measures, _Port("measures", connection))
        self.trials = cast(Tried, _Port("trials", connection))

    async def listed(
        self,
        kind: type[R],
        wanted: Mapping[str, str] = EVERYTHING,
        within: str | None = None,
        roots: bool = False,
        **paging: Unpack[Paging],
    ) -> Page[R]:
        limit, sort, cursor = paging.get("limit", PAGE), paging.get("sort", ""), paging.get("cursor")
        asked = Listed(kind.__name__, dict(wanted), within, roots, limit, sort, cursor)
        return (await self._reading.listed(asked)).read(kind)

    async def one(self, kind: type[R], id: str) -> R | None:
        return next(iter(await self.listed(kind, {"id": id}, limit=1)), None)

    async def handoffs(self, conversation: str) -> list[HandoffRecord]:
        return await self._reading.handoffs(conversation)

    async def context_flow(self, conversation: str) -> list[ValueFlow]:
        return await self._reading.context_flow(conversation)


class _Port:
    """A port whose methods are calls of the server."""

    def __init__(self, name: str, connection: _Connection) -> None:
        self._name, self._connection = name, connection

    def __getattr__(self, method: str) -> Callable[..., Any]:
        call, connection = call_of(self._name, method), self._connection

        def made(*given: Any, **named: Any) -> Any:
            arguments = call.arguments(given, named)
            return connection.pages(call, arguments) if call.in_pages else connection.answer(call, arguments)

        return made


class _Connection:
    """Sends calls to a server, each over a connection of its own; it follows no redirects and uses no proxy."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise MisconfiguredError(f"{url!r} is not the address of a server; write it as in http://127.0.0.1:8765")
        self._url, self._path = url, parts.path.rstrip("/").removesuffix("/api/v1") + PATH
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port = parts.hostname, _port(url)
        self._headers = {"Content-Type": MEDIA, "Accept": MEDIA, "Connection": "close"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    async def answer(self, call: Call, arguments: bytes) -> Any:
        """The server's answer to a call. Raises StoreUnavailable if it does not answer, and an error for a refusal."""
        status, body = await asyncio.to_thread(self._sent, call.name, arguments)
        if status != 200:
            raise self._refusal(status, body)
        try:
            return call.read_answer(body)
        except msgspec.MsgspecError:
            raise self._unknown_server() from None

    async def pages(self, call: Call, arguments: bytes) -> AsyncIterator[Any]:
        """The server's answer to a call that gives pages."""
        for page in await self.answer(call, arguments):
            yield page

    def _sent(self, name: str, arguments: bytes) -> tuple[int, bytes]:
        connection = self._kind(self._host, self._port, timeout=TIMEOUT)
        try:
            connection.request("POST", f"{self._path}/{name}", arguments, self._headers)
            response = connection.getresponse()
            return response.status, response.read()
        except HTTPException:
            raise self._unknown_server() from None
        except (OSError, ValueError) as error:  # a token with a line break is a ValueError
            raise StoreUnavailable(f"the server {self._url} cannot be reached: {error}") from None
        finally:
            connection.close()

    def _refusal(self, status: int, body: bytes) -> ChangeoverError:
        """The error for a problem document of the server."""
        try:
            problem = msgspec.json.decode(body, type=dict[str, Any])
            kind, detail = str(problem["type"]), str(problem.get("detail", ""))
        except (msgspec.MsgspecError, KeyError):
            return self._unknown_server()
        if status == 401:
            return TokenRefused(f"the server {self._url} refuses: {detail}; give a token as CHANGEOVER_TOKEN")
        if kind.endswith(":misconfigured-error"):
            return MisconfiguredError(*problem.get("faults", [detail]))
        if status >= 500:
            return StoreUnavailable(f"the server {self._url} cannot answer now: {detail}")
        return ChangeoverError(detail)

    def _unknown_server(self) -> StoreUnavailable:
        return StoreUnavailable(f"what answers at {self._url} is no changeover server of this version")


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        raise MisconfiguredError(f"{url!r} has no valid port; write it as in http://127.0.0.1:8765") from None
