"""BusEvent: something that happened, as a publisher reports it and subscribers get it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import Any

from msgspec import Struct

from changeover.errors import MisconfiguredError, PackageError
from changeover.handoffs.json_value import json_copy
from changeover.handoffs.template import quoted
from changeover.workflows.expression import brace_faults, fault, filled, placeholders, search

TYPE = re.compile(r"[^\s.*]+(\.[^\s.*]+)*")
PATTERN = re.compile(r"(\*|[^\s.*]+)(\.(\*|[^\s.*]+))*")
LONGEST = 512
"""The most bytes of a type, a source, a key or a subject: databases index them."""
INSIDE = "changeover."
"""The prefix of the types of events that Changeover itself publishes."""
LARGEST = 1_000_000
"""The most characters that the data of an event may have as JSON."""


class BusEvent(Struct, frozen=True, kw_only=True):
    """Something that happened. Subscribers get it at least once."""

    id: str
    """The same for all subscribers and attempts."""
    type: str
    """What happened, in words with dots between them, such as "security.alert"."""
    data: Any = None
    """What JSON can hold."""
    source: str = ""
    """Where it happened. A subscriber gets the events of one source in order; those without a source in any order."""
    key: str = ""
    """The publisher's idempotency key, if it gave one."""
    subject: str = ""
    """What in the source it is about."""
    at: float = 0.0
    """When it was published, in seconds since the epoch."""
    attributes: dict[str, Any] = {}
    """Further CloudEvents attributes of an event that came from outside."""

    @property
    def time(self) -> datetime:
        """When it was published."""
        return datetime.fromtimestamp(self.at, UTC)

    def view(self) -> dict[str, Any]:
        """The event as conditions and templates see it."""
        told = {"id": self.id, "type": self.type, "source": self.source, "subject": self.subject}
        return {"time": self.time.isoformat(), **self.attributes, **told, "data": self.data}


def made_event(  # noqa: PLR0913 - the fields of an event
    id: str,
    at: float,
    type: object,
    data: object = None,
    *,
    key: object = None,
    source: object = None,
    subject: object = None,
    attributes: Mapping[str, Any] | None = None,
) -> BusEvent:
    """The event that a publisher describes; raises MisconfiguredError with all faults."""
    texts = {"key": key, "source": source, "subject": subject}
    faults = [*_type_faults(type), *(fault for name, text in texts.items() for fault in _text_faults(name, text))]
    try:
        copied = json_copy(data)
        if len(json.dumps(copied)) > LARGEST:
            faults.append(f"the data of an event may have {LARGEST:,} characters as JSON, and this has more")
    except PackageError as error:
        copied = None
        faults.append(f"the data of an event must be what JSON can hold: {error.path} {error.problem}")
    if faults:
        raise MisconfiguredError(*faults)
    told = {name: str(text or "") for name, text in texts.items()}
    return BusEvent(id=id, at=at, type=str(type), data=copied, attributes=dict(attributes or {}), **told)


def short_key(key: str) -> str:
    """The key, or a hash of it if it is too long for a store or holds what cannot be printed."""
    fits = key.isprintable() and len(key.encode()) <= LONGEST
    return key if fits else sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _type_faults(type: object) -> list[str]:
    if isinstance(type, str) and TYPE.fullmatch(type) and not _text_faults("type", type):
        return []
    return [f"{type!r} is no type of an event; give words with dots between them, such as 'security.alert'"]


def _text_faults(name: str, text: object) -> list[str]:
    if text is None or (isinstance(text, str) and text.isprintable() and len(text.encode()) <= LONGEST):
        return []
    return [f"{name}={text!r} of an event must be a printable str of at most {LONGEST} bytes"]


def pattern_faults(pattern: object) -> list[str]:
    """Faults of a pattern of types."""
    if isinstance(pattern, str) and PATTERN.fullmatch(pattern):
        return []
    return [f"has the type {pattern!r}; give the type of an event, in which * stands for a word: 'security.*'"]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    *first, last = pattern.split(".")
    words = [r"[^.]+" if word == "*" else re.escape(word) for word in first]
    return re.compile(r"\.".join([*words, ".+" if last == "*" else re.escape(last)]))


def matches(pattern: str, type: str) -> bool:
    """True if a type fits a pattern: `*` stands for one word, at the end for one or more. Events of Changeover itself
    fit only patterns that begin with INSIDE."""
    if type.startswith(INSIDE) and not pattern.startswith(INSIDE):
        return False
    return _compiled(pattern).fullmatch(type) is not None


def task_of(template: str, event: BusEvent) -> str:
    """The task for an agent: the template with values of the event in its braces, or the event itself without one."""
    if not template:
        told = quoted(json.dumps(event.data, ensure_ascii=False, indent=2))
        source = f" from {event.source}" if event.source else ""
        return f"The event {event.type} arrived{source}. Its data:\n\n{told}"
    return filled(template, event.view()).strip() or event.type


def template_faults(template: object) -> list[str]:
    """Faults of a template whose braces hold JMESPath expressions over an event."""
    if not isinstance(template, str):
        return [f"has task={template!r}, which is not a str"]
    wrong = [fault for path in placeholders(template) for fault in path_faults("task", path)]
    return [*(f"has a task in which {fault}" for fault in brace_faults(template)), *wrong]


def path_faults(name: str, path: object) -> list[str]:
    """Faults of a JMESPath expression."""
    if not isinstance(path, str):
        return [f"has {name}={path!r}, which is not a str"]
    return [f"has {path!r} in {name}, which is not a JMESPath expression: {wrong}"] if (wrong := fault(path)) else []


def holds(where: str, event: BusEvent) -> bool:
    """True if a JMESPath condition gives a true value for an event, or is empty. It is false if one of its functions
    does not accept the values of this event."""
    try:
        return not where or bool(search(where, event.view()))
    except ValueError:
        return False
