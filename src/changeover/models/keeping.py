"""What a provider needs back with a reply, as plain JSON: ids, signatures, and the order of the parts.

Texts and calls stand in the message itself. A part kept here says only which piece of them it is, so nothing is
stored twice; parts of a kind that we have no field for are kept whole.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from pydantic import ValidationError
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ThinkingPart, ToolCallPart

from changeover.messages import Assistant

GAP = "\n\n"
"""Between two parts of a text."""
ABOUT = ("model_name", "provider_url", "canonical_system", "provider_details", "provider_response_id")
REPORTED = ("finish_reason", "timestamp")
"""Details that are only told, and that no provider asks for."""
TEXTS = ("text", "thinking")
CALL = {"tool_name", "args", "tool_call_id"}


def kept(response: ModelResponse) -> dict[str, Any]:
    """What has to be kept of this response under its provider's name; nothing if text and calls are all there is."""
    if response.provider_name is None or _plain(response):
        return {}
    dumped = ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
    about = {key: dumped[key] for key in ABOUT if dumped.get(key) is not None}
    about["provider_details"] = {
        key: value for key, value in about.get("provider_details", {}).items() if key not in REPORTED
    }
    calls = 0
    parts = []
    for part in dumped["parts"]:
        parts.append(_referring(part, calls))
        calls += part["part_kind"] == "tool-call"
    return {response.provider_name: {**about, "parts": parts}}


def restored(message: Assistant, systems: Collection[str]) -> ModelResponse | None:
    """The response as its provider gave it; None if it came from another one, or cannot be read any more."""
    for system in systems:
        if isinstance(about := message.extra.get(system), dict):
            try:
                parts = _filled(message, about["parts"])
                response = {"kind": "response", "provider_name": system, **about, "parts": parts}
                read = ModelMessagesTypeAdapter.validate_json(msgspec.json.encode([response]))[0]
            except (KeyError, IndexError, TypeError, ValidationError):
                continue
            return read if isinstance(read, ModelResponse) else None
    return None


def _plain(response: ModelResponse) -> bool:
    """Whether it is a text, then calls, and nothing that a provider would miss."""
    for index, part in enumerate(response.parts):
        match part:
            case TextPart(id=None, provider_details=None, citations=None) if index == 0:
                continue
            case ToolCallPart(id=None, provider_details=None, tool_kind=None):
                continue
            case _:
                return False
    return True


def _referring(part: dict[str, Any], call: int) -> dict[str, Any]:
    """The part without what the message says already."""
    kind = part["part_kind"]
    known = CALL if kind == "tool-call" else {"content"} if kind in TEXTS else set()
    rest = {key: value for key, value in part.items() if value is not None and key not in known}
    if kind in TEXTS:
        return {**rest, "size": len(part["content"])}
    return {**rest, "call": call} if kind == "tool-call" else rest


def _filled(message: Assistant, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts with what the message says put back."""
    texts = {"text": _Pieces(message.text), "thinking": _Pieces(message.thinking)}
    filled = []
    for part in parts:
        said: dict[str, Any] = {}
        if (kind := part["part_kind"]) in TEXTS:
            said = {"content": texts[kind].next(part["size"])}
        elif kind == "tool-call":
            call = message.calls[part["call"]]
            said = {"tool_name": call.name, "args": call.malformed or call.args, "tool_call_id": call.id}
        filled.append({key: value for key, value in part.items() if key not in ("size", "call")} | said)
    return filled


class _Pieces:
    """A text that was joined from parts, cut where they met."""

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0

    def next(self, size: int) -> str:
        start = self._end + (len(GAP) if self._end and size else 0)
        self._end = start + size if size else self._end
        return self._text[start : start + size]


def joined(parts: list[TextPart] | list[ThinkingPart]) -> str:
    """Parts of a text as one."""
    return GAP.join(part.content for part in parts if part.content)
