"""CloudEvents 1.0 over HTTP: events written in the structured and the binary form, and read from either."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from changeover.bus.event import BusEvent, short_key
from changeover.errors import MisconfiguredError

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
VERSION = "1.0"
JSON = re.compile(r"application/(.+\+)?json|text/json", re.I)
NAME = re.compile(r"[a-z0-9]{1,50}")
KNOWN = ("specversion", "id", "source", "type", "subject", "data", "data_base64")
NEEDED = ("specversion", "id", "source", "type")
ORIGIN = "originid"
"""The attribute that holds the id that the sender of an event gave it."""


class Received(Struct, frozen=True):
    """The event of a request."""

    type: str
    source: str
    key: str
    """The same for all requests with the same event."""
    data: Any = None
    subject: str = ""
    attributes: dict[str, Any] = {}


def structured(event: BusEvent, team: str) -> tuple[dict[str, str], bytes]:
    """Headers and body of an event in the structured form: all of it is in the body."""
    body = {**_attributes(event, team), "datacontenttype": "application/json", "data": event.data}
    return {"content-type": f"{STRUCTURED}; charset=utf-8"}, msgspec.json.encode(body)


def binary(event: BusEvent, team: str) -> tuple[dict[str, str], bytes]:
    """Headers and body of an event in the binary form: its attributes are headers, its data is the body."""
    headers = {f"ce-{name}": _escaped(value) for name, value in _attributes(event, team).items()}
    return {"content-type": "application/json", **headers}, msgspec.json.encode(event.data)


def received(headers: Mapping[str, str], body: bytes) -> Received:
    """The event of a request in either form; raises MisconfiguredError."""
    given = {name.lower(): value for name, value in headers.items()}
    kind = given.get("content-type", "").partition(";")[0].strip().lower()
    if kind == BATCH:
        raise _fault("it is a batch; send one event with each request")
    if kind == STRUCTURED:
        told = _decoded(body, "its body")
        if not isinstance(told, dict):
            raise _fault("its body is not a JSON object")
        return _received(told, _data(told))
    told = {name.removeprefix("ce-"): unquote(value) for name, value in given.items() if name.startswith("ce-")}
    if not told:
        raise _fault(f"it has neither the content type {STRUCTURED} nor the headers ce-id, ce-source and ce-type")
    return _received({**told, **({"datacontenttype": kind} if kind else {})}, _of_body(kind, body))


def _attributes(event: BusEvent, team: str) -> dict[str, str]:
    more = {name: _text(value) for name, value in event.attributes.items() if NAME.fullmatch(name)}
    more.pop("datacontenttype", None)
    subject = {"subject": event.subject} if event.subject else {}
    told = {"id": event.id, "source": event.source or f"/teams/{team}", "type": event.type, **subject}
    return {"specversion": VERSION, "time": event.time.isoformat().replace("+00:00", "Z"), **more, **told}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _escaped(value: str) -> str:
    """The value of an attribute as a header: what is not printable ASCII, and ", % and spaces, are percent-encoded."""
    return quote(value, safe="!#$&'()*+,-./:;<=>?@[\\]^_`{|}~")


def _received(told: Mapping[str, Any], data: Any) -> Received:
    if missing := [name for name in NEEDED if not told.get(name)]:
        raise _fault(f"it lacks {', '.join(missing)}")
    wrong = [name for name, value in told.items() if name not in KNOWN and not NAME.fullmatch(name)]
    texts = [name for name in (*NEEDED, "subject", "time") if not isinstance(told.get(name, ""), str)]
    nested = [name for name, value in told.items() if name not in KNOWN and isinstance(value, dict | list)]
    if bad := [*wrong, *texts, *nested]:
        raise _fault(f"{', '.join(bad)} cannot be the name of an attribute, or has a value that none can have")
    if told["specversion"] != VERSION:
        raise _fault(f"its specversion is {told['specversion']!r}, and this server reads {VERSION}")
    more = {name: value for name, value in told.items() if name not in KNOWN and value is not None}
    key, attributes = short_key(f"{told['source']} {told['id']}"), {**more, ORIGIN: told["id"]}
    return Received(told["type"], told["source"], key, data, told.get("subject") or "", attributes)


def _data(told: Mapping[str, Any]) -> Any:
    """The data of the structured form; bytes stay base64."""
    if "data_base64" in told and "data" in told:
        raise _fault("it has both data and data_base64")
    return told.get("data_base64", told.get("data"))


def _of_body(kind: str, body: bytes) -> Any:
    if not body:
        return None
    if not kind or JSON.fullmatch(kind):
        return _decoded(body, "its data")
    try:
        return body.decode()
    except UnicodeDecodeError:
        from base64 import b64encode

        return b64encode(body).decode()


def _decoded(body: bytes, what: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _fault(f"{what} cannot be read as JSON ({error})") from None


def _fault(problem: str) -> MisconfiguredError:
    return MisconfiguredError(f"the request is no CloudEvent: {problem}")
