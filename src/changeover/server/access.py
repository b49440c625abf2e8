"""Access: the callers of the server and their rights. A token names a user and a role; a table has the role of each
route."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from enum import IntEnum
from hmac import compare_digest

from msgspec import Struct
from starlette.requests import HTTPConnection

from changeover.errors import TokenRefused
from changeover.relay.ports.tokens import Tokens, digest_of
from changeover.server.problems import Problem
from changeover.server.settings import Settings

SESSION, CSRF = "changeover_session", "changeover_csrf"
"""Cookies of pages: the token, which scripts cannot read, and the CSRF token, which they send back as a header."""
CSRF_HEADER = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Role(IntEnum):
    """What a token may do. A worker only claims and answers tickets, and a viewer only reads; from OPERATOR on, each
    role may do all that the roles before it may."""

    PUBLIC = 0
    """No token is needed."""
    ANYONE = 1
    """Any valid token."""
    WORKER = 2
    """A worker; operators may claim too."""
    VIEWER = 3
    OPERATOR = 4
    APPROVER = 5
    ADMIN = 6


class Caller(Struct, frozen=True, kw_only=True):
    """The caller of a request: its user, its role and its rights."""

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
        needed, has = role.name.lower(), self.role.name.lower()
        if role > Role.WORKER and self.role is Role.WORKER:
            raise Problem(403, "the token of a worker only claims and answers tickets", kind="forbidden")
        if role is Role.WORKER and self.role is Role.VIEWER:
            raise Problem(403, "the token of a viewer claims no tickets", kind="forbidden")
        if self.role < role:
            raise Problem(403, f"this needs the role {needed}; the token has the role {has}", kind="forbidden")

    @property
    def sees_all(self) -> bool:
        """True if this caller may see the conversations of all users."""
        return self.everything or self.role >= Role.APPROVER

    def sees(self, owner: str) -> bool:
        """True if this caller may see a conversation of this user."""
        return self.sees_all or owner == self.user


OWNER = Caller(user="", role=Role.ADMIN, everything=True)
"""The caller of a server that needs no token, or that lists the token in its settings; it decides in any role."""

WEBHOOK = Caller(user="webhook", role=Role.OPERATOR)
"""The caller of a route for webhooks that shows no token: the route checks its signature."""


class Doorkeeper:
    """Finds the caller of a request, by a bearer token or by the cookie of a page."""

    def __init__(self, settings: Settings, tokens: Callable[[], Tokens]) -> None:
        self._settings, self._tokens = settings, tokens
        self._owners = [digest_of(each) for each in settings.tokens]

    async def caller(self, request: HTTPConnection) -> Caller:
        """The caller of a request; raises Problem if its token is missing or refused, or a page sends no CSRF token."""
        secret, by_page = _secret_of(request)
        method: str = request.scope.get("method", "GET")
        if by_page and method not in SAFE:
            _check_csrf(request)
        if secret is not None:
            return await self.holder(secret)
        if self._settings.open_access:
            return OWNER
        raise unauthorized("this needs a token: send the header `Authorization: Bearer TOKEN`")

    def has_to_sign(self, request: HTTPConnection) -> bool:
        """True if a request to a route for webhooks shows no token, and the server has a secret to check it with."""
        shown = "authorization" in request.headers or SESSION in request.cookies
        return bool(self._settings.webhook_secret) and not shown

    async def holder(self, secret: str) -> Caller:
        """The caller that holds this token; raises Problem if it is not valid."""
        wanted = digest_of(secret)
        if any(compare_digest(each, wanted) for each in self._owners):
            return OWNER
        try:
            token = await self._tokens().holder(secret)
        except TokenRefused as refused:
            raise unauthorized(str(refused)) from None
        return Caller(
            user=token.user,
            role=Role[token.role.upper()],
            agents=token.agents,
            roles=token.approval_roles,
            everything=token.everything,
            token=token.id,
        )


def _secret_of(request: HTTPConnection) -> tuple[str | None, bool]:
    """The token of a request, and True if a page sends it: browsers add cookies unasked, so a CSRF token is due."""
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


def unauthorized(detail: str) -> Problem:
    """The answer to a request without a valid token."""
    return Problem(401, detail, kind="unauthorized", headers={"WWW-Authenticate": 'Bearer realm="changeover"'})


ROUTES: dict[str, Role] = {
    "GET /health": Role.PUBLIC,
    "GET /ready": Role.PUBLIC,
    "GET /version": Role.PUBLIC,
    "GET /openapi.json": Role.PUBLIC,
    "GET /docs": Role.PUBLIC,
    "GET /docs/{file}": Role.PUBLIC,
    "GET /me": Role.ANYONE,
    "POST /session": Role.PUBLIC,
    "DELETE /session": Role.PUBLIC,
    # conversations
    "GET /conversations": Role.VIEWER,
    "POST /conversations": Role.OPERATOR,
    "GET /conversations/{id:path}/events": Role.VIEWER,
    "GET /conversations/{id:path}/stream": Role.VIEWER,
    "GET /conversations/{id:path}/tasks": Role.VIEWER,
    "GET /conversations/{id:path}/messages": Role.VIEWER,
    "GET /conversations/{id:path}/handoffs": Role.VIEWER,
    "GET /conversations/{id:path}/runs": Role.VIEWER,
    "GET /conversations/{id:path}/context-flow": Role.VIEWER,
    "GET /conversations/{id:path}/graph": Role.VIEWER,
    "GET /conversations/{id:path}/chain": Role.VIEWER,
    "GET /conversations/{id:path}/prompts/{seq}": Role.VIEWER,
    "GET /conversations/{id:path}/workflows": Role.VIEWER,
    "GET /conversations/{id:path}/export": Role.VIEWER,
    "GET /conversations/{id:path}/files": Role.VIEWER,
    "GET /conversations/{id:path}/files/{seq}/{index}": Role.VIEWER,
    "GET /conversations/{id:path}/artifacts": Role.VIEWER,
    "GET /conversations/{id:path}/contexts/{context}": Role.VIEWER,
    "POST /conversations/{id:path}/measures": Role.OPERATOR,
    "POST /conversations/{id:path}/messages": Role.OPERATOR,
    "POST /conversations/{id:path}/cancel": Role.OPERATOR,
    "POST /conversations/{id:path}/resume": Role.OPERATOR,
    "POST /conversations/{id:path}/steps/{step}/retry": Role.OPERATOR,
    "PATCH /conversations/{id:path}": Role.OPERATOR,
    "GET /conversations/{id:path}": Role.VIEWER,
    "DELETE /conversations/{id:path}": Role.ADMIN,
    # what conversations are made of
    "GET /runs": Role.VIEWER,
    "GET /runs/{id:path}": Role.VIEWER,
    "GET /tasks": Role.VIEWER,
    "GET /tasks/{id:path}/messages": Role.VIEWER,
    "GET /tasks/{id:path}": Role.VIEWER,
    "GET /handoffs": Role.VIEWER,
    "POST /handoffs": Role.OPERATOR,
    "POST /handoffs/{id:path}/rollback": Role.OPERATOR,
    "GET /handoffs/{id:path}": Role.VIEWER,
    # the queue
    "GET /queue": Role.VIEWER,
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
    "POST /tickets/{id:path}/context": Role.WORKER,
    "POST /tickets/{id:path}/cancel": Role.OPERATOR,
    "POST /tickets/{id:path}/retry": Role.OPERATOR,
    "POST /tickets/{id:path}/hand-on": Role.OPERATOR,
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
    "GET /agents/{id}/prompt": Role.VIEWER,
    "GET /agents/{id}": Role.VIEWER,
    "GET /tools": Role.VIEWER,
    "POST /tools/{id}/test": Role.ADMIN,
    "GET /workflows": Role.VIEWER,
    "GET /workflows/{id}": Role.VIEWER,
    "GET /workflows/{id}/metrics": Role.VIEWER,
    "POST /workflows/{id}/runs": Role.OPERATOR,
    "GET /graph": Role.VIEWER,
    "GET /rules": Role.VIEWER,
    "GET /router": Role.VIEWER,
    "GET /router/capabilities": Role.VIEWER,
    "GET /router/learned": Role.VIEWER,
    "DELETE /router/learned": Role.ADMIN,
    "POST /router/recommend": Role.VIEWER,
    "GET /experiments": Role.VIEWER,
    "GET /experiments/{id}": Role.VIEWER,
    "GET /breakers": Role.VIEWER,
    "POST /breakers/{id}/force": Role.OPERATOR,
    "POST /breakers/{id}/reset": Role.OPERATOR,
    "GET /metrics": Role.VIEWER,
    "GET /metrics/runs": Role.VIEWER,
    # events and schedules
    "POST /bus": Role.OPERATOR,
    "GET /bus": Role.VIEWER,
    "POST /bus/events": Role.OPERATOR,
    "GET /bus/events": Role.VIEWER,
    "GET /bus/dead-letters": Role.VIEWER,
    "POST /bus/events/{id}/resend": Role.OPERATOR,
    "GET /bus/events/{id}": Role.VIEWER,
    "GET /schedules": Role.VIEWER,
    "POST /schedules/{id}/run": Role.OPERATOR,
    "POST /schedules/{id}/pause": Role.OPERATOR,
    "POST /schedules/{id}/resume": Role.OPERATOR,
    "GET /schedules/{id}": Role.VIEWER,
    # declarations, tokens and the audit
    "GET /declarations": Role.VIEWER,
    "GET /declarations/{kind}/{name}/history": Role.VIEWER,
    "GET /declarations/{kind}/{name}": Role.VIEWER,
    "PUT /declarations/{kind}/{name}": Role.ADMIN,
    "PATCH /declarations/{kind}/{name}": Role.ADMIN,
    "DELETE /declarations/{kind}/{name}": Role.ADMIN,
    "GET /export": Role.VIEWER,
    "POST /import": Role.ADMIN,
    "POST /drafts/tool/{name}/discover": Role.ADMIN,
    "POST /drafts/{kind}/{name}": Role.ADMIN,
    "GET /tokens": Role.ADMIN,
    "POST /tokens": Role.ADMIN,
    "DELETE /tokens/{id}": Role.ADMIN,
    "GET /audit": Role.ADMIN,
    "GET /store": Role.ADMIN,
    "GET /store/export": Role.ADMIN,
    # a WebSocket
    "WS /live": Role.VIEWER,
    # calls of the command line, each of which has a role of its own
    "POST /store/{call}": Role.VIEWER,
}
"""The role that each route needs, in the order in which paths are matched; a route that is not here cannot be made."""
