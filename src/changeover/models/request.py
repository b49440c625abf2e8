"""From our messages to theirs: the reader's own turns as native calls, everybody else's as quotations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import groupby

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition as TheirTool

from changeover.messages import Assistant, Call, Message, Note, ToolResult, User
from changeover.models.attaching import prompt, shown
from changeover.models.keeping import restored
from changeover.models.quotation import Marks, texts_in
from changeover.models.quoting import noted, quoted
from changeover.tools.definition import ToolDefinition

GO_ON = "Go on."
LOST = "no result was recorded for this call"
ALIEN = re.compile(r"[^A-Za-z0-9_-]")
"""What some provider refuses in the id of a call."""


def written(
    messages: Sequence[Message], reader: str, systems: Collection[str], marks: Marks | None = None
) -> list[ModelMessage]:
    """The thread as this agent's model reads it; `systems` are the providers whose ids and signatures it can use."""
    draft = _Draft(systems, marks or Marks(partial(texts_in, messages)))
    for speaker, turns in groupby(messages, lambda message: _speaker(message, reader)):
        if speaker:
            draft.quote(speaker, (turn for turn in turns if isinstance(turn, Assistant | ToolResult)))
        else:
            draft.add(turns)
    return draft.finished()


def tools_of(definitions: Iterable[ToolDefinition]) -> list[TheirTool]:
    """Our functions as they describe them."""
    return [
        TheirTool(name=each.name, description=each.description, parameters_json_schema=each.parameters)
        for each in definitions
    ]


def _speaker(message: Message, reader: str) -> str:
    """Whose turn this is, if it is another agent's."""
    if isinstance(message, Assistant | ToolResult) and message.agent != reader:
        return message.agent
    return ""


class _Draft:
    """Their history while it is being written: responses, and between them what the model reads next."""

    def __init__(self, systems: Collection[str], marks: Marks) -> None:
        self._systems, self._marks = systems, marks
        self._messages: list[ModelMessage] = []
        self._called: list[tuple[Call, str]] = []
        """The calls of the last response, each with the id that it bears there."""
        self._results: dict[str, ToolResult] = {}
        self._prompts: list[UserContent] = []

    def quote(self, agent: str, leg: Iterable[Assistant | ToolResult]) -> None:
        self._prompts.append(quoted(self._marks, agent, leg))

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
        self._turn_over()
        if not self._messages or isinstance(self._messages[-1], ModelResponse):
            # Providers take the last word to be the user's.
            self._messages.append(ModelRequest(parts=[UserPromptPart(GO_ON)]))
        return self._messages

    def _say(self, turn: Assistant) -> None:
        response = (restored(turn, self._systems) if turn.extra else None) or _plain(turn)
        if response.parts:
            self._turn_over()
            self._messages.append(response)
            ids = [part.tool_call_id for part in response.parts if type(part) is ToolCallPart]
            self._called = list(zip(turn.calls, ids, strict=True))

    def _answer(self, result: ToolResult) -> None:
        """A result whose call the reader does not see, because it was left out, can only be told."""
        if any(call.id == result.call for call, _ in self._called) and result.call not in self._results:
            self._results[result.call] = result
        else:
            self.quote(result.agent, [result])

    def _turn_over(self) -> None:
        """End what the model reads before its next response: first a result for each of its calls, in their order."""
        results = [_result(call, id, self._results.get(call.id)) for call, id in self._called]
        prompts = [UserPromptPart(prompt(self._prompts))] if self._prompts else []
        if results or prompts:
            self._messages.append(ModelRequest(parts=[*results, *prompts]))
        self._called, self._results, self._prompts = [], {}, []


def _plain(turn: Assistant) -> ModelResponse:
    """A turn of which no provider needs anything back; thinking counts only with its provider's signature."""
    text = [TextPart(turn.text)] if turn.text else []
    calls = [ToolCallPart(call.name, call.malformed or call.args, ALIEN.sub("_", call.id)) for call in turn.calls]
    return ModelResponse(parts=[*text, *calls])


def _result(call: Call, id: str, result: ToolResult | None) -> ToolReturnPart:
    text, ok = (result.text, result.ok) if result else (LOST, False)
    return ToolReturnPart(call.name, text, id, outcome="success" if ok else "failed")
