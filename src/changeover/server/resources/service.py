"""Service: health, readiness, version, and who the caller is."""

from __future__ import annotations

from importlib.metadata import version as version_of

from fastapi import Request
from msgspec import Struct

from changeover.server.access import CSRF, new_csrf
from changeover.server.resource import Resource, Served, Who
from changeover.server.wire import Json

resource = Resource("service")


class Health(Struct, frozen=True):
    """The process answers."""

    status: str


class Version(Struct, frozen=True):
    """What is served."""

    version: str
    team: str


class Me(Struct, frozen=True, kw_only=True):
    """Who makes this request, and what it may do."""

    user: str
    role: str
    agents: tuple[str, ...]
    """The agents whose tickets it may claim; empty for all."""
    roles: tuple[str, ...]
    """The roles in which it decides about approvals."""
    all: bool
    """True if it sees the conversations of all users."""


@resource.route("GET /health", Health)
async def health() -> Json:
    """Whether the process answers."""
    return Json(Health("ok"))


@resource.route("GET /ready", Health)
async def ready(team: Served) -> Json:
    """Whether the store can be read, so that the server can work."""
    await team.log.agents.version()
    return Json(Health("ready"))


@resource.route("GET /version", Version)
async def version(team: Served) -> Json:
    """The version of Changeover, and the name of the team."""
    return Json(Version(version_of("changeover"), team.name))


@resource.route("GET /me", Me)
async def me(request: Request, who: Who) -> Json:
    """Who the caller is. A page gets its CSRF cookie here."""
    answer = Json(Me(user=who.user, role=who.role.name.lower(), agents=who.agents, roles=who.roles, all=who.everything))
    if CSRF not in request.cookies:
        set_csrf(request, answer)
    return answer


def set_csrf(request: Request, answer: Json) -> None:
    """Give a page a CSRF token, which it sends back with every change."""
    path = request.scope.get("root_path") or "/"
    secure = request.url.scheme == "https"
    answer.set_cookie(CSRF, new_csrf(), path=path, secure=secure, httponly=False, samesite="strict")
