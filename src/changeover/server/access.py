"""Access: who may call what. A token names a user and a role; one table gives every route the role that it needs."""

from __future__ import annotations

import hashlib
import secrets
from enum import IntEnum
from hmac import compare_digest

from msgspec import Struct
from starlette.requests import HTTPConnection

from changeover.server.problems import Problem
from changeover.server.settings import Settings

SESSION, CSRF = "changeover_session", "changeover_csrf"
"""Cookies of pages: the token, which scripts cannot read, and the CSRF token, which they send back as a header."""
CSRF_HEADER = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Role(IntEnum):
    """What a token may do; each may do what those below it may, except for a worker, which only claims."""

    PUBLIC = 0
    """No token is needed."""
    WORKER = 1
    VIEWER = 2
    OPERATOR = 3
    APPROVER = 4
    ADMIN = 5


class Caller(Struct, frozen=True, kw_only=True):
    """Who makes a request."""

    user: str
    role: Role
    agents: tuple[str, ...] = ()
    """The agents whose tickets it may claim; empty for all."""
    roles: tuple[str, ...] = ()
    """The roles in which it decides about approvals."""
    everything: bool = False
    """True if it sees the conversations of all users."""
    token: str = ""
    """The id of its token; empty if it needed none."""

    def needs(self, role: Role) -> None:
        """Raise Problem unless this caller may call routes of this role."""
        if self.role is Role.WORKER and role > Role.WORKER:
            raise Problem(403, "the token of a worker only claims and answers tickets", kind="forbidden")
        if self.role < role:
            needed, has = role.name.lower(), self.role.name.lower()
            raise Problem(403, f"this needs the role {needed}; the token has the role {has}", kind="forbidden")

    @property
    def sees_all(self) -> bool:
        """True if this caller may see the conversations of all users."""
        return self.everything or self.role >= Role.APPROVER

    def sees(self, owner: str) -> bool:
        """True if this caller may see a conversation of this user."""
        return self.sees_all or owner == self.user


OWNER = Caller(user="", role=Role.ADMIN, everything=True)
"""Who calls a server that needs no token, or shows one of its settings."""


class Doorkeeper:
    """Finds out who makes a request, by a bearer token or by the cookie of a page."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._owners = [digest_of(each) for each in settings.tokens]

    async def caller(self, request: HTTPConnection) -> Caller:
        """Who makes this request; raises Problem if nobody is known, or a page sends no CSRF token."""
        secret, by_page = _secret_of(request)
        method: str = request.scope.get("method", "GET")
        if by_page and method not in SAFE:
            _check_csrf(request)
        if secret is not None:
            return await self.holder(secret)
        if self._settings.open_access:
            return OWNER
        raise unauthorized("this needs a token: send the header `Authorization: Bearer TOKEN`")

    async def holder(self, secret: str) -> Caller:
        """Who holds this token; raises Problem if it is not valid."""
        wanted = digest_of(secret)
        if any(compare_digest(each, wanted) for each in self._owners):
            return OWNER
        raise unauthorized("the token is not known")


def _secret_of(request: HTTPConnection) -> tuple[str | None, bool]:
    """The token of a request, and whether a browser's page sends it: then its cookie proves nothing by itself."""
    given = request.headers.get("authorization")
    if given is not None:
        scheme, _, secret = given.partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise unauthorized("the header Authorization has to be: Bearer TOKEN")
        return secret.strip(), False
    browser = "origin" in request.headers or "sec-fetch-site" in request.headers or bool(request.cookies)
    return request.cookies.get(SESSION), browser


def _check_csrf(request: HTTPConnection) -> None:
    cookie, header = request.cookies.get(CSRF, ""), request.headers.get(CSRF_HEADER, "")
    if not cookie or not compare_digest(cookie.encode(), header.encode()):
        detail = f"send the value of the cookie {CSRF} as the header {CSRF_HEADER}; GET /me sets the cookie"
        raise Problem(403, detail, kind="csrf")


def new_csrf() -> str:
    """A random value for the CSRF cookie."""
    return secrets.token_urlsafe(24)


