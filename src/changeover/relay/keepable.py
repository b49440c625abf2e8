"""What comes from outside, made such that any log can keep it and any provider can read it back."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from changeover.messages import Call, Reply

ENCODER = msgspec.json.Encoder()

S = TypeVar("S", bound=msgspec.Struct)


def text_of(value: str) -> str:
    """The text with every half of a surrogate pair, which no encoding can hold, replaced."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def reply_of(given: object, command: str) -> Reply:
    """What a model gave, if it is a reply; raises TypeError if not."""
    if not isinstance(given, Reply):
        raise TypeError(f"a model must give a Reply, not {type(given).__name__}")
    if not isinstance(given.text, str) or not isinstance(given.thinking, str) or not isinstance(given.calls, tuple):
        raise TypeError("a Reply has a text, a thinking text, and a tuple of calls")
    if not given.calls and given.text.isascii() and not given.thinking and not given.extra:
        return given
    calls = _calls_of(given.calls, command) if given.calls else ()
    text, thinking, extra = text_of(given.text), text_of(given.thinking), whole(given.extra) if given.extra else {}
    return Reply(text=text, thinking=thinking, calls=calls, usage=given.usage, extra=extra)


def _calls_of(calls: tuple[Call, ...], command: str) -> tuple[Call, ...]:
    """The calls, each with an id that no other of the turn has."""
    ids = {call.id for call in calls} if len(calls) > 1 else (calls[0].id,)
    if len(ids) == len(calls) and "" not in ids and all(map(_plain, calls)):
        return calls
    named: set[str] = set()
    fit = []
    for index, call in enumerate(calls):
        id = call.id if call.id and call.id not in named else f"call_{command}_{index}"
        named.add(id)
        fit.append(Call(text_of(id), text_of(call.name), whole(call.args), text_of(call.malformed)))
    return tuple(fit)


def _plain(given: msgspec.Struct) -> bool:
    try:
        ENCODER.encode(given)
    except UnicodeEncodeError:
        return False
    return True


def event_of(given: S) -> S:
    """The event with every text in it as `text_of` makes it: as whoever reads the log will find it."""
    return given if _plain(given) else msgspec.convert(whole(msgspec.to_builtins(given)), type(given))


def whole(value: Any) -> Any:
    """The same with every text in it as `text_of` makes it."""
    match value:
        case str():
            return text_of(value)
        case dict():
            return {whole(key): whole(inner) for key, inner in value.items()}
        case list() | tuple():
            return [whole(inner) for inner in value]
        case _:
            return value
