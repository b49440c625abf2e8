"""Resource: routes of one kind of thing. Each names its body, its answers and its refusals; its role is in `access`."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypedDict, TypeVar, Unpack

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi import Path as PathParameter
from msgspec import Struct

from changeover.errors import ConversationNotFound, MisconfiguredError
from changeover.relay.ports.lists import ConversationRow, Paging, R
from changeover.server.access import ROUTES, WEBHOOK, Caller, Doorkeeper, Role
from changeover.server.examples import EXAMPLES
from changeover.server.problems import Problem
from changeover.server.settings import API
from changeover.server.wire import JSON, SCHEMAS, Json, Page, described
from changeover.team import Team


class Where(TypedDict, total=False):
    """The place of the records of a list."""

    within: str | None
    """This conversation and all below it."""
    roots: bool
    """Without the conversations of delegates."""


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

REFUSALS: Mapping[int, str] = {
    400: "The body is not JSON",
    401: "No valid token",
    403: "The token does not allow this",
    408: "The body came too slowly",
    413: "The body is too large",
    421: "Wrong host name",
    422: "The body or a parameter does not fit",
    429: "Too many requests",
    431: "The headers are too large",
    503: "The store cannot be reached; try again",
}
"""Refusals that every route may answer with."""


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
        signed: bool = False,
    ) -> Callable[[F], F]:
        """Declare a route, such as "GET /agents"; KeyError if the table of routes gives it no role.

        `body` is the type of the body as JSON, or a dict of types by media type. `answers` is the type of the answer,
        or a dict of types by status; the first is the usual one. A caller without a token may call a `signed`
        route, which checks its signature, if the server has a secret for webhooks.
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
                dependencies=[Depends(_needed(role, signed))],
                openapi_extra=_extra(route, body),
                operation_id=function.__name__,
            )
            return function

        return declare


def _extra(route: str, body: Any) -> dict[str, Any]:
    role = ROUTES[route]
    extra: dict[str, Any] = {"x-role": role.name.lower(), "security": [] if role is Role.PUBLIC else [{"token": []}]}
    if body is not None:
        kinds = body if isinstance(body, dict) else {JSON: body}
        content = {media: {"schema": SCHEMAS.reference(kind)} for media, kind in kinds.items()}
        if route in EXAMPLES:
            content[JSON]["example"] = EXAMPLES[route]
        extra["requestBody"] = {"required": True, "content": content}
    return extra


def _needed(role: Role, signed: bool) -> Callable[[Request], Any]:
    async def check(request: Request) -> None:
        if signed and request.app.state.doorkeeper.has_to_sign(request):
            request.state.caller = WEBHOOK
        elif role is not Role.PUBLIC:
            caller: Caller = await request.app.state.doorkeeper.caller(request)
            try:
                caller.needs(role)
            except Problem as refused:
                what = f"{request.method} {request.url.path.removeprefix(API)}"
                await audited(request.app.state.team, caller, "refused", what, {"reason": refused.detail})
                raise
            request.state.caller = caller

    return check


# Async although nothing is awaited: FastAPI would run plain functions on other threads.
async def _team(request: Request) -> Team:
    team: Team = request.app.state.team
    return team


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


async def _keeper(request: Request) -> Doorkeeper:
    keeper: Doorkeeper = request.app.state.doorkeeper
    return keeper


Keeper = Annotated[Doorkeeper, Depends(_keeper)]
Served = Annotated[Team, Depends(_team)]
"""The team that the server serves."""
Who = Annotated[Caller, Depends(_caller)]
"""The caller of the request."""
Id = Annotated[str, PathParameter(min_length=1, max_length=500)]
Filter = Annotated[str | None, Query(min_length=1, max_length=200)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
"""The same key gives the same answer, and nothing is done twice."""


async def _paging(
    limit: Annotated[int, Query(ge=1, le=1_000, description="Items of a page.")] = 50,
    sort: Annotated[str, Query(max_length=40, description="An order of the list; `-` puts the greatest first.")] = "",
    cursor: Annotated[str | None, Query(max_length=1_000, description="`next` of the page before.")] = None,
) -> Paging:
    return {"limit": limit, "sort": sort, "cursor": cursor}


Part = Annotated[Paging, Depends(_paging)]
"""Which part of a list of records is read."""


class Cut(Struct, frozen=True):
    """The part that is read of a list that is in memory as a whole."""

    limit: int | None
    cursor: str | None

    def page(self, items: Sequence[T], key: Callable[[T], tuple[float | str, ...]] | None = None) -> Json:
        """The page after the cursor. The items are in the order of their keys; without a key, items are only added."""
        keyed = [(key(each) if key else (number,), each) for number, each in enumerate(items)]
        try:
            last = _read_cursor(self.cursor)
            left = [each for each in keyed if last is None or each[0] > last]
        except (ValueError, TypeError):  # no base64, no JSON, or a key of another list
            raise MisconfiguredError(
                f"cursor={self.cursor!r} is none of this list; give `next` of the page before"
            ) from None
        page = left[: self.limit]
        following = _cursor(page[-1][0]) if len(page) < len(left) else None
        return Json(Page([item for _, item in page], following))


def _cursor(key: tuple[float | str, ...]) -> str:
    return urlsafe_b64encode(msgspec.json.encode(key)).decode()


def _read_cursor(cursor: str | None) -> tuple[float | str, ...] | None:
    return tuple(msgspec.json.decode(urlsafe_b64decode(cursor), type=list[float | str])) if cursor else None


async def _cut(
    limit: Annotated[int | None, Query(ge=1, le=1_000, description="Items of a page; by default all.")] = None,
    cursor: Annotated[str | None, Query(max_length=1_000, description="`next` of the page before.")] = None,
) -> Cut:
    return Cut(limit, cursor)


Some = Annotated[Cut, Depends(_cut)]
"""The part that is read of a list that is in memory as a whole."""


async def listed(
    team: Team, who: Caller, kind: type[R], wanted: Mapping[str, str | None], part: Paging, **more: Unpack[Where]
) -> Json:
    """A page of the records of this team that the caller may see; filters that are None are not used."""
    found = await team.log.lists.listed(kind, visible(team, who, wanted), **more, **part)
    return Json(Page(found, found.next))


def visible(team: Team, who: Caller, wanted: Mapping[str, str | None]) -> dict[str, str]:
    """The filters of a list, narrowed to what the caller may see."""
    filters = {name: value for name, value in wanted.items() if value is not None} | {"team": team.name}
    return filters if who.sees_all else filters | {"user": who.user}


async def seen(team: Team, who: Caller, id: str, missing: Exception | None = None) -> ConversationRow:
    """The conversation with this id; raises ConversationNotFound, or `missing`, also if it is not the caller's."""
    row = await team.log.lists.one(ConversationRow, id) if id else None
    if row is None or row.team != team.name or not who.sees(row.user):
        raise missing or ConversationNotFound(id)
    return row


async def free_or_seen(team: Team, who: Caller, id: str) -> bool:
    """True if the caller may begin a conversation with this id; raises ConversationNotFound if it is another's."""
    if await team.log.lists.one(ConversationRow, id) is None:
        return True
    await seen(team, who, id)
    return False


async def audited(team: Team, who: Caller, action: str, subject: str, detail: Mapping[str, Any] | None = None) -> None:
    """Note in the audit what a caller does to the team, its tokens or its declarations."""
    await team.log.audit.note(who.user, action, subject, dict(detail or {}), token=who.token)


def own_key(key: str | None, who: Caller) -> str | None:
    """An idempotency key that no other user can use too."""
    return f"{who.user}/{key}" if key and who.user else key
