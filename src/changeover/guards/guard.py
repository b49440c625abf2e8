"""Guard: the check of a handoff before it is offered; the sender reads the reason of a refusal.

A guard is any object with a `check(offer, ledger, facts)` that returns `Allow()`, `Deny(reason)` or `Ask(question)`. It
is a pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from changeover.copies import copied
from changeover.facts import Ledger, Mode


class Allow(Struct, frozen=True, gc=False):
    """The handoff may be offered."""


class Deny(Struct, frozen=True, repr_omit_defaults=True, gc=False):
    """The handoff is refused; the sender reads the `reason` and goes on."""

    reason: str
    cycle: tuple[str, ...] = ()
    """The agents of the circle in which the task goes, if that is why."""


class Ask(Struct, frozen=True, gc=False):
    """A person has to approve the handoff first, and reads the `question`."""

    question: str


Answer: TypeAlias = Allow | Deny | Ask
ALLOW = Allow()


@copied("variables", "artifacts", "workflow_state")
class Offer(Struct, frozen=True, gc=False):
    """A handoff that an agent, or code, wants to make."""

    sender: str
    receiver: str
    mode: Mode = Mode.TRANSFER
    message: str = ""
    """The text for the receiver; the task, if it is a delegate."""
    variables: Mapping[str, Any] = {}
    """The context variables as they would be after the handoff."""
    artifacts: Mapping[str, str | None] = {}
    workflow_state: Mapping[str, Any] = {}
    tool: str = ""
    attempt: int = 1


@copied("variables", "artifacts", "workflow_state")
class Passed(Struct, frozen=True, gc=False):
    """An earlier handoff: a transfer of this run, a delegate that has returned, or one that this run works for."""

    sender: str
    receiver: str
    message: str
    variables: Mapping[str, Any]
    artifacts: Mapping[str, str | None]
    workflow_state: Mapping[str, Any]
    progress: int
    """The value of `Facts.progress` at that time."""
    mode: Mode = Mode.TRANSFER
    news: int = 0
    """The value of `Facts.news` at that time."""


class Tripped(Struct, frozen=True, gc=False):
    """The circuit of a receiver is open, so handoffs to it are refused."""

    receiver: str
    failures: int
    """Failures in a row."""
    until: float | None
    """When the next handoff may be tried, in seconds since the epoch; None if a person has to reset the circuit."""
    opened_at: float = 0.0
    """When the circuit opened, in seconds since the epoch."""


class Facts(Struct, frozen=True, gc=False):
    """The facts about the run that guards may use."""

    at: float = 0.0
    """The current time, in seconds since the epoch."""
    conversation: str = ""
    user: str = ""
    trail: Sequence[Passed] = ()
    """The transfers of this run and its delegates that have returned, oldest first. In the run of a delegate the
    handoffs that led to it come first, as far back as nothing happened in between."""
    progress: int = 0
    """A counter that grows when a tool or a delegate succeeds, and when variables, artifacts or the workflow state
    change."""
    tripped: Tripped | None = None
    """The open circuit of the receiver, if the store has one; it is known only when the offer is recorded."""
    news: int = 0
    """A counter that grows when a tool takes effect, and when an answer, a variable, an artifact or the workflow state
    is new. A read-only tool or a delegate that gives the same answer as before adds nothing."""


@runtime_checkable
class Guard(Protocol):
    """Decides whether a handoff may be offered. An optional `faults()` reports what is wrong with its declaration."""

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        """Judge an `offer` by what the run has spent (`ledger`) and what has happened (`facts`): return Allow(),
        Deny(reason) or Ask(question). An exception counts as Deny."""
        ...


def checked(guards: Iterable[Guard], offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
    """The first Deny of these guards, else the first Ask, else Allow. A guard that raises counts as Deny."""
    asked: Ask | None = None
    for guard in guards:
        answer = _answer_of(guard, offer, ledger, facts)
        if answer is ALLOW:
            continue
        if isinstance(answer, Deny):
            return answer
        if isinstance(answer, Ask) and asked is None:
            asked = answer
    return asked or ALLOW


def _answer_of(guard: Guard, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
    try:
        answer: object = guard.check(offer, ledger, facts)
    except Exception as error:  # the user's code
        return Deny(f"{type(guard).__name__} could not judge it: {type(error).__name__}: {error}")
    if answer is ALLOW:  # most answers
        return ALLOW
    match answer:
        case Allow() | Deny(reason=str()) | Ask(question=str()):
            return answer
        case _:
            return Deny(f"{type(guard).__name__} returned {answer!r:.100}, not Allow(), Deny(…) or Ask(…)")


def guard_faults(guards: object) -> list[str]:
    """The faults of the declaration `guards=…`, one text each; None means the default guards."""
    if guards is None:
        return []
    if isinstance(guards, str) or not isinstance(guards, Sequence):
        return [f"has guards={guards!r}; give a list, such as [Deadlock()]"]
    others = [each for each in guards if not _is_guard(each)]
    found = [f"has the guard {each!r}, {_lack(each)}" for each in others]
    for each in guards:
        if each not in others:
            found += [f"has a {type(each).__name__} whose {fault}" for fault in getattr(each, "faults", list)()]
    return found


def _lack(guard: object) -> str:
    if isinstance(guard, type):
        return f"which is a class; give an object of it, {guard.__name__}()"
    return "which has no check(offer, ledger, facts)"


def _is_guard(guard: object) -> bool:
    return isinstance(guard, Guard) and not isinstance(guard, type) and callable(guard.check)
