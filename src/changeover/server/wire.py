"""Wire: JSON bodies and answers. Both are msgspec structs, decoded strictly and described in the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import msgspec
from fastapi import Depends, Request
from fastapi.responses import Response
from msgspec import Struct, structs

from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.package_schema import package_schema
from changeover.messages import File
from changeover.relay.events import Event, Unreadable
from changeover.relay.stream import Recorded
from changeover.server.examples import EXAMPLES
from changeover.server.problems import Problem, ProblemBody

T = TypeVar("T")

REFERENCE = "#/components/schemas/{name}"
JSON, TEXT = "application/json", {"type": "string"}
MOST_DEPTH = 64
"""How deeply the objects and lists of a body may be nested."""


class Json(Response):
    """An answer in JSON: structs, lists and dicts of them."""

    media_type = JSON

    def render(self, content: object) -> bytes:
        return b"" if content is None else msgspec.json.encode(content)


class Page(Struct, Generic[T], frozen=True):
    """One page of a list."""

    items: list[T]
    next: str | None = None
    """The cursor of the next page; null on the last one."""


class Shown(Struct, frozen=True):
    """An event as clients get it."""

    seq: int
    """Its number in the tree of the root conversation, from 1."""
    at: float
    """When it was recorded, in seconds since the epoch."""
    conversation: str
    task: str
    """The receiver's task, if the event is about a handoff; else empty."""
    type: str
    agent: str
    """The agent that was active."""
    data: dict[str, Any]
    """The event's own fields."""


def shown(record: Recorded) -> Shown:
    """A recorded event for clients."""
    if isinstance(record.event, Unreadable):
        kind, data = record.event.tag, {}
    else:
        data = msgspec.to_builtins(_light(record.event))
        kind = data.pop("event")
    task = record.handoff.task_id if record.handoff else ""
    return Shown(record.seq, record.at, record.conversation, task, kind, record.agent, data)


def _light(event: Event) -> Event:
    """The event without the bytes of its files, which are read one by one."""
    files: tuple[File, ...] = getattr(event, "files", ())
    if not files:
        return event
    light = tuple(structs.replace(each, data=b"") for each in files)
    return structs.replace(event, files=light)


def price(dollars: float | None) -> str:
    """An amount of money as people read it: dollars, or cents if it is less than ten of them."""
    if dollars is None:
        return "unknown"
    if not dollars or abs(dollars) >= 0.1:
        return f"${dollars:,.2f}"
    return f"{100 * dollars:.2g} ct" if abs(dollars) >= 1e-6 else "0 ct"


def body(kind: type[T]) -> Any:
    """A parameter of a route: the request's body, decoded as this struct."""

    async def read(request: Request) -> T:
        return decoded(await request.body(), kind)

    return Depends(read)


def decoded(raw: bytes, kind: type[T]) -> T:
    """The value of a JSON text; raises Problem with the path of what is wrong."""
    if not raw:
        raise Problem(422, "the request has no body; send JSON", kind="no-body")
    if _is_deep(raw):
        raise Problem(422, f"the body is nested more than {MOST_DEPTH} levels deep", kind="bad-body")
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise Problem(422, str(error), kind="bad-body") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}", kind="not-json") from None


def _is_deep(raw: bytes) -> bool:
    """True if a JSON text is nested too deeply. Brackets inside of strings count too, so only a suspect is walked."""
    if raw.count(b"[") + raw.count(b"{") <= MOST_DEPTH:
        return False
    depth, quoted, escaped = 0, False, False
    for byte in raw:
        if quoted:
            quoted, escaped = escaped or byte != 0x22, byte == 0x5C and not escaped
        elif byte == 0x22:
            quoted = True
        elif byte in b"[{":
            depth += 1
            if depth > MOST_DEPTH:
                return True
        elif byte in b"]}":
            depth -= 1
    return False


class Schemas:
    """The JSON Schemas of all bodies and answers, by name."""

    def __init__(self) -> None:
        self._kinds: dict[str, Any] = {}

    def reference(self, kind: Any) -> dict[str, Any]:
        """The schema of a type as it stands in a route: a reference for a struct, else the schema itself."""
        if kind is HandoffPackage:
            return self._package()
        [schema], parts = msgspec.json.schema_components([kind], ref_template=REFERENCE)
        for name, part in parts.items():
            if self._kinds.setdefault(name, part) != part:
                raise ValueError(f"two structs of the API are called {name}")
        return schema

    def _package(self) -> dict[str, Any]:
        """The published schema of a package; its parts get a name of their own here."""
        text = json.dumps(package_schema()["$defs"]).replace('"#/$defs/', '"#/components/schemas/Package')
        self._kinds |= {f"Package{name}": part for name, part in json.loads(text).items()}
        return {"$ref": REFERENCE.format(name="PackageHandoffPackage")}

    @property
    def components(self) -> dict[str, Any]:
        """All schemas, with examples where there are any."""
        return {name: self._kinds[name] | _examples(name) for name in sorted(self._kinds)}


def _examples(name: str) -> dict[str, Any]:
    return {"examples": [EXAMPLES[name]]} if name in EXAMPLES else {}


SCHEMAS = Schemas()


def described(
    answers: Mapping[int, Any], refusals: Mapping[int, str], media: Sequence[str]
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: its answers by status, and the problems that it may answer with."""
    problem = {"schema": SCHEMAS.reference(ProblemBody)}
    found: dict[int | str, dict[str, Any]] = {
        code: {"description": words, "content": {"application/problem+json": problem}}
        for code, words in refusals.items()
    }
    for status, answer in answers.items():
        found[status] = {"description": HTTPStatus(status).phrase}
        if answer is not None:
            schema = SCHEMAS.reference(answer)
            found[status]["content"] = {each: {"schema": schema if each == JSON else TEXT} for each in media}
    return found
