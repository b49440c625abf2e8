"""Contents: files that users attach and tools return, artifacts, and stored contexts (`context://`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import quote

from fastapi import Path
from fastapi.responses import Response
from msgspec import Struct

from changeover.handoffs.document import Document, read_body
from changeover.handoffs.reference import SCHEME
from changeover.ids import root_of
from changeover.messages import File
from changeover.relay.stream import Recorded
from changeover.server.problems import Problem
from changeover.server.resource import Id, Resource, Served, Some, Who, seen
from changeover.server.resources.conversations import NOT_FOUND
from changeover.server.resources.runs import state_of
from changeover.server.resources.tickets import REFUSED, Held, held_by
from changeover.server.wire import Json, Page, body
from changeover.team import Team

resource = Resource("contents")

BYTES = "application/octet-stream"
Index = Annotated[int, Path(ge=0, le=10_000)]
Seq = Annotated[int, Path(ge=1, le=2**53)]


class FileView(Struct, frozen=True, kw_only=True):
    """A file of a conversation; `seq` and `index` are its address."""

    seq: int
    """The event that holds it."""
    index: int
    name: str
    media_type: str
    size: int
    """In bytes; 0 if the file is only an address."""
    url: str


class WantedContext(Held, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A stored context that the holder of a ticket reads."""

    context: str
    """Its address, `context://…`, as the package has it."""


@resource.route("GET /conversations/{id:path}/files", Page[FileView], refusals=NOT_FOUND)
async def list_files(id: Id, team: Served, who: Who, some: Some) -> Json:
    """The files of a conversation and its delegates, in order."""
    await seen(team, who, id)
    return some.page([_view(each, index, file) for each in await team.history(id) for index, file in _files(each)])


@resource.route(
    "GET /conversations/{id:path}/files/{seq}/{index}", bytes, refusals={404: "There is no such file"}, media=(BYTES,)
)
async def read_file(id: Id, seq: Seq, index: Index, team: Served, who: Who) -> Response:
    """The bytes of a file. Browsers save it, and never show it as a page of this server."""
    await seen(team, who, id)
    events = await team.history(id, after=seq - 1)
    file = dict(_files(events[0])).get(index) if events and events[0].seq == seq else None
    if file is None or file.url:
        raise Problem(404, f"the event {seq} of {id!r} holds no file {index}", kind="file-not-found")
    name = quote(file.name or "file", safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}", "X-Media-Type": _header(file.media_type)}
    return Response(file.data, headers=headers, media_type=BYTES)


@resource.route("GET /conversations/{id:path}/artifacts", dict[str, str | None], refusals=NOT_FOUND)
async def read_artifacts(id: Id, team: Served, who: Who) -> Json:
    """References to results of the work, by name; null while there is none."""
    await seen(team, who, id)
    return Json((await state_of(team, id)).artifacts)


@resource.route("GET /conversations/{id:path}/contexts/{context}", Document, refusals={404: "There is no such context"})
async def read_context(id: Id, context: Id, team: Served, who: Who) -> Json:
    """A stored context of a conversation's tree: what was said before a handoff."""
    await seen(team, who, id)
    return Json(await _context(team, root_of(id), context))


@resource.route("POST /tickets/{id:path}/context", Document, body=WantedContext, refusals=REFUSED)
async def fetch_context(id: Id, team: Served, who: Who, said: Annotated[WantedContext, body(WantedContext)]) -> Json:
    """A stored context that the package of a claimed ticket refers to."""
    held = await held_by(team, who, id, said)
    return Json(await _context(team, held.ticket.root, said.context.removeprefix(SCHEME)))


async def _context(team: Team, root: str, id: str) -> Document:
    kept = await team.log.contexts.get(root, id)
    if kept is None or (kept.expires_at is not None and kept.expires_at <= team.clock.now()):
        raise Problem(
            404, f"there is no {SCHEME}{id} in this conversation, or it has expired", kind="context-not-found"
        )
    return read_body(kept.body)


def _files(record: Recorded) -> Iterator[tuple[int, File]]:
    return enumerate(getattr(record.event, "files", ()))


def _view(record: Recorded, index: int, file: File) -> FileView:
    return FileView(
        seq=record.seq, index=index, name=file.name, media_type=file.media_type, size=len(file.data), url=file.url
    )


def _header(text: str) -> str:
    """A text that can stand in a header."""
    return "".join(each for each in text if each.isascii() and each.isprintable())
