"""Messages as a package tells of them: who said what, in a form that others can write too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from changeover.handoffs.package import Said, ToolCall
from changeover.messages import Assistant, Message, Note, ToolResult, User, with_labels


def history_of(messages: Iterable[Message]) -> tuple[Said, ...]:
    """The messages, oldest first, without what only a provider or an agent itself has a use for."""
    return tuple(map(_said, messages))


def _said(message: Message) -> Said:
    match message:
        case User():
            return Said(message.author, with_labels(message.text, message.files))
        case Assistant():
            calls = tuple(ToolCall(call.name, call.args) for call in message.calls)
            return Said(message.agent, message.text, "agent", calls)
        case ToolResult():
            return Said(message.name, message.text, "tool")
        case Note():
            return Said(message.author, message.text, "note")
        case _:
            assert_never(message)
