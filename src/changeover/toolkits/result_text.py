"""Results and errors of tools as the texts that models read."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

ENOUGH = 2_000
"""Characters that say what went wrong; more of an error only costs tokens."""

NOTHING = "done: it returned nothing"


class Unserialisable(Exception):
    """A result that no text can stand for."""


def text_of(result: Any) -> str:
    """A text as it is, anything else as JSON."""
    if result is None:
        return NOTHING
    if isinstance(result, str):
        # Not `str(result)`, by which an Enum with string values shows its name.
        return str.__str__(result)
    from pydantic_core import to_json

    try:
        return to_json(result, fallback=_fields).decode()
    except Exception as error:
        kind = type(result).__name__
        raise Unserialisable(f"it returned {kind}, which cannot be shown as JSON ({words(error)})") from error


def words(error: BaseException) -> str:
    """An error in one line or a few: its kind and what it says."""
    if isinstance(error, BaseExceptionGroup):
        return cut("; ".join(words(each) for each in error.exceptions))
    kind = type(error).__name__
    try:
        said = str(error)
    except Exception:
        return kind
    return cut(f"{kind}: {said}" if said else kind)


def cut(text: str, limit: int = ENOUGH) -> str:
    """The text, at most `limit` characters of it and then how much is missing."""
    if len(text) > limit:
        text = f"{text[:limit]}\n[cut: the first {limit} of {len(text)} characters are shown]"
    # Half a surrogate pair is legal in a str, but no log could store it and no provider would take it.
    return text.encode(errors="replace").decode()


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, Struct):
        return structs.asdict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
