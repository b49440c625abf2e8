"""A Request in the types of pydantic-ai: the agent's own turns natively, other agents' turns as quotations."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import groupby
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition as TheirTool

from changeover.copies import original
from changeover.messages import Assistant, Call, File, Message, Note, ToolResult, User, is_text
from changeover.models.quotation import Marks, noted, quoted, texts_in
from changeover.models.response import restored
from changeover.tools.tool import ToolDefinition

URLS: dict[str, type[ImageUrl | AudioUrl | VideoUrl]] = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}


def shown(file: File) -> Iterator[UserContent]:
    """The parts of a prompt for a file: its label, then its content."""
    if file.name:
        yield file.label
    # Some providers take only text/plain; the label says what kind of text it is.
    media_type = "text/plain" if is_text(file.media_type) else file.media_type
    if not file.url:
        yield BinaryContent(file.data, media_type=media_type, identifier=file.name or None)
    else:
        kind = URLS.get(media_type.partition("/")[0], DocumentUrl)
        yield kind(file.url, media_type=media_type, identifier=file.name or None)


def prompt(pieces: list[UserContent]) -> str | list[UserContent]:
    """Pieces as the content of a prompt: adjacent texts are joined into one."""
    content: list[UserContent] = []
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
        else:
            content += [*_joined(texts), piece]
            texts = []
    return [*content, *_joined(texts)] if content else "\n\n".join(texts)


def _joined(texts: list[str]) -> list[str]:
    # One part: some providers join parts without a line break, which would put user text on a quotation's last line.
    joined = "\n\n".join(text for text in texts if text)
    return [joined] if joined else []


CONTINUE = "Go on."
NO_RESULT = "no result was recorded for this call"
FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that some providers refuse in the id of a call."""


def history_for(
    messages: Sequence[Message], reader: str, systems: Collection[str], marks: Marks | None = None
) -> list[ModelMessage]:
    """The messages for the model of agent `reader`; `systems` are the providers whose ids and signatures it can use."""
    draft = _Draft(systems, marks or Marks(partial(texts_in, messages)))
    for speaker, turns in groupby(messages, lambda message: _speaker(message, reader)):
        if speaker:
            draft.quote(speaker, (turn for turn in turns if isinstance(turn, Assistant | ToolResult)))
        else:
            draft.add(turns)
    return draft.finished()


def tools_of(definitions: Iterable[ToolDefinition]) -> list[TheirTool]:
    """Tool definitions in the type of pydantic-ai."""
    return [
        TheirTool(name=each.name, description=each.description, parameters_json_schema=original(each, "parameters"))
        for each in definitions
    ]


def _speaker(message: Message, reader: str) -> str:
    """The agent whose turn this is, if it is not the reader's; else empty."""
    if isinstance(message, Assistant | ToolResult) and message.agent != reader:
        return message.agent
    return ""


