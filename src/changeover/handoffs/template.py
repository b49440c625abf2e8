"""Prompt templates: named parts in paragraphs, and quotations that their content cannot end."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches

CUT = " […]"
"""Marks the place where a text was cut."""

BLANK = re.compile(r"\n(?:[^\S\n]*\n)+")
BRACES = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}\n]*)\}|[{}]")
ESCAPED = {"{{": "{", "}}": "}"}


def render(template: str, parts: Mapping[str, str]) -> str:
    """The template with its parts filled in, without the paragraphs whose parts are all empty."""
    return "\n\n".join(
        BRACES.sub(lambda found: _put(found, parts), paragraph)
        for paragraph in _paragraphs(template)
        if _tells(paragraph, parts)
    )


def template_faults(template: str, known: Collection[str]) -> list[str]:
    """The faults of a template that may use these parts."""
    return [fault for line, text in enumerate(template.split("\n"), 1) for fault in _faults(line, text, known)]


def quoted(text: str, longest: int | None = None) -> str:
    """The text with a mark before every line, so that nothing in it can pass for the text around it; cut after
    `longest` characters."""
    if not text.strip():
        return ""
    shown = text if longest is None or len(text) <= longest else f"{text[:longest]}{CUT}"
    return "\n".join(f"> {line}" for line in shown.splitlines())


def quota(sizes: Iterable[int], room: int) -> int:
    """The size to which the largest of several texts have to be cut, so that all together fit into the room."""
    for number, size in enumerate(rising := sorted(sizes)):
        if (share := room // (len(rising) - number)) < size:
            return share
        room -= size
    return max(rising, default=0)


def _paragraphs(template: str) -> list[str]:
    return [paragraph.strip("\n") for paragraph in BLANK.split(f"\n{template}\n") if paragraph.strip()]


def _tells(paragraph: str, parts: Mapping[str, str]) -> bool:
    names = [found["name"] for found in BRACES.finditer(paragraph) if found["name"] is not None]
    return not names or any(parts.get(name, "").strip() for name in names)


def _put(found: re.Match[str], parts: Mapping[str, str]) -> str:
    name = found["name"]
    return ESCAPED.get(found[0], found[0]) if name is None else parts.get(name, "")


def _faults(line: int, text: str, known: Collection[str]) -> Iterator[str]:
    for found in BRACES.finditer(text):
        name = found["name"]
        if name is not None and name not in known:
            yield f"no part is called {name!r} (line {line}); {_meant(name, known)}"
        elif found[0] in "{}":
            pair = "is not closed" if found[0] == "{" else "closes nothing"
            yield f"the {found[0]!r} in line {line} {pair}; a brace that is meant as such is written {found[0] * 2!r}"


def _meant(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name.strip().lower(), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(known)) or 'none'}"
