"""Declarations: agents, tools, skills and team settings as documents of the store, with all their versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Header, Query
from msgspec import Struct

from changeover.relay.ports.declarations import Declaration, Edit, Kind, Standing
from changeover.server.access import Caller
from changeover.server.problems import Problem
from changeover.server.resource import Id, Resource, Served, Some, Who, audited
from changeover.server.wire import Json, Page, body
from changeover.team import Team

resource = Resource("declarations")

NOT_FOUND = {404: "There is no such declaration"}
CHANGED = {412: "It is at another version than If-Match says, or exists although If-None-Match says that it must not"}
IfMatch = Annotated[
    str | None, Header(alias="If-Match", max_length=100, description="The ETag of the version that is changed.")
]
IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", max_length=100, description="`*`: it must not exist yet.")
]
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="An earlier version.")]


class Switch(Struct, frozen=True, forbid_unknown_fields=True):
    """The new state of a declaration."""

    state: Standing


class Drafts:
    """The declarations of a team for one caller, whose changes are audited and hold in this process at once."""

    def __init__(self, team: Team, who: Caller) -> None:
        self._team, self._who, self._port = team, who, team.declarations
        self.listed, self.one, self.history = self._port.listed, self._port.one, self._port.history

    async def put(
        self, kind: Kind, name: str, document: Mapping[str, Any], *, by: str = "", expected: int | None = None
    ) -> Declaration:
        [written] = await self.write([Edit(kind, name, document, expected=expected)], by=by)
        return written

    async def set_state(
        self, kind: Kind, name: str, state: Standing, *, by: str = "", expected: int | None = None
    ) -> Declaration:
        [written] = await self.write([Edit(kind, name, state=state, expected=expected)], by=by)
        return written

    async def write(self, edits: Sequence[Edit], *, by: str = "") -> list[Declaration]:
        """Write changes for the user of the token; `by` counts only where no token is needed."""
        written = await self._port.write(edits, by=self._who.user or by)
        for edit, row in zip(edits, written, strict=True):
            detail = {"version": row.version, "edition": row.edition}
            action = f"declaration.{edit.state or 'put'}"
            await audited(self._team, self._who, action, f"{row.kind}/{row.name}", detail)
        await self._team.engine.world()
        return written


@resource.route("GET /declarations", Page[Declaration])
async def list_declarations(
    team: Served,
    some: Some,
    kind: Kind | None = None,
    removed: Annotated[bool, Query(description="With removed ones.")] = False,
) -> Json:
    """The current declarations of the store, by kind and name."""
    return some.page(await team.declarations.listed(kind, removed))


@resource.route("GET /declarations/{kind}/{name}/history", Page[Declaration], refusals=NOT_FOUND)
async def declaration_history(kind: Kind, name: Id, team: Served) -> Json:
    """All versions of a declaration, the oldest first."""
    if not (found := await team.declarations.history(kind, name)):
        raise _missing(kind, name)
    return Json(Page(found))


@resource.route("GET /declarations/{kind}/{name}", Declaration, refusals=NOT_FOUND)
async def read_declaration(kind: Kind, name: Id, team: Served, version: Version = None) -> Json:
    """A declaration; its ETag goes back as If-Match with a change."""
    if (found := await team.declarations.one(kind, name, version)) is None:
        raise _missing(kind, name)
    return _answer(found)


@resource.route(
    "PUT /declarations/{kind}/{name}", {200: Declaration, 201: Declaration}, body=dict[str, Any], refusals=CHANGED
)
async def put_declaration(  # noqa: PLR0913 - each is a part of the request
    kind: Kind,
    name: Id,
    team: Served,
    who: Who,
    document: Annotated[dict[str, Any], body(dict[str, Any])],
    *,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Json:
    """Write a new version. The whole team is checked with it first; it holds from the next run on."""
    written = await Drafts(team, who).put(kind, name, document, expected=_expected(if_match, if_none_match))
    return _answer(written, 201 if written.version == 1 else 200)


@resource.route("PATCH /declarations/{kind}/{name}", Declaration, body=Switch, refusals={**NOT_FOUND, **CHANGED})
async def switch_declaration(
    kind: Kind,
    name: Id,
    team: Served,
    who: Who,
    switch: Annotated[Switch, body(Switch)],
    if_match: IfMatch = None,
) -> Json:
    """Enable, disable or remove a declaration. Runs under way go on as they began; no version is deleted."""
    return _answer(await _set_state(team, who, (kind, name), switch.state, if_match))


@resource.route("DELETE /declarations/{kind}/{name}", {204: None}, refusals={**NOT_FOUND, **CHANGED})
async def remove_declaration(kind: Kind, name: Id, team: Served, who: Who, if_match: IfMatch = None) -> Json:
    """Remove a declaration; its versions stay readable."""
    await _set_state(team, who, (kind, name), "removed", if_match)
    return Json(None, 204)


async def _set_state(team: Team, who: Caller, key: tuple[Kind, str], state: Standing, match: str | None) -> Declaration:
    drafts = Drafts(team, who)
    if await drafts.one(*key) is None:
        raise _missing(*key)
    return await drafts.set_state(*key, state, expected=_expected(match))


def _answer(declaration: Declaration, status: int = 200) -> Json:
    return Json(declaration, status, headers={"ETag": f'"{declaration.version}"'})


def _expected(match: str | None, none_match: str | None = None) -> int | None:
    """The version that a change is based on; 0 if there must be none, None if any will do."""
    if none_match is not None:
        if none_match.strip() != "*":
            raise Problem(422, "If-None-Match has to be *: a new declaration must not exist yet", kind="bad-parameter")
        return 0
    if match is None or match.strip() == "*":
        return None
    number = match.strip().removeprefix("W/").strip('"')
    if not number.isdecimal() or len(number) > 9:
        raise Problem(422, f"If-Match is {match!r}, and has to be an ETag of this declaration", kind="bad-parameter")
    return int(number)


def _missing(kind: str, name: str) -> Problem:
    return Problem(404, f"the store has no {kind} {name!r}, or not in this version", kind="declaration-not-found")
