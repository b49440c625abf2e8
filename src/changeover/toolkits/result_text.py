"""Results and errors of tools as the texts that models read."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

ENOUGH = 2_000
"""How many characters of an error a model reads."""

NOTHING = "done: it returned nothing"


class CallFailed(Exception):
    """A call failed for good; the text is written for the model."""


class TemporaryFailure(CallFailed):
    """A call failed and may be tried again; `retry_after` is how many seconds the server asks callers to wait."""

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Unserialisable(Exception):
    """A result of a tool that cannot be shown as JSON."""


def text_of(result: Any) -> str:
    """The result as a text for a model: a str as it is, anything else as JSON; raises Unserialisable."""
    if result is None:
        return NOTHING
    if isinstance(result, str):
        return str.__str__(result)  # not str(result), which gives the name of an Enum member
    from pydantic_core import to_json

    try:
        return to_json(result, fallback=_fields).decode()
    except Exception as error:
        kind = type(result).__name__
        raise Unserialisable(f"it returned {kind}, which cannot be shown as JSON ({words(error)})") from error


def words(error: BaseException) -> str:
    """The type and the text of an exception, cut to ENOUGH characters; those of all members of an ExceptionGroup."""
    if isinstance(error, BaseExceptionGroup):
        return cut("; ".join(words(each) for each in error.exceptions))
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:
        return kind
    return cut(f"{kind}: {text}" if text else kind)


def cut(text: str, limit: int = ENOUGH) -> str:
    """At most `limit` characters of the text, with a remark if it was longer."""
    if len(text) > limit:
        text = f"{text[:limit]}\n[cut: the first {limit} of {len(text)} characters are shown]"
    # A lone surrogate is legal in a str, but no log can store it and no provider accepts it.
    return text.encode(errors="replace").decode()


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, Struct):
        return structs.asdict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
