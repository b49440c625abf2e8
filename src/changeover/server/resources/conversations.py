"""Conversations: talk to the team, read what happened, and control what is under way."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

from fastapi import Depends, Header, Path, Query, Request
from fastapi.responses import Response
from msgspec import Struct
from msgspec.structs import replace

from changeover.engines.clock import new_id
from changeover.errors import ConversationNotFound
from changeover.facts import HandoffRecord
from changeover.guards.limits import Limits
from changeover.ids import root_of, run_id
from changeover.inputs import message
from changeover.messages import File
from changeover.observe.drawing.chain import chain_of
from changeover.observe.drawing.course import Course, course_of
from changeover.observe.drawing.lanes import Drawing, drawing_of
from changeover.relay.context_flow import ValueFlow
from changeover.relay.inputs.requests import Resume, Say
from changeover.relay.ports.lists import ConversationRow, MessageRow, TaskRow
from changeover.relay.prompt import Prompt
from changeover.server.live import Live
from changeover.server.problems import Problem
from changeover.server.resource import (
    Filter,
    Id,
    Key,
    Part,
    Resource,
    Served,
    Some,
    Who,
    audited,
    free_or_seen,
    listed,
    own_key,
    seen,
)
from changeover.server.resources.drawings import MEDIA_TYPES, Format, drawn
from changeover.server.resources.runs import Outcome, ended_within
from changeover.server.resources.streams import EVENT_STREAM, streamed
from changeover.server.wire import Json, Page, Shown, body, shown
from changeover.team import Team

resource = Resource("conversations")

NOT_FOUND = {404: "There is no such conversation"}
PATIENCE = 300.0
"""Seconds that a caller may wait for an outcome."""


class NewFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file that goes with a message: its bytes, or an address that the model's provider can reach."""

    name: str = ""
    media_type: str = ""
    """Such as "image/png"; by default found by the name."""
    data: bytes = b""
    """In Base64."""
    url: str = ""


