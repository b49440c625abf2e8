"""Service: health, readiness, version, and the caller of a request."""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import Annotated

from fastapi import Request
from msgspec import Meta, Struct

from changeover.server.access import CSRF, SESSION, Caller, new_csrf
from changeover.server.resource import Keeper, Resource, Served, Who
from changeover.server.wire import Json, body

resource = Resource("service")


class Health(Struct, frozen=True):
    """The process answers."""

    status: str


class Version(Struct, frozen=True):
    """The version of Changeover, and the team that is served."""

    version: str
    team: str


class Me(Struct, frozen=True, kw_only=True):
    """The caller of this request, and its rights."""

    user: str
    role: str
    agents: tuple[str, ...]
    """The agents whose tickets it may claim; empty for all."""
    roles: tuple[str, ...]
    """The roles in which it decides about approvals."""
    all: bool
    """True if it sees the conversations of all users."""


class SignIn(Struct, frozen=True, forbid_unknown_fields=True):
    """The token of a person."""

    token: Annotated[str, Meta(min_length=1, max_length=500, pattern="^[!-~]+$")]


@resource.route("GET /health", Health)
async def health() -> Json:
    """Answers while the process runs."""
    return Json(Health("ok"))


@resource.route("GET /ready", Health)
async def ready(team: Served) -> Json:
    """Answers if the store can be read, so that the server can work; 503 if it cannot."""
    await team.log.agents.version()
    return Json(Health("ready"))


@resource.route("GET /version", Version)
async def version(team: Served) -> Json:
    """The version of Changeover, and the name of the team."""
    return Json(Version(version_of("changeover"), team.name))


@resource.route("GET /me", Me)
async def me(request: Request, who: Who) -> Json:
    """The caller of this request, and its rights. A page gets its CSRF cookie here."""
    answer = Json(_me(who))
    if CSRF not in request.cookies:
        _set_cookie(request, answer, CSRF, new_csrf(), httponly=False)
    return answer


@resource.route("POST /session", Me, body=SignIn)
async def sign_in(request: Request, keeper: Keeper, said: Annotated[SignIn, body(SignIn)]) -> Json:
    """Let a page show its token as a cookie, which no script can read, and give it a CSRF token."""
    answer = Json(_me(await keeper.holder(said.token)))
    _set_cookie(request, answer, SESSION, said.token, httponly=True)
    _set_cookie(request, answer, CSRF, new_csrf(), httponly=False)
    return answer


@resource.route("DELETE /session", {204: None})
async def sign_out(request: Request) -> Json:
    """Forget the cookies of a page."""
    answer = Json(None, 204)
    for name in (SESSION, CSRF):
        answer.delete_cookie(name, path=_path(request), samesite="strict")
    return answer


def _me(who: Caller) -> Me:
    return Me(user=who.user, role=who.role.name.lower(), agents=who.agents, roles=who.roles, all=who.everything)


def _path(request: Request) -> str:
    path: str = request.scope.get("root_path", "").rstrip("/")
    return path or "/"


def _set_cookie(request: Request, answer: Json, name: str, value: str, httponly: bool) -> None:
    secure = request.url.scheme == "https"
    answer.set_cookie(name, value, path=_path(request), secure=secure, httponly=httponly, samesite="strict")
