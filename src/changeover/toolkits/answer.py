"""Answers of HTTP servers as outcomes of tools: JSON, text or a file that a model can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from changeover.messages import File
from changeover.relay.ports.world import ToolOutcome
from changeover.toolkits.result_text import NOTHING, CallFailed, cut, text_of, words

FILES = ("image/", "audio/", "video/", "application/pdf")
"""Media types of answers that are given to the model as files."""


def outcome_of(headers: Mapping[str, str], body: bytes, select: Any, limit: int) -> ToolOutcome:
    """The outcome for an answer; `select` is a compiled JMESPath expression. Raises CallFailed."""
    kind, _, rest = headers.get("content-type", "").partition(";")
    media_type = kind.strip().lower()
    if not body:
        return ToolOutcome(NOTHING)
    if media_type == "application/json" or media_type.endswith("+json"):
        return ToolOutcome(cut(_json_text(body, select), limit))
    if select is not None:
        raise CallFailed(f"it answered with {media_type or 'no content type'} instead of JSON")
    if media_type.startswith(FILES):
        return ToolOutcome("", files=(File(body, media_type),))
    return ToolOutcome(cut(_plain_text(body, media_type, rest), limit))


def _json_text(body: bytes, select: Any) -> str:
    if select is None:
        try:
            msgspec.json.decode(body, type=msgspec.Raw)
            return body.decode()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CallFailed(
                f"it answered with something that is not JSON, though it said so: {words(error)}"
            ) from error
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CallFailed(f"it answered with something that is not JSON, though it said so: {words(error)}") from error
    try:
        return text_of(select.search(value))
    except Exception as error:
        raise CallFailed(f"its answer does not fit what is selected from it: {words(error)}") from error


def _plain_text(body: bytes, media_type: str, parameters: str) -> str:
    charset = next((part.partition("=")[2].strip(" \"'") for part in parameters.split(";") if "charset=" in part), "")
    try:
        text = body.decode(charset or "utf-8")
    except (UnicodeDecodeError, LookupError):
        text = ""
    if not text or "\0" in text:
        raise CallFailed(f"it answered with {media_type or 'bytes of no declared type'}, which a model cannot read")
    return text