class NewMessage(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a user says."""

    text: str
    agent: str | None = None
    """The agent that answers; by default the active one."""
    context: dict[str, Any] | None = None
    """Context variables to start with."""
    limits: Limits | None = None
    files: list[NewFile] = []


class NewConversation(NewMessage, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a user says first."""

    id: str | None = None
    """The id of the new conversation; by default one is made."""


class Begun(Struct, frozen=True):
    """A run that was begun; its events and its outcome can be read."""

    conversation: str
    run: str


class Cancelled(Struct, frozen=True):
    """The result of a cancellation; false if nothing was under way."""

    cancelled: bool


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """Why something is done."""

    reason: str = ""


class Title(Struct, frozen=True, forbid_unknown_fields=True):
    """The title of a conversation."""

    title: str


class Export(Struct, frozen=True):
    """A conversation with its delegates, as it was recorded."""

    conversation: ConversationRow
    events: list[Shown]
    handoffs: list[HandoffRecord]


Wait = Annotated[bool, Query(description="Answer when the run has ended or waits, at most after five minutes.")]
Prefer = Annotated[str | None, Header(max_length=200, description="`wait=SECONDS` waits for the outcome that long.")]

Follow = Annotated[
    bool, Query(description="You will follow the new conversation at once: what models write until then is kept.")
]


class Answering(Struct, frozen=True):
    """How a caller wants to be answered."""

    patience: float
    """Seconds to wait for the outcome of a run; 0 answers at once."""
    live: Live | None
    """Streams the run, if the caller wants that."""
    follower: Live | None = None
    """Keeps what models write until the caller reads along, if it says that it will."""


async def _answering(request: Request, wait: Wait = False, prefer: Prefer = None, follow: Follow = False) -> Answering:
    live: Live = request.app.state.live
    streams = EVENT_STREAM in request.headers.get("accept", "")
    return Answering(_patience(wait, prefer), live if streams else None, live if follow else None)


def _patience(wait: bool, prefer: str | None) -> float:
    """Seconds to wait for an outcome, by the query and by the header Prefer of RFC 7240."""
    for each in (prefer or "").split(","):
        name, _, value = each.strip().partition("=")
        if name.lower() == "wait" and value.isdecimal():
            return min(float(value), PATIENCE)
    return PATIENCE if wait else 0.0


Manner = Annotated[Answering, Depends(_answering)]
Seq = Annotated[int, Path(ge=1, le=2**53, description="The seq of an event.")]
After = Annotated[int, Query(ge=0, le=2**53, description="Leave out events up to this seq.")]
Most = Annotated[int | None, Query(ge=1, le=10_000, description="Events of a page; by default all.")]
RUN = {202: Begun, 200: Outcome}


@resource.route("GET /conversations", Page[ConversationRow])
async def list_conversations(  # noqa: PLR0913 - each is a parameter of the query
    team: Served,
    who: Who,
    part: Part,
    *,
    status: Filter = None,
    agent: Filter = None,
    text: Annotated[str | None, Query(max_length=200, description="A part of the title or the id.")] = None,
    user: Filter = None,
    delegates: Annotated[bool, Query(description="With the conversations of delegates.")] = False,
) -> Json:
    """The conversations, the one with the newest message first."""
    wanted = {"status": status, "agent": agent, "text": text or None, "user": user}
    return await listed(team, who, ConversationRow, wanted, part, roots=not delegates)


@resource.route(
    "POST /conversations",
    RUN,
    body=NewConversation,
    refusals={404: "The id is another user's", 409: "The id or the key is taken"},
)
async def begin_conversation(
    team: Served,
    who: Who,
    said: Annotated[NewConversation, body(NewConversation)],
    manner: Manner,
    key: Key = None,
) -> Response:
    """Begin a conversation. Answers at once, waits for the outcome, or streams the run."""
    if said.id and not await free_or_seen(team, who, said.id) and not key:
        raise Problem(409, f"the conversation {said.id!r} exists; say it there", kind="exists")
    say = _message(said, said.id, who.user, own_key(key, who))
    return await answered(team, say, manner)


@resource.route(
    "POST /conversations/{id:path}/messages", RUN, body=NewMessage, refusals={**NOT_FOUND, 409: "Key reused"}
)
async def say(
    id: Id,
    team: Served,
    who: Who,
    said: Annotated[NewMessage, body(NewMessage)],
    manner: Manner,
    key: Key = None,
) -> Response:
    """Say something in a conversation. Answers at once, waits for the outcome, or streams the run."""
    await seen(team, who, id)
    return await answered(team, _message(said, id, who.user, own_key(key, who)), manner)


def _message(said: NewMessage, id: str | None, user: str, key: str | None) -> Say:
    return message(
        said.text,
        conversation=id,
        key=key,
        agent=said.agent,
        context=said.context,
        limits=said.limits,
        user=user or None,
        files=[File(each.data, each.media_type, each.name, each.url) for each in said.files],
    )


async def answered(team: Team, input: Say | Resume, manner: Answering) -> Response:
    """Put an input, and answer as the caller wants to be answered."""
    if manner.live is not None:
        return await streamed(manner.live, team, input)
    if manner.patience:
        if isinstance(input, Say) and not input.given_key:
            # A key, so that the input can be put again when the time is over, and is recorded once.
            input = replace(input, conversation=input.conversation or new_id(), given_key=uuid4().hex)
        if (outcome := await ended_within(manner.patience, team, input)) is not None:
            return Json(outcome)
    if manner.follower is not None and input.conversation:
        manner.follower.expect(root_of(input.conversation))
    ref = await team.engine.put(input)
    return Json(Begun(ref.conversation, run_id(ref.conversation, ref.run)), 202)


@resource.route("GET /conversations/{id:path}/events", Page[Shown], refusals=NOT_FOUND)
async def list_events(  # noqa: PLR0913 - each is a parameter of the query
    id: Id, team: Served, who: Who, after: After = 0, *, limit: Most = None, type: Filter = None, agent: Filter = None
) -> Json:
    """The events of a conversation and its delegates, in order; `next` is the `after` of the next page."""
    await seen(team, who, id)
    events = [shown(each) for each in await team.history(id, after=after)]
    found = [each for each in events if type in (None, each.type) and agent in (None, each.agent)]
    page = found[:limit]
    return Json(Page(page, str(page[-1].seq) if len(page) < len(found) else None))


@resource.route("GET /conversations/{id:path}/tasks", Page[TaskRow], refusals=NOT_FOUND)
async def conversation_tasks(id: Id, team: Served, who: Who, part: Part) -> Json:
    """The newest tasks of a conversation and its delegates."""
    await seen(team, who, id)
    return await listed(team, who, TaskRow, {}, part, within=id)


@resource.route("GET /conversations/{id:path}/messages", Page[MessageRow], refusals=NOT_FOUND)
async def conversation_messages(
    id: Id, team: Served, who: Who, part: Part, kind: Filter = None, agent: Filter = None
) -> Json:
    """The messages of a conversation and its delegates, in order."""
    await seen(team, who, id)
    return await listed(team, who, MessageRow, {"kind": kind, "agent": agent}, part, within=id)


@resource.route("GET /conversations/{id:path}/handoffs", Page[HandoffRecord], refusals=NOT_FOUND)
async def conversation_handoffs(id: Id, team: Served, who: Who, some: Some) -> Json:
    """The handoffs of a conversation and its delegates, in order."""
    await seen(team, who, id)
    return some.page(await team.handoffs(id))


@resource.route("GET /conversations/{id:path}/context-flow", Page[ValueFlow], refusals=NOT_FOUND)
async def conversation_context_flow(id: Id, team: Served, who: Who) -> Json:
    """Which hop set, changed or removed each context variable and artifact, from what to what."""
    await seen(team, who, id)
    return Json(Page(await team.context_flow(id)))


@resource.route("GET /conversations/{id:path}/graph", Course, refusals=NOT_FOUND, media=MEDIA_TYPES)
async def conversation_graph(id: Id, team: Served, who: Who, format: Format = "json") -> Response:
    """A drawing of the handoffs of a conversation."""
    row = await seen(team, who, id)
    handoffs, flows = await team.handoffs(id), await team.context_flow(id)
    return drawn(course_of(id, row.agent, handoffs, flows, await team.history(id)), format)


@resource.route("GET /conversations/{id:path}/chain", Drawing, refusals=NOT_FOUND)
async def conversation_chain(id: Id, team: Served, who: Who) -> Json:
    """The hops of a conversation and its delegates, each with its place in a drawing, and the lines between them."""
    await seen(team, who, id)
    return Json(drawing_of(chain_of(await team.history(id), await team.handoffs(id))))


@resource.route(
    "GET /conversations/{id:path}/prompts/{seq}",
    Prompt,
    refusals={404: "There is no such conversation, or no such reply"},
)
async def rebuilt_prompt(id: Id, seq: Seq, team: Served, who: Who) -> Json:
    """The prompt of the reply with this seq, rebuilt from the log and the recorded declarations."""
    await seen(team, who, id)
    if (prompt := await team.prompt(id, seq)) is None:
        raise Problem(404, f"the event {seq} of {id!r} is no reply of a model", kind="reply-not-found")
    return Json(prompt)


@resource.route("GET /conversations/{id:path}/export", Export, refusals=NOT_FOUND)
async def export_conversation(id: Id, team: Served, who: Who) -> Json:
    """A conversation with its delegates, as a file."""
    row = await seen(team, who, id)
    answer = Json(Export(row, [shown(each) for each in await team.history(id)], await team.handoffs(id)))
    answer.headers["Content-Disposition"] = 'attachment; filename="conversation.json"'
    return answer


@resource.route("POST /conversations/{id:path}/cancel", Cancelled, body=Reason, refusals=NOT_FOUND)
async def cancel_conversation(id: Id, team: Served, who: Who, why: Annotated[Reason, body(Reason)]) -> Json:
    """End what is under way in a conversation, with all delegates; answers when it has ended."""
    await seen(team, who, id)
    return Json(Cancelled(await team.cancel(id, by=who.user, reason=why.reason)))


@resource.route("POST /conversations/{id:path}/resume", RUN, refusals=NOT_FOUND)
async def resume_conversation(id: Id, team: Served, who: Who, manner: Manner) -> Response:
    """Go on with a conversation: a run that failed tries its failed step again."""
    await seen(team, who, id)
    return await answered(team, Resume(id), manner)


@resource.route("GET /conversations/{id:path}", ConversationRow, refusals=NOT_FOUND)
async def read_conversation(id: Id, team: Served, who: Who) -> Json:
    """A conversation."""
    return Json(await seen(team, who, id))


@resource.route("PATCH /conversations/{id:path}", ConversationRow, body=Title, refusals=NOT_FOUND)
async def rename_conversation(id: Id, team: Served, who: Who, given: Annotated[Title, body(Title)]) -> Json:
    """Give a conversation another title."""
    await seen(team, who, id)
    await team.rename(id, given.title, by=who.user)
    return Json(await seen(team, who, id))


@resource.route("DELETE /conversations/{id:path}", {204: None}, refusals={**NOT_FOUND, 409: "It is not over"})
async def forget_conversation(id: Id, team: Served, who: Who) -> Response:
    """Remove a conversation with its log, delegates, handoffs and stored contexts."""
    row = await seen(team, who, id)
    if not await team.forget(id):
        raise ConversationNotFound(id)
    await audited(team, who, "conversation.forget", id, {"user": row.user})  # its own log is gone
    return Response(status_code=204)
