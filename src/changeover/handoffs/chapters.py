"""Chapters: what was packed of a conversation, so that it never has to be again."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

FETCH = "fetch_context"
"""The tool by which an agent reads what was said before it took over."""


class Chapter(Struct, frozen=True, omit_defaults=True):
    """A stretch of a conversation as those who come after are told of it."""

    text: str = ""
    """A summary, in prose."""
    facts: tuple[str, ...] = ()
    """Word for word: decisions, numbers, ids, file names, open questions."""
    ref: str = ""
    """By what the whole of it can be fetched, if it can."""
    sections: tuple[str, ...] = ()
    """What can be fetched of it by name."""
    messages: int = 0
    """How many messages it covers."""
    prompt: int = 0
    """By which version of our prompt it was summed up, if it was."""


def can_fetch(chapters: Iterable[Chapter]) -> bool:
    """Whether there is anything of which more can be read."""
    return any(chapter.ref for chapter in chapters)
