"""The process of a server: uvicorn with limits on slow clients, its signals, and its address once it listens."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from changeover.server.live import Live
from changeover.server.settings import Settings

GRACE = 2
"""Seconds that open streams have to end when the server stops."""


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that closes connections whose request line and headers do not come in time."""

    patience = 20.0
    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._await_head()
        super().data_received(data)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_waiting()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._alarm is None:
            self._alarm = self.loop.call_later(self.patience, self._give_up)

    def _stop_waiting(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None

    def _give_up(self) -> None:
        self._alarm = None
        self.transport.close()


class Process(uvicorn.Server):
    """Serves until a signal stops it; then its exit code is 0, because the signal is no failure."""

    def __init__(self, config: uvicorn.Config, listens: Callable[[str], None], live: Live) -> None:
        """`listens` gets the address of the server; the clients of `live` are told before connections are closed."""
        super().__init__(config)
        self._listens, self._live = listens, live

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        for each in self.servers:
            each.close()
        await self._live.stop(GRACE / 2)
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            name, port = self.servers[0].sockets[0].getsockname()[:2]
            self._listens(f"http://{f'[{name}]' if ':' in name else name}:{port}{self.config.root_path}")


async def serve(app: FastAPI, settings: Settings, listens: Callable[[str], None], **options: Any) -> None:
    """Serve an app until SIGTERM or SIGINT; `listens` gets its address. `options` are uvicorn's: host, port, …"""
    protocol = type("Protocol", (PatientProtocol,), {"patience": settings.patience})
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="websockets-sansio",
        # Frames are small, and each reader would compress them anew.
        ws_per_message_deflate=False,
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=settings.head,
        timeout_graceful_shutdown=GRACE,
        **options,
    )
    await Process(config, listens, app.state.live).serve()
