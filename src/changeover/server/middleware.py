"""Middleware: what every request passes, as plain ASGI, so that streams are not buffered.

`Envelope` is the outermost: it gives each request an id, writes the access log, sets security headers, and turns errors
into problems. `Gate` refuses what no route should see: foreign hosts and origins, too many or too large requests.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import MutableMapping
from ipaddress import ip_address
from traceback import format_exception
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from changeover.observe.logs import redacted
from changeover.server.access import SAFE
from changeover.server.problems import Problem, problem_of
from changeover.server.settings import LOOPBACK, Settings

logger = logging.getLogger("changeover.server")

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every answer that does not set them itself."""


CLOSE = {"Connection": "close"}
"""The rest of a refused body is not read, so the connection cannot be used again."""


class Envelope:
    """The outermost layer of every request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        id, begun, answered = uuid4().hex[:16], time.perf_counter(), list[int]()
        scope.setdefault("state", {})["request_id"] = id

        async def enclosed(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered.append(message["status"])
                _add_headers(message, id)
            await send(message)

        try:
            await self._app(scope, receive, enclosed)
        except Exception as error:
            if answered or scope["type"] == "websocket":
                raise
            answer = problem_of(error, id)
            _log_failure(error, answer.status_code, id)
            await answer(scope, receive, enclosed)
        finally:
            if scope["type"] == "http" and logger.isEnabledFor(logging.INFO):
                _log_access(scope, answered[0] if answered else 0, (time.perf_counter() - begun) * 1000)


def _log_failure(error: Exception, status: int, id: str) -> None:
    """Log what the client is not told. While the store cannot be reached, that is one line for each request."""
    if status == 504:
        return  # the client was told that it has to wait longer
    if status == 503:
        logger.warning("request %s: %s", id, redacted(str(error)))
    elif status >= 500:
        logger.error("request %s failed: %s", id, redacted("".join(format_exception(error))))


def _log_access(scope: Scope, status: int, took: float) -> None:
    """Log a request as names and values. The path is without its query, whose values may be private."""
    state: MutableMapping[str, Any] = scope["state"]
    user = getattr(state.get("caller"), "user", "")
    facts = {
        "method": scope["method"],
        "path": redacted(scope["path"]),
        "status": status,
        "ms": round(took, 1),
        "user": user,
        "request": state["request_id"],
    }
    logger.info(" ".join(f"{name}={value!r}" for name, value in facts.items()), extra={"facts": facts})


def _add_headers(message: Message, id: str) -> None:
    headers = MutableHeaders(scope=message)
    headers["x-request-id"] = id
    for name, value in SECURITY.items():
        headers.setdefault(name, value)


class CallerTrace:
    """Lets the runs that a request begins go on in the trace that its header `traceparent` names."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from opentelemetry import context, propagate

        given = dict(Headers(scope=scope)) if scope["type"] == "http" else {}
        if "traceparent" not in given:
            await self._app(scope, receive, send)
            return
        before = context.attach(propagate.extract(given))
        try:
            await self._app(scope, receive, send)
        finally:
            context.detach(before)


class Gate:
    """Refuses requests before a route sees them."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._hosts = frozenset((*LOOPBACK, *settings.hosts))
        self._rates = Rates(settings.rate, settings.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            _check_stop(scope)
            self._check(scope, headers)
        except Problem as problem:
            await _refuse(problem, scope, receive, send)
            return
        await self._app(scope, self._bounded(scope, receive, headers), send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        if sum(len(name) + len(value) for name, value in scope["headers"]) > self._settings.head:
            raise Problem(431, f"headers may have {self._settings.head:,} bytes", kind="too-large", headers=CLOSE)
        host = headers.get("host", "")
        if "*" not in self._hosts and not self._answers_to(_name(host)):
            raise Problem(421, "this server does not answer to that host name; see --allow-host", kind="wrong-host")
        origin = headers.get("origin")
        if origin is not None and not self._allows(scope, origin, host):
            raise Problem(403, "pages of another origin may not call this server", kind="wrong-origin")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._settings.body:
            raise Problem(413, f"a body may have {self._settings.body:,} bytes", kind="too-large", headers=CLOSE)
        if not self._rates.admit((scope.get("client") or ("", 0))[0], time.monotonic()):
            raise Problem(429, "too many requests", kind="too-many", headers={"Retry-After": "1"})

    def _answers_to(self, name: str) -> bool:
        """True for a name of this server, and for plain addresses: an attack by DNS rebinding needs a name."""
        return name in self._hosts or _is_address(name)

    def _allows(self, scope: Scope, origin: str, host: str) -> bool:
        if origin in self._settings.origins:
            return True
        if scope["type"] == "http" and scope["method"] in SAFE:
            return True  # a browser shows the answer to its own origin only
        return urlsplit(origin).netloc == host

    def _bounded(self, scope: Scope, receive: Receive, headers: Headers) -> Receive:
        """A function that receives the body, and cuts off a client that sends too much or too slowly."""
        if scope["type"] != "http" or (scope["method"] in SAFE and "content-length" not in headers):
            return receive
        taken, ended = 0, False

        async def receive_some() -> Message:
            nonlocal taken, ended
            if ended:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), self._settings.patience)
            except TimeoutError:
                raise Problem(408, "the body came too slowly", kind="too-slow", headers=CLOSE) from None
            taken += len(message.get("body", b""))
            ended = not message.get("more_body", False)
            if taken > self._settings.body:
                raise Problem(413, f"a body may have {self._settings.body:,} bytes", kind="too-large", headers=CLOSE)
            return message

        return receive_some


def _check_stop(scope: Scope) -> None:
    """Refuse new work while the server stops; a client may still read over a connection that it has."""
    if scope["app"].state.live.stopping and scope.get("method") not in SAFE:
        raise Problem(503, "the server stops; try again", kind="stopping", headers=CLOSE)


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": problem.detail[:120]})
        return
    state: MutableMapping[str, Any] = scope.get("state", {})
    await problem_of(problem, state.get("request_id", ""))(scope, receive, send)


def _name(host: str) -> str:
    """The host of a Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


class Rates:
    """A rate limit with a token bucket for each client; the clients that were silent longest are dropped."""

    MOST = 10_000

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admit(self, client: str, now: float) -> bool:
        """Count a request; False if the client has made too many."""
        if self._rate <= 0:
            return True
        left, last = self._clients.pop(client, (float(self._burst), now))
        left = min(self._burst, left + (now - last) * self._rate)
        self._clients[client] = (max(0.0, left - 1), now)
        if len(self._clients) > self.MOST:
            self._clients.popitem(last=False)
        return left >= 1
