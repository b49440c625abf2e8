"""Token counts of texts and messages, estimated with one vocabulary for all providers."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import msgspec

from changeover.messages import Assistant, Message, Note, ToolResult, User, with_labels

VOCABULARY = "o200k_base"

ENVELOPE = 4
"""What a message weighs beside what it says: its role, its author, and the marks where it begins and ends."""

UNHEARD_OF = "delegate_to_clerk {}"
"""With the first word that the vocabulary does not have, it makes what it needs for all such words, which takes longer
than to load it."""

ENCODER = msgspec.json.Encoder(enc_hook=str)

Encode = Callable[[str], list[int]]

_loaded: list[Encode] = []
_loading = Lock()


def count(text: str) -> int:
    """How many tokens a text is; what looks like a token with a special meaning is text as well."""
    encode = _loaded[0] if _loaded else load()
    try:
        return len(encode(text))
    except UnicodeEncodeError:
        return len(encode(_whole(text)))


def weight(*messages: Message) -> int:
    """How many tokens messages are for whoever reads them: each by itself, so that it does not matter which of them
    were counted before."""
    return sum(count(_text(message)) for message in messages) + ENVELOPE * len(messages)


def _text(message: Message) -> str:
    kind = type(message)
    if kind is ToolResult or kind is Note:
        return message.text
    if isinstance(message, Assistant) and message.calls:
        written = (f"{call.name} {_written(call.args)}{call.malformed}" for call in message.calls)
        return "\n".join([message.text, *written])
    if isinstance(message, User) and message.files:
        return with_labels(message.text, message.files)
    return message.text


def load() -> Encode:
    """Have the vocabulary at hand. That takes a tenth of a second in which nothing else goes on in the process: whoever
    has something to keep alive does it before."""
    # Under a lock: the vocabulary is read once, however many threads want it first.
    with _loading:
        if not _loaded:
            from splintr import Tokenizer

            encode = Tokenizer.from_pretrained(VOCABULARY).encode_ordinary
            encode(UNHEARD_OF)
            _loaded.append(encode)
    return _loaded[0]


def _whole(text: str) -> str:
    """The text with a mark for each half of a character, which no encoding can say."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _written(args: dict[str, Any]) -> str:
    try:
        return ENCODER.encode(args).decode()
    except (TypeError, ValueError, RecursionError):
        # What cannot be written reaches no model either.
        return ""
