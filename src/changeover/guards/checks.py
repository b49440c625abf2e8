"""Checks of content: functions that judge a text before a model reads it, and before an agent's answer leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from changeover.guards.guard import ALLOW, Allow, Deny
from changeover.handoffs.callback import arity_faults

Direction: TypeAlias = Literal["input", "output"]


class Content(Struct, frozen=True):
    """A text that a check judges; the argument of the functions in `Agent(checks=…)`."""

    text: str
    direction: Direction
    """"input" for what a user or a sender says to the agent, "output" for the agent's answer."""
    ctx: Any
    """The RunContext."""


class Replace(Struct, frozen=True, gc=False):
    """This text takes the place of the one that was checked."""

    text: str


Ruling: TypeAlias = Allow | Deny | Replace
Check: TypeAlias = Callable[[Content], Any]
"""`check(content)`, sync or async, returns Allow() or None, Deny(words) or Replace(text)."""


def ruling_of(answer: object) -> Ruling:
    """The answer of a check as a ruling; raises TypeError if a check cannot return it."""
    if answer is None:
        return ALLOW
    text = answer.text if isinstance(answer, Replace) else answer.reason if isinstance(answer, Deny) else ""
    if not isinstance(answer, Ruling) or not isinstance(text, str):
        raise TypeError(f"a check must return None, Allow(), Deny(words) or Replace(text), not {answer!r:.100}")
    return answer


def check_faults(checks: object) -> Iterator[str]:
    """The faults of the declaration `checks=…` of an agent."""
    if isinstance(checks, str) or not isinstance(checks, Sequence):
        yield f"has checks={checks!r}; give a list of functions"
        return
    for check in checks:
        if not callable(check) or isinstance(check, type):
            yield f"has the check {check!r}; give a function of the content"
        else:
            yield from arity_faults("a check", check, "content")
