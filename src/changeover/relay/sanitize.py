"""Sanitizing: replies, events and texts from outside, made so that every log can store them and read them back."""

from __future__ import annotations

from math import isfinite
from typing import Any, TypeVar

import msgspec

from changeover.facts import ONE_REQUEST, Usage
from changeover.messages import Call, Reply

ENCODER = msgspec.json.Encoder()
MOST = 10**15
"""The largest count of tokens that is believed; a store can add up thousands of them."""

S = TypeVar("S", bound=msgspec.Struct)


def text_of(value: str) -> str:
    """The text with every lone surrogate replaced, because no encoding can store it."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def reply_of(given: object, command: str) -> Reply:
    """The reply of a model, in a form that a log can store; raises TypeError if it is not a Reply."""
    if not isinstance(given, Reply):
        raise TypeError(f"a model must give a Reply, not {type(given).__name__}")
    if not isinstance(given.text, str) or not isinstance(given.thinking, str) or not isinstance(given.calls, tuple):
        raise TypeError("a Reply has a text, a thinking text, and a tuple of calls")
    if fault := _fault(given):
        raise TypeError(fault)
    usage = given.usage if given.usage is ONE_REQUEST else _never_negative(given.usage)
    calls = _calls_of(given.calls, command) if given.calls else ()
    plain = given.text.isascii() and given.thinking.isascii() and not given.extra
    if plain and calls is given.calls and usage is given.usage:
        return given
    text, thinking, extra = text_of(given.text), text_of(given.thinking), _stored(given.extra) if given.extra else {}
    return Reply(text=text, thinking=thinking, calls=calls, usage=usage, extra=extra)


def _stored(extra: dict[str, Any]) -> Any:
    """The extra of a reply exactly as a reader of the log finds it."""
    try:
        return msgspec.json.decode(ENCODER.encode(whole(extra)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TypeError(f"what goes with a Reply as its extra must be what JSON can hold: {error}") from error


def _never_negative(usage: Usage) -> Usage:
    """The usage with 0 for every figure below 0, which would give back what others have spent."""
    tokens = (usage.input_tokens, usage.output_tokens, usage.requests)
    if min(tokens) >= 0 and (usage.cost is None or usage.cost >= 0):
        return usage
    given, written, requests = (max(each, 0) for each in tokens)
    return Usage(given, written, requests, None if usage.cost is None else max(usage.cost, 0.0))


def _fault(given: Reply) -> str:
    """Why a log could not store a reply, empty if it could: structs do not validate their fields."""
    for call in given.calls:
        if not (isinstance(call, Call) and isinstance(call.id, str) and isinstance(call.name, str)):
            return f"a call is a Call(id, name, args) with texts for id and name, not {call!r:.100}"
        if not isinstance(call.args, dict):
            return f"the arguments of a call are a dict, not {call.args!r:.100}"
    if not isinstance(given.extra, dict):
        return f"what goes with a Reply as its extra is a dict, not {given.extra!r:.100}"
    return "" if given.usage is ONE_REQUEST or _counts(given.usage) else f"{given.usage!r:.100} is no Usage in numbers"


def _counts(usage: object) -> bool:
    if not isinstance(usage, Usage):
        return False
    tokens = (usage.input_tokens, usage.output_tokens, usage.requests)
    if not all(isinstance(each, int) and each <= MOST for each in tokens):
        return False
    return usage.cost is None or (isinstance(usage.cost, float | int) and isfinite(usage.cost))


def _calls_of(calls: tuple[Call, ...], command: str) -> tuple[Call, ...]:
    """The calls, each with an id that is unique in the turn."""
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
    """The event with every text sanitized, exactly as a reader of the log finds it."""
    return given if _plain(given) else msgspec.convert(whole(msgspec.to_builtins(given)), type(given))


def whole(value: Any) -> Any:
    """The value with every text sanitized."""
    match value:
        case str():
            return text_of(value)
        case dict():
            return {whole(key): whole(inner) for key, inner in value.items()}
        case list() | tuple():
            return [whole(inner) for inner in value]
        case _:
            return value
