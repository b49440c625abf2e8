"""Export: everything that a team has in its store, one JSON object on each line; and the health of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import version as version_of
from platform import python_version
from typing import Any

import msgspec
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from msgspec import Struct
from msgspec.structs import asdict

from changeover.relay.ports.health import StoreHealth
from changeover.relay.ports.lists import ConversationRow
from changeover.relay.ports.tokens import Audited
from changeover.server.resource import Resource, Served, Who, audited
from changeover.server.resources.conversations import Export
from changeover.server.settings import Settings
from changeover.server.wire import Json, shown
from changeover.team import Team

resource = Resource("service")

LINES = "application/x-ndjson"
PAGE = 100


class StoreReport(StoreHealth, frozen=True, kw_only=True):
    """The health of the store, and the server in front of it."""

    version: str
    team: str
    open_access: bool
    """True if the server needs no token."""
    python: str


class Line(Struct, frozen=True):
    """One line of an export."""

    kind: str
    """team, declaration, conversation or audit."""
    data: Any


@resource.route("GET /store", StoreReport)
async def read_store(request: Request, team: Served) -> Json:
    """The contents and the health of the store, and the processes that work on it."""
    settings: Settings = request.app.state.settings
    report = StoreReport(
        **asdict(await team.log.health()),
        version=version_of("changeover"),
        team=team.name,
        open_access=settings.open_access,
        python=python_version(),
    )
    return Json(report)


@resource.route("GET /store/export", bytes, media=(LINES,))
async def export_everything(team: Served, who: Who) -> Response:
    """Everything as lines of JSON: the declarations of the team, all conversations with their events, and the audit."""
    await audited(team, who, "export", team.name)
    headers = {"Content-Disposition": f'attachment; filename="{team.name}.ndjson"'}
    return StreamingResponse(_lines(team), media_type=LINES, headers=headers)


async def _lines(team: Team) -> AsyncIterator[bytes]:
    yield _line("team", {"name": team.name, "version": version_of("changeover"), "at": team.clock.now()})
    for declaration in await team.log.declarations.listed(include_removed=True):
        yield _line("declaration", declaration)
    async for row in _rows(team, ConversationRow, {"team": team.name}, True):
        events = [shown(each) for each in await team.history(row.id)]
        yield _line("conversation", Export(row, events, await team.handoffs(row.id)))
    async for row in _rows(team, Audited, {}):
        yield _line("audit", row)


async def _rows(team: Team, kind: Any, wanted: dict[str, str], roots: bool = False) -> AsyncIterator[Any]:
    cursor: str | None = None
    while True:
        page = await team.log.lists.listed(kind, wanted, roots=roots, limit=PAGE, cursor=cursor)
        for row in page:
            yield row
        cursor = page.next
        if cursor is None:
            return


def _line(kind: str, data: Any) -> bytes:
    return msgspec.json.encode(Line(kind, data)) + b"\n"
