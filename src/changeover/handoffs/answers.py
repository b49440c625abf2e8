"""Accepted, Rejected and Conditional: the answers a receiver can give to an offer."""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable
from sys import float_info
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(ge=0, le=float_info.max)]


class Accepted(Struct, frozen=True, omit_defaults=True, tag="accepted", tag_field="status"):
    """The receiver takes the task."""

    estimated_completion: Seconds | None = None
    """In how many seconds it expects to be done."""


class Rejected(Struct, frozen=True, omit_defaults=True, tag="rejected", tag_field="status"):
    """The receiver does not take the task."""

    reason: str
    suggested_alternative: str | None = None
    """The id of an agent that may be a better choice."""


class Conditional(Struct, frozen=True, omit_defaults=True, tag="conditional", tag_field="status"):
    """The receiver takes the task once it has what it lacks."""

    needs_more_context: tuple[str, ...] = ()
    """What it has to know; the sender may offer again and say it."""
    needs_permission: tuple[str, ...] = ()
    """What somebody has to allow."""
    estimated_completion: Seconds | None = None
    """In how many seconds from then it expects to be done."""

    def __post_init__(self) -> None:
        if not self.needs_more_context and not self.needs_permission:
            raise ValueError("a Conditional needs more context or a permission; if it needs neither, it is Accepted()")


Answer = Accepted | Rejected | Conditional

POSSIBLE = "return Accepted(…), Rejected(…), Conditional(…), True or False"


def answer_of(given: object) -> Answer:
    """What `accepts` returned, as an answer; raises TypeError if it is none."""
    match given:
        case None | True:
            return Accepted()
        case False:
            return Rejected("it does not accept this task")
        case Accepted() | Rejected() | Conditional():
            return checked(given)
        case str():
            raise TypeError(f"accepts returned the text {given!r:.200}; if it says why not, return Rejected(it)")
        case Awaitable():
            raise TypeError("accepts returned something that has to be awaited first")
        case _:
            kind = type(given).__name__
            raise TypeError(f"accepts returned {reprlib.repr(given)}, of type {kind}; {POSSIBLE}")


def checked(answer: Answer, said: str = "accepts returned") -> Answer:
    """The answer as it comes back from a log: records do not check what they are made with. Raises TypeError if it
    could not, with how it was said."""
    try:
        kept: Answer = msgspec.convert(msgspec.to_builtins(answer), Answer)
    except msgspec.ValidationError as error:
        raise TypeError(f"{said} {type(answer).__name__}(…) with what it cannot hold: {error}") from None
    return kept