class _Draft:
    """Builds the history: the reader's responses, and between them the requests that the model answered."""

    def __init__(self, systems: Collection[str], marks: Marks) -> None:
        self._systems, self._marks = systems, marks
        self._messages: list[ModelMessage] = []
        self._called: list[tuple[Call, str]] = []
        """The calls of the last response, each with its id in that response."""
        self._results: dict[str, ToolResult] = {}
        self._prompts: list[UserContent] = []

    def quote(self, agent: str, turns: Iterable[Assistant | ToolResult]) -> None:
        turns = list(turns)
        self._prompts.append(quoted(self._marks, agent, turns))
        files = (file for turn in turns if isinstance(turn, ToolResult) for file in turn.files)
        self._prompts += [piece for file in files for piece in shown(file)]

    def add(self, turns: Iterable[Message]) -> None:
        for turn in turns:
            match turn:
                case User():
                    self._prompts += [turn.text, *(piece for file in turn.files for piece in shown(file))]
                case Note():
                    self._prompts.append(noted(self._marks, turn))
                case Assistant():
                    self._say(turn)
                case ToolResult():
                    self._answer(turn)

    def finished(self) -> list[ModelMessage]:
        self._end_request()
        if not self._messages or isinstance(self._messages[-1], ModelResponse):
            # Providers expect the last message to be the user's.
            self._messages.append(ModelRequest(parts=[UserPromptPart(CONTINUE)]))
        return self._messages

    def _say(self, turn: Assistant) -> None:
        response = (restored(turn, self._systems) if turn.extra else None) or _plain(turn)
        if response.parts:
            self._end_request()
            self._messages.append(response)
            ids = [part.tool_call_id for part in response.parts if type(part) is ToolCallPart]
            self._called = list(zip(turn.calls, ids, strict=True))

    def _answer(self, result: ToolResult) -> None:
        """Keep a result for its call; a result whose call is not in the history is quoted."""
        if any(call.id == result.call for call, _ in self._called) and result.call not in self._results:
            self._results[result.call] = result
        else:
            self.quote(result.agent, [result])

    def _end_request(self) -> None:
        """Add a request with one result per call, in call order, and then the prompts."""
        results = [_result(call, id, self._results.get(call.id)) for call, id in self._called]
        prompts = [UserPromptPart(prompt(self._prompts))] if self._prompts else []
        if results or prompts:
            self._messages.append(ModelRequest(parts=[*results, *prompts]))
        self._called, self._results, self._prompts = [], {}, []


def _plain(turn: Assistant) -> ModelResponse:
    """A turn without provider-specific parts; thinking is left out, because it is valid only with a signature."""
    text = [TextPart(turn.text)] if turn.text else []
    calls = [ToolCallPart(call.name, call.malformed or call.args, FORBIDDEN.sub("_", call.id)) for call in turn.calls]
    return ModelResponse(parts=[*text, *calls])


def _result(call: Call, id: str, result: ToolResult | None) -> ToolReturnPart:
    if result is None:
        return ToolReturnPart(call.name, NO_RESULT, id, outcome="failed")
    content: Any = result.text
    if result.files:
        content = [
            result.text,
            *(piece for file in result.files for piece in shown(file) if not isinstance(piece, str)),
        ]
    return ToolReturnPart(call.name, content, id, outcome="success" if result.ok else "failed")


REFUSED = {
    "max_retries": "retries are made by Changeover itself, so that they are recorded",
    "first_event_timeout": "use 'timeout' or 'request_timeout'",
}
"""Settings of pydantic-ai that agents may not have, with the reason."""


def setting_faults(model: Model, settings: Mapping[str, Any]) -> list[str]:
    """Unknown settings, and values of a wrong type."""
    return [*_unknown(model, settings), *_wrong(settings)]


def _unknown(model: Model, settings: Mapping[str, Any]) -> Iterator[str]:
    known = _known_settings(model) - REFUSED.keys()
    for key in settings:
        if key in REFUSED:
            yield f"the setting {key!r}, which is not for agents: {REFUSED[key]}"
        elif key not in known:
            close = get_close_matches(str(key), known, 1)
            common = ", ".join(sorted(ModelSettings.__annotations__.keys() - REFUSED.keys()))
            meant = f"did you mean {close[0]!r}?" if close else f"there are: {common}"
            yield f"the setting {key!r}, which {model.model_id} does not know; {meant}"


def _wrong(settings: Mapping[str, Any]) -> Iterator[str]:
    try:
        TypeAdapter(ModelSettings).validate_python(dict(settings), strict=True)
    except ValidationError as error:
        for key in dict.fromkeys(each["loc"][0] for each in error.errors()):
            message = next(each["msg"] for each in error.errors() if each["loc"][0] == key)
            yield f"the setting {key!r} with the value {settings[str(key)]!r}: {message}"


def _known_settings(model: Model) -> set[str]:
    """The common settings, and those of the model's provider, which are defined in the modules of its classes."""
    known = set(ModelSettings.__annotations__)
    for kind in type(model).__mro__:
        for name, own in vars(sys.modules[kind.__module__]).items():
            if name.endswith("ModelSettings"):
                known |= set(getattr(own, "__annotations__", ()))
    return known
