"""A strict parser of requests: it accepts only blocks with the mark that the instructions announce."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from tests.models.nasty_texts import BREAKS

ANNOUNCED = re.compile(r'A block from "(?P<mark>.*?) …\]\]" to "(?P=mark) end\]\]" was put there by the team')
NAME = r"(?:[\w.@+-]+|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
BREAK = "|".join(map(re.escape, sorted(BREAKS, key=len, reverse=True)))

Read = tuple[Any, ...]


def announced(instructions: str, own: str) -> str:
    """The mark that is told below these instructions of the agent; nothing if none is."""
    added = instructions.removeprefix(own).removeprefix("\n\n" if own else "")
    assert instructions == (f"{own}\n\n{added}" if own and added else own + added)
    if not added:
        return ""
    found = ANNOUNCED.match(added)
    assert found
    return found["mark"]


def prompts(messages: Sequence[ModelMessage]) -> list[str]:
    """What stands in the user's role."""
    parts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    return [part.content for part in parts if isinstance(part.content, str)]


def shape(messages: Sequence[ModelMessage]) -> list[Any]:
    """Who speaks, in which parts, and which calls and results are native: all but the words."""
    return [
        (
            message.kind,
            [
                (part.part_kind, getattr(part, "tool_name", ""), getattr(part, "tool_call_id", ""))
                for part in message.parts
            ],
        )
        for message in messages
    ]


def read_back(messages: Sequence[ModelMessage], mark: str) -> list[Read]:
    """What stands in a request, in its order; who said nothing is not heard of."""
    read = [each for message in messages for part in message.parts for each in _part(message, part, mark)]
    return [each for each in read if each != ("user", "")]


def _part(message: ModelMessage, part: Any, mark: str) -> Iterator[Read]:
    match message, part:
        case ModelResponse(), TextPart():
            yield "said", part.content
        case ModelResponse(), ToolCallPart():
            yield "called", part.tool_name, part.args
        case ModelRequest(), ToolReturnPart():
            yield "answered", part.tool_name, part.content, part.outcome == "success"
        case ModelRequest(), UserPromptPart():
            assert isinstance(part.content, str)
            yield from _prompt(part.content, mark)
        case _:
            raise AssertionError(part)


def _prompt(text: str, mark: str) -> Iterator[Read]:
    """Blocks, and between them what users say; an empty line stands between one and the next."""
    if not mark:
        yield "user", text
        return
    sign = re.escape(mark)
    opening, closing = rf"(?:\A|\n\n){sign} (?P<title>[^\n]*)\]\]\n", rf"\n{sign} end\]\](?=\n\n|\Z)"
    block = re.compile(f"{opening}(?P<body>.*?){closing}", re.S)
    end = 0
    for found in block.finditer(text):
        yield from _spoken(text[end : found.start()], mark, first=end == 0)
        yield _block(found["title"], found["body"], mark)
        end = found.end()
    yield from _spoken(text[end:], mark, first=end == 0)


def _spoken(text: str, mark: str, first: bool) -> Iterator[Read]:
    assert mark not in text, "a mark that belongs to no block"
    if text:
        assert first or text.startswith("\n\n")
        yield "user", text if first else text[2:]


def _block(title: str, body: str, mark: str) -> Read:
    if found := re.fullmatch(f"note from ({NAME})", title):
        assert mark not in body
        return "note", _name(found[1]), body
    found = re.fullmatch(f"quotes ({NAME})", title)
    assert found, title
    return "quotes", _name(found[1]), [*_items(body, mark)]


def _items(body: str, mark: str) -> Iterator[Read]:
    """What a quotation holds; each of its lines is marked, whatever one takes for a line."""
    if not body:
        return
    assert all(line.startswith("> ") for line in body.splitlines())
    plain = re.sub(f"({BREAK})> ", r"\1", body.removeprefix("> "))
    first, *others = re.split(rf"(?:\A|\n){re.escape(mark)} ", plain)
    if first:
        yield "said", first
    for item in others:
        found = re.match(rf"(said|called (?P<call>{NAME})|(?P<how>answer|failure) of (?P<tool>{NAME}))\]\] ", item)
        assert found, item
        text = item[found.end() :]
        if found["call"]:
            yield "called", _name(found["call"]), _args(text)
        elif found["tool"]:
            yield "answered", _name(found["tool"]), text, found["how"] == "answer"
        else:
            yield "said", text
    assert plain.count(mark) == len(others)


def _name(written: str) -> str:
    return ast.literal_eval(written) if written[0] in "'\"" else written


def _args(text: str) -> Any:
    return text if text.startswith("!") else json.loads(text)
