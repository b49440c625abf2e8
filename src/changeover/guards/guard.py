"""Guard: the check between a handoff that an agent wants and its offer. The agent reads the reason of a refusal.

A guard is any object with a `check(offer, ledger, facts)` that returns `Allow()`, `Deny(reason)` or `Ask(question)`. It
is pure: everything it may know is passed to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from changeover.facts import Ledger, Mode


class Allow(Struct, frozen=True, gc=False):
    """Nothing speaks against it."""


class Deny(Struct, frozen=True, gc=False):
    """It is not to be; whoever wants it is told why, and goes on."""

    reason: str


class Ask(Struct, frozen=True, gc=False):
    """A person has to say yes first."""

    question: str


Answer: TypeAlias = Allow | Deny | Ask
ALLOW = Allow()


class Offer(Struct, frozen=True, gc=False):
    """A handoff that an agent, or code, wants to make."""

    sender: str
    receiver: str
    mode: Mode = Mode.TRANSFER
    message: str = ""
    variables: Mapping[str, Any] = {}
    """The context variables as they would be then."""
    artifacts: Mapping[str, str | None] = {}
    workflow_state: Mapping[str, Any] = {}
    tool: str = ""
    attempt: int = 1


class Passed(Struct, frozen=True, gc=False):
    """A handoff that was offered before in the same run."""

    sender: str
    receiver: str
    message: str
    variables: Mapping[str, Any]
    artifacts: Mapping[str, str | None]
    workflow_state: Mapping[str, Any]
    progress: int
    """How much had been achieved by then."""


class Tripped(Struct, frozen=True, gc=False):
    """The circuit of a receiver is open, so that nothing is handed to it."""

    receiver: str
    failures: int
    """In a row."""
    until: float | None
    """When a handoff may be tried again; None if that is for a person to say."""


class Facts(Struct, frozen=True, gc=False):
    """What a guard may know beside the offer."""

    at: float = 0.0
    """Now, in seconds since the epoch."""
    conversation: str = ""
    user: str = ""
    trail: Sequence[Passed] = ()
    """The handoffs that were offered in this run before, oldest first."""
    progress: int = 0
    """How much was achieved in this run: it grows when a tool or a delegate succeeds, and when what travels
    changes: variables, artifacts, workflow state."""
    tripped: Tripped | None = None
    """What the store says of the receiver, if it says no: known only once the offer is made."""


@runtime_checkable
class Guard(Protocol):
    """Says whether a handoff may be offered."""

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer: ...


def checked(guards: Iterable[Guard], offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
    """The first no, else the first question, else yes. A guard that raises says no."""
    asked: Ask | None = None
    for guard in guards:
        answer = _answer_of(guard, offer, ledger, facts)
        if isinstance(answer, Deny):
            return answer
        if isinstance(answer, Ask) and asked is None:
            asked = answer
    return asked or ALLOW


def _answer_of(guard: Guard, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
    name = type(guard).__name__
    try:
        answer: object = guard.check(offer, ledger, facts)
    except Exception as error:  # the user's code: what it cannot judge is not to be
        return Deny(f"{name} could not judge it: {type(error).__name__}: {error}")
    match answer:
        case Allow() | Deny(reason=str()) | Ask(question=str()):
            return answer
        case _:
            return Deny(f"{name} gave {answer!r:.100}, and not Allow(), Deny(…) or Ask(…)")


def guard_faults(guards: object) -> list[str]:
    """What is wrong with what was declared as guards."""
    if guards is None:
        return []
    if isinstance(guards, str) or not isinstance(guards, Sequence):
        return [f"has guards={guards!r}; give a list, such as [Deadlock()]"]
    strangers = [each for each in guards if not _is_one(each)]
    found = [f"has the guard {each!r}, which has no check(offer, ledger, facts)" for each in strangers]
    for each in guards:
        if each not in strangers:
            found += [f"has a {type(each).__name__} whose {fault}" for fault in getattr(each, "faults", list)()]
    return found


def _is_one(guard: object) -> bool:
    return isinstance(guard, Guard) and not isinstance(guard, type) and callable(guard.check)
