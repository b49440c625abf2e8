"""Token counts of texts and messages, estimated with one vocabulary for all providers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Any

import msgspec

from changeover.messages import Assistant, Message, User, with_labels

VOCABULARY = "o200k_base"

ENVELOPE = 4
"""The tokens of a message beside its text: its role, its author, and the marks of its beginning and end."""

WARM_UP = "delegate_to_clerk {}"
"""Encoding the first word outside the vocabulary builds tables for all such words, which takes longer than loading."""

LONG = 40
"""Number of characters of a long token; it bounds how much of an endless text is counted."""

LARGE, SAMPLES, SAMPLE = 256 * 1024, 16, 8 * 1024
"""The count of a text of more than LARGE characters is estimated from SAMPLES samples of SAMPLE characters: to count
10 MB would stop the event loop for a quarter of a second, and hold a list of two million numbers."""

SHORT = 40
"""Number of characters up to which counts are cached: results such as "transferred to billing" recur in every run."""

ENCODER = msgspec.json.Encoder(enc_hook=str)

Encode = Callable[[str], list[int]]

_loaded: list[Encode] = []
_loading = Lock()


def count(text: str) -> int:
    """The number of tokens of a text; special tokens in it count as plain text. That of a large text is estimated."""
    length = len(text)
    if length <= SHORT:
        return _cached(text)
    return _exact(text) if length <= LARGE else _sampled(text)


def _sampled(text: str) -> int:
    """The number of tokens of a large text, estimated from evenly spaced samples."""
    apart = len(text) // SAMPLES
    found = sum(_exact(text[at : at + SAMPLE]) for at in range(0, apart * SAMPLES, apart))
    return round(found * len(text) / (SAMPLES * SAMPLE))


@lru_cache(maxsize=1024)
def _cached(text: str) -> int:
    return _exact(text)


def _exact(text: str) -> int:
    encode = _loaded[0] if _loaded else load()
    try:
        return len(encode(text))
    except UnicodeEncodeError:
        return len(encode(_encodable(text)))


def beginning(text: str, most: int) -> str:
    """As much of a text as fits into `most` tokens."""
    if len(text) <= max(LARGE, most * LONG) and _exact(text) <= most:
        return text
    fitting, over = 0, min(len(text), most * LONG) + 1
    while over - fitting > 1:
        middle = (fitting + over) // 2
        fitting, over = (middle, over) if _exact(text[:middle]) <= most else (fitting, middle)
    return text[:fitting]


def weight(*messages: Message) -> int:
    """The number of tokens of messages; each is counted alone, so that sums of parts equal the sum of all."""
    return ENVELOPE * len(messages) + sum([count(_text(message)) for message in messages])


def _text(message: Message) -> str:
    if isinstance(message, Assistant) and message.calls:
        calls = [f"{call.name} {_written(call.args)}{call.malformed}" for call in message.calls]
        return "\n".join([message.text, *calls])
    return with_labels(message.text, message.files) if isinstance(message, User) and message.files else message.text


def load() -> Encode:
    """Load the vocabulary, once. It blocks all threads for about 0.1 s, so call it before a lease has to be renewed."""
    with _loading:
        if not _loaded:
            from splintr import Tokenizer

            encode = Tokenizer.from_pretrained(VOCABULARY).encode_ordinary
            encode(WARM_UP)
            _loaded.append(encode)
    return _loaded[0]


def _encodable(text: str) -> str:
    """The text with each lone surrogate replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _written(args: dict[str, Any]) -> str:
    try:
        return ENCODER.encode(args).decode()
    except (TypeError, ValueError, RecursionError):
        return ""  # arguments that cannot be encoded reach no model
