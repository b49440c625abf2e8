"""Approvals: which calls wait for a person, and the decisions a person can make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, assert_never

from msgspec import Struct
from msgspec.structs import asdict

from changeover.facts import RequestKind

OnExpiry = Literal["reject", "approve"]


@dataclass(frozen=True, kw_only=True)
class Approval:
    """Ask a person first. Without `expires` (in seconds) the question stands until somebody decides."""

    expires: float | None = None
    on_expiry: OnExpiry = "reject"
    when: Callable[..., Any] | None = None
    """`when(ctx, arguments)` says whether this very call has to be asked; without it, every call."""
    roles: Sequence[str] = ()
    """Who decides has to have one of these; without any, anybody may."""


Approvable = bool | Callable[..., Any] | Approval | None
"""What may be declared: True for every call, a function that says which, or all of it spelled out."""


def approval_of(declared: Approvable) -> Approval | None:
    """The approval that was declared, in one form."""
    if isinstance(declared, Approval):
        return declared
    if callable(declared):
        return Approval(when=declared)
    return Approval() if declared else None


def approval_faults(declared: object) -> list[str]:
    """What is wrong with this declaration."""
    if not isinstance(declared, Approval):
        fine = declared is None or isinstance(declared, bool) or (callable(declared) and declared is not Approval)
        return [] if fine else [f"has approval={declared!r}; give True, a function or Approval(…)"]
    found = []
    seconds = declared.expires
    if seconds is not None and (not isinstance(seconds, int | float) or seconds is True or not 0 < seconds < inf):
        found.append(f"has an approval that expires={seconds!r}; give seconds above 0, or None for never")
    if declared.on_expiry not in ("reject", "approve"):
        found.append(f"has an approval with on_expiry={declared.on_expiry!r}; give 'reject' or 'approve'")
    if declared.when is not None and not callable(declared.when):
        found.append(f"has an approval with when={declared.when!r}; give a function of the context and the arguments")
    if not is_names(declared.roles):
        found.append(f"has an approval with roles={declared.roles!r}; give a list of names, such as ['manager']")
    return found


def is_names(given: object) -> bool:
    """Whether this is a list of names, none of them empty."""
    return isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(n, str) and n for n in given)


class Verdict(Struct, frozen=True, omit_defaults=True, gc=False):
    """What all decisions have in common."""


class Approve(Verdict, frozen=True, tag="approve"):
    """Do it."""


class Reject(Verdict, frozen=True, tag="reject"):
    """Do not do it; the model reads the note."""

    note: str = ""


class Edit(Verdict, frozen=True, tag="edit"):
    """Do it, but with these arguments, or with another receiver."""

    arguments: dict[str, Any] | None = None
    receiver: str = ""


class Respond(Verdict, frozen=True, tag="respond"):
    """Do not do it; this is its result."""

    text: str


Decision = Approve | Reject | Edit | Respond

POSSIBLE: dict[RequestKind, tuple[type[Decision], ...]] = {
    "approval": (Approve, Reject, Edit, Respond),
    "permission": (Approve, Reject),
    "escalation": (Reject, Edit, Respond),
    "task": (Reject, Edit, Respond),
}
"""The decisions that fit each kind of request."""
KINDS: dict[RequestKind, str] = {
    "approval": "an approval",
    "permission": "a permission",
    "escalation": "an escalation",
    "task": "a task",
}
"""Each kind of request with its article, for error texts."""


HELD: dict[str, type] = {"note": str, "text": str, "receiver": str, "arguments": dict}
"""What the fields of decisions hold."""


def decision_fault(decision: Decision) -> str:
    """Why a decision could not be read back, if it could not: records do not check what they are made with."""
    for name, given in asdict(decision).items():
        if not isinstance(given, HELD[name]) and not (name == "arguments" and given is None):
            wanted, kind = HELD[name].__name__, type(decision).__name__
            return f"{kind}({name}=…) must be a {wanted}, not {type(given).__name__}"
    return ""


def verdict_words(decision: Decision) -> str:
    """A decision in one word, as lists show it."""
    match decision:
        case Approve():
            return "approved"
        case Reject():
            return "rejected"
        case Edit():
            return "edited"
        case Respond():
            return "responded"
        case _:
            assert_never(decision)
