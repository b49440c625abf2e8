"""Finding the JSON in what an agent answered, which may stand alone, in a fence, or below a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

FENCE = re.compile(
    r"^[ \t]*(?P<ticks>`{3,}|~{3,})[^\n]*\n(?P<body>.*?)(?:^[ \t]*(?P=ticks)[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
OPENING = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
TRIES = 20
"""So many places of a text are looked at; one that has more of them is no answer but a listing."""


def found(text: str) -> list[Any]:
    """Every value that the text may be meant to say, the likeliest first."""
    whole = list(_values([text]))
    fenced = whole or list(_values(match["body"] for match in FENCE.finditer(text)))
    # The last one first: what stands above it is what the author thought on the way.
    return (fenced or list(_blocks(text)))[::-1]


def trouble(text: str) -> str:
    """Why the text, or what is fenced in it, cannot be read as JSON."""
    bodies = [match["body"] for match in FENCE.finditer(text)]
    try:
        DECODER.decode(bodies[-1] if bodies else text)
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def _values(texts: Iterator[str] | list[str]) -> Iterator[Any]:
    for text in texts:
        try:
            yield DECODER.decode(text)
        except (ValueError, RecursionError):
            continue


def _blocks(text: str) -> Iterator[Any]:
    """Objects and arrays that begin at the beginning of a line."""
    end = 0
    for _, opening in zip(range(TRIES), OPENING.finditer(text), strict=False):
        if opening.end() < end:
            continue
        try:
            value, end = DECODER.raw_decode(text, opening.end())
        except (ValueError, RecursionError):
            continue
        yield value


def _finite(figure: str) -> float:
    value = float(figure)
    if value - value != 0:
        raise ValueError(f"{figure} is no number that JSON can hold")
    return value


DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
