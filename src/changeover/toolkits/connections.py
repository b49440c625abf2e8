"""Connections: the connection pools and sessions of a team's tools, on an event loop of their own."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from changeover.agent.moves import UseTool
from changeover.agent.roster import Roster, Seat
from changeover.messages import File
from changeover.toolkits.database_pool import DatabasePool
from changeover.toolkits.result_text import CallFailed
from changeover.toolkits.vault import Vault
from changeover.tools.mcp_server import McpServer

if TYPE_CHECKING:
    from changeover.toolkits.mcp import McpConnection
    from changeover.toolkits.network import CheckedTransport

T = TypeVar("T")
Attach = Callable[[Sequence[File]], tuple[File, ...]]
Work = Callable[[], Coroutine[Any, Any, T]]

PARTING = 5.0
"""Seconds that connections have to close when the interpreter exits."""


class Connections:
    """Connection pools and sessions, shared by all agents of a team. They live on a loop in a thread, because the loops
    of callers come and go.

    The thread starts with the first use. After `close` the next use starts afresh.
    """

    def __init__(self, attach: Attach = tuple) -> None:
        """`attach` checks the files of results; it raises MisconfiguredError for one that no model reads."""
        self.vault, self.databases, self.attach = Vault(), DatabasePool(), attach
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._transports: dict[bool, CheckedTransport] = {}
        self._servers: list[McpConnection] = []
        self._idle: list[McpConnection] = []
        """The servers that no agent has any more."""
        self._opening: Future[None] | None = None
        self._listeners: set[Callable[[], None]] = set()
        self.version = 0
        """Grows whenever the tools that servers offer have changed."""

    @property
    def serves(self) -> bool:
        """True if tools come from servers, which have to be asked for them."""
        return bool(self._servers)

    def server(self, declared: McpServer) -> McpConnection:
        """The connection to a server, which all agents with an equal declaration share."""
        from changeover.toolkits.mcp import McpConnection

        for each in self._servers:
            if each.declared == declared:
                return each
        self._servers.append(connection := McpConnection(declared, self.vault, self.run, self._change))
        self._opening = None
        return connection

    async def open(self, changed: Callable[[], None]) -> None:
        """Connect to all servers and list their tools; a server that is not available is logged and left out.

        `changed` is called, in another thread, whenever their tools have changed; also if a server comes back.
        """
        self._listeners.add(changed)
        with self._lock:
            opening = self._opening
        if opening is None:
            loop = self._running()
            with self._lock:
                opening = self._opening = self._opening or asyncio.run_coroutine_threadsafe(self._open_all(), loop)
        await asyncio.wrap_future(opening)

    async def _open_all(self) -> None:
        await asyncio.gather(*(each.start() for each in self._servers if each not in self._idle))

    async def keep(self, rosters: Iterable[Roster]) -> None:
        """End the sessions with servers that no agent of these rosters has; a call of one of their tools begins them
        again. They stay listed: a run that began with an earlier declaration may still use them."""
        seats = [seat for roster in rosters for seat in roster.seats.values() if isinstance(seat, Seat)]
        used = [tool for seat in seats for tool in seat.agent.tools if isinstance(tool, McpServer)]
        idle = [each for each in self._servers if each.declared not in used]
        if idle and self._loop is not None:
            await self.run(lambda: _close(idle))  # also sessions that a call has begun again
        if any(each not in idle for each in self._idle):
            self._opening = None  # a declaration came back
        self._idle = idle

    def _change(self) -> None:
        self.version += 1
        for changed in list(self._listeners):
            changed()

    async def run(self, work: Work[T]) -> T:
        """Do this work on the loop of the connections."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self._running()))

    def transport(self, allow_private: bool) -> CheckedTransport:
        """The connection pool for requests; call it on the loop of the connections.

        There are two: a request that must not reach private addresses never gets a connection that another opened.
        """
        from changeover.toolkits.network import CheckedTransport

        if allow_private not in self._transports:
            self._transports[allow_private] = CheckedTransport(allow_private)
        return self._transports[allow_private]

    async def close(self) -> None:
        """Close all connections, and stop the loop."""
        self.databases.close()
        if self._loop is not None:
            await self.run(self._close_all)
            self._stop()

    async def _close_all(self) -> None:
        self._opening = None
        self._listeners.clear()
        await _close(self._servers)
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="changeover-tools", daemon=True)
                self._thread.start()
                atexit.register(self._close_at_exit)
            return self._loop

    def _stop(self) -> None:
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        atexit.unregister(self._close_at_exit)
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _close_at_exit(self) -> None:
        """Close the connections that an ending process has left open."""
        if self._loop is not None:
            with suppress(Exception):
                asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result(PARTING)
            self._stop()


async def _close(servers: Sequence[McpConnection]) -> None:
    await asyncio.gather(*(each.close() for each in servers))


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then close it."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


async def discovered(declared: McpServer) -> list[UseTool]:
    """The tools that a server offers now: connects to it, lists them, and ends the session. Raises CallFailed."""
    connections = Connections()
    connection = connections.server(declared)
    try:
        await connections.run(connection.connect)
        return [callee.tool for callee in connection.tools.values()]
    except CallFailed as error:
        raise CallFailed(connections.vault.redact(str(error))) from None
    finally:
        await connections.close()