def digest_of(secret: str) -> str:
    """What is kept of a token. It is random and long, so a plain hash cannot be guessed backwards."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def unauthorized(detail: str) -> Problem:
    """The answer to a request without a valid token."""
    return Problem(401, detail, kind="unauthorized", headers={"WWW-Authenticate": 'Bearer realm="changeover"'})


ROUTES: dict[str, Role] = {
    "GET /health": Role.PUBLIC,
    "GET /ready": Role.PUBLIC,
    "GET /version": Role.PUBLIC,
    "GET /me": Role.WORKER,
    # conversations
    "GET /conversations": Role.VIEWER,
    "POST /conversations": Role.OPERATOR,
    "GET /conversations/{id:path}/events": Role.VIEWER,
    "GET /conversations/{id:path}/stream": Role.VIEWER,
    "GET /conversations/{id:path}/tasks": Role.VIEWER,
    "GET /conversations/{id:path}/messages": Role.VIEWER,
    "GET /conversations/{id:path}/handoffs": Role.VIEWER,
    "GET /conversations/{id:path}/runs": Role.VIEWER,
    "GET /conversations/{id:path}/graph": Role.VIEWER,
    "GET /conversations/{id:path}/export": Role.VIEWER,
    "POST /conversations/{id:path}/messages": Role.OPERATOR,
    "POST /conversations/{id:path}/cancel": Role.OPERATOR,
    "POST /conversations/{id:path}/resume": Role.OPERATOR,
    "GET /conversations/{id:path}": Role.VIEWER,
    "DELETE /conversations/{id:path}": Role.ADMIN,
    # what conversations are made of
    "GET /runs/{id:path}": Role.VIEWER,
    "GET /tasks": Role.VIEWER,
    "GET /tasks/{id:path}/messages": Role.VIEWER,
    "GET /tasks/{id:path}": Role.VIEWER,
    "GET /handoffs": Role.VIEWER,
    "POST /handoffs": Role.OPERATOR,
    "POST /handoffs/{id:path}/rollback": Role.OPERATOR,
    "GET /handoffs/{id:path}": Role.VIEWER,
    # the queue
    "GET /tickets": Role.VIEWER,
    "POST /tickets": Role.OPERATOR,
    "POST /claims": Role.WORKER,
    "POST /tickets/{id:path}/accept": Role.WORKER,
    "POST /tickets/{id:path}/reject": Role.WORKER,
    "POST /tickets/{id:path}/conditional": Role.WORKER,
    "POST /tickets/{id:path}/heartbeat": Role.WORKER,
    "POST /tickets/{id:path}/complete": Role.WORKER,
    "POST /tickets/{id:path}/fail": Role.WORKER,
    "POST /tickets/{id:path}/give-back": Role.WORKER,
    "POST /tickets/{id:path}/cancel": Role.OPERATOR,
    "POST /tickets/{id:path}/retry": Role.OPERATOR,
    "GET /tickets/{id:path}/result": Role.VIEWER,
    "GET /tickets/{id:path}": Role.VIEWER,
    # people
    "GET /approvals": Role.VIEWER,
    "GET /approvals/{id:path}": Role.VIEWER,
    "POST /approvals/{id:path}/decision": Role.APPROVER,
    # the team
    "GET /agents": Role.VIEWER,
    "POST /agents/{id}/enable": Role.ADMIN,
    "POST /agents/{id}/disable": Role.ADMIN,
    "GET /agents/{id}": Role.VIEWER,
    "GET /graph": Role.VIEWER,
    "GET /router/capabilities": Role.VIEWER,
    "GET /router/learned": Role.VIEWER,
    "DELETE /router/learned": Role.ADMIN,
    "POST /router/recommend": Role.VIEWER,
    "GET /experiments": Role.VIEWER,
    "GET /breakers": Role.VIEWER,
    "POST /breakers/{id}/force": Role.OPERATOR,
    "POST /breakers/{id}/reset": Role.OPERATOR,
    "GET /metrics": Role.VIEWER,
    # calls of the command line, each of which has a role of its own
    "POST /store/{call}": Role.VIEWER,
}
"""The role that each route needs, in the order in which paths are matched; a route that is not here cannot be made."""
