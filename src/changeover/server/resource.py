"""Resource: routes of one kind of thing. Each names its body, its answers and its refusals; its role is in `access`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request

from changeover.relay.lists import PAGE
from changeover.server.access import ROUTES, Caller, Role
from changeover.server.wire import JSON, SCHEMAS, described
from changeover.team import Team

F = TypeVar("F", bound=Callable[..., Any])

REFUSALS: Mapping[int, str] = {
    400: "The body is not JSON",
    401: "No valid token",
    403: "The token does not allow this",
    408: "The body came too slowly",
    413: "The body is too large",
    421: "Wrong host name",
    422: "The body or a parameter does not fit",
    429: "Too many requests",
    503: "The store cannot be reached; try again",
}
"""What every route may answer instead."""


class Resource:
    """Collects the routes of one kind of thing."""

    def __init__(self, name: str) -> None:
        self.router = APIRouter(tags=[name])

    def route(
        self,
        route: str,
        answers: Any,
        *,
        body: Any = None,
        refusals: Mapping[int, str] | None = None,
        media: Sequence[str] = (JSON,),
    ) -> Callable[[F], F]:
        """Declare a route, such as "GET /agents"; KeyError if the table of routes gives it no role.

        `answers` is the type of the answer, or a dict of types by status; the first is the usual one.
        """
        method, path = route.split(" ")
        role, all_answers = ROUTES[route], answers if isinstance(answers, dict) else {200: answers}

        def declare(function: F) -> F:
            self.router.add_api_route(
                path,
                function,
                methods=[method],
                status_code=next(iter(all_answers)),
                responses=described(all_answers, {**REFUSALS, **(refusals or {})}, media),
                response_model=None,
                dependencies=[Depends(_needed(role))],
                openapi_extra=_extra(body, role),
                operation_id=function.__name__,
            )
            return function

        return declare


def _extra(body: Any, role: Role) -> dict[str, Any]:
    extra: dict[str, Any] = {"x-role": role.name.lower(), "security": [] if role is Role.PUBLIC else [{"token": []}]}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {JSON: {"schema": SCHEMAS.reference(body)}}}
    return extra


def _needed(role: Role) -> Callable[[Request], Any]:
    async def check(request: Request) -> None:
        if role is not Role.PUBLIC:
            caller: Caller = await request.app.state.doorkeeper.caller(request)
            caller.needs(role)
            request.state.caller = caller

    return check


def _team(request: Request) -> Team:
    team: Team = request.app.state.team
    return team


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


Served = Annotated[Team, Depends(_team)]
"""The team that the server serves."""
Who = Annotated[Caller, Depends(_caller)]
"""Who makes the request."""
Id = Annotated[str, Path(min_length=1, max_length=500)]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Items of a page.")]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
"""The same key gives the same answer, and nothing is done twice."""
DEFAULT_LIMIT = PAGE


def own_key(key: str | None, who: Caller) -> str | None:
    """An idempotency key that no other user can use too."""
    return f"{who.user}/{key}" if key and who.user else key


def given(**filters: str | None) -> dict[str, str]:
    """The filters of a list that the caller gave."""
    return {name: value for name, value in filters.items() if value is not None}
