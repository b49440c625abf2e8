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
    """The receiver accepts the task."""

    estimated_completion: Seconds | None = None
    """In how many seconds it expects to be done."""


class Rejected(Struct, frozen=True, omit_defaults=True, tag="rejected", tag_field="status"):
    """The receiver declines the task."""

    reason: str
    """Why; the sender reads it."""
    suggested_alternative: str | None = None
    """The id of an agent that may be a better choice."""


class Conditional(Struct, frozen=True, omit_defaults=True, tag="conditional", tag_field="status"):
    """The receiver accepts the task if it gets more context or a permission; raises ValueError if it needs neither."""

    needs_more_context: tuple[str, ...] = ()
    """What it has to know; the sender may offer again with it."""
    needs_permission: tuple[str, ...] = ()
    """What a person has to permit first."""
    estimated_completion: Seconds | None = None
    """In how many seconds from then it expects to be done."""

    def __post_init__(self) -> None:
        if not self.needs_more_context and not self.needs_permission:
            raise ValueError("a Conditional needs more context or a permission; if it needs neither, it is Accepted()")


Answer = Accepted | Rejected | Conditional

POSSIBLE = "return Accepted(…), Rejected(…), Conditional(…), True or False"


def answer_of(given: object) -> Answer:
    """The answer that `accepts` returned; None and True mean Accepted. Raises TypeError if it is not an answer."""
    match given:
        case None | True:
            return Accepted()
        case False:
            return Rejected("it does not accept this task")
        case Accepted() | Rejected() | Conditional():
            return checked(given)
        case str():
            raise TypeError(f"accepts returned the text {given!r:.200}; to decline, return Rejected(reason)")
        case Awaitable():
            raise TypeError("accepts returned an awaitable; await it first")
        case _:
            kind = type(given).__name__
            raise TypeError(f"accepts returned {reprlib.repr(given)}, of type {kind}; {POSSIBLE}")


def checked(answer: Answer, source: str = "accepts returned") -> Answer:
    """The answer with its fields checked, which msgspec does not do when a record is made.

    Raises TypeError, whose text begins with `source`.
    """
    try:
        valid: Answer = msgspec.convert(msgspec.to_builtins(answer), Answer)
    except msgspec.ValidationError as error:
        raise TypeError(f"{source} {type(answer).__name__}(…) with a wrong value: {error}") from None
    return valid
