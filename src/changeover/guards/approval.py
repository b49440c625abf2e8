"""Approvals: which calls wait for a person, and the decisions a person can make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, assert_never

from msgspec import Struct
from msgspec.structs import asdict

from changeover.facts import ApprovalRequest, RequestKind
from changeover.handoffs.callback import arity_faults

OnExpiry = Literal["reject", "approve"]


@dataclass(frozen=True, kw_only=True)
class Approval:
    """A person has to approve a call before it is made (`Team.approvals`, `Team.decide`)."""

    expires: float | None = None
    """After how many seconds `on_expiry` is decided automatically; None for never."""
    on_expiry: OnExpiry = "reject"
    """"reject" or "approve"."""
    when: Callable[..., Any] | None = None
    """`when(ctx, arguments)` is true if this call needs approval; None means every call."""
    roles: Sequence[str] = ()
    """The person who decides must have one of these roles; empty allows any person."""
    summary: str | Callable[..., Any] | None = None
    """The sentence that the person reads first: a text with arguments in braces, such as "Send back {amount} EUR", or a
    function `summary(ctx, arguments)`. None shows the call as it is."""


Approvable = bool | Callable[..., Any] | Approval | None
"""A declaration `approval=…`: True for every call, a function `(ctx, arguments)` that says which, or an Approval."""


def approval_of(declared: Approvable) -> Approval | None:
    """The declaration `approval=…` as an Approval; None if no approval is needed."""
    if isinstance(declared, Approval):
        return declared
    if callable(declared):
        return Approval(when=declared)
    return Approval() if declared else None


def approval_faults(declared: object) -> list[str]:
    """The faults of the declaration `approval=…`, one text each."""
    if not isinstance(declared, Approval):
        fine = declared is None or isinstance(declared, bool) or (callable(declared) and declared is not Approval)
        if not fine:
            return [f"has approval={declared!r}; give True, a function or Approval(…)"]
        return arity_faults("approval", declared, "context", "arguments")
    found = []
    seconds = declared.expires
    if seconds is not None and (not isinstance(seconds, int | float) or seconds is True or not 0 < seconds < inf):
        found.append(f"has an approval that expires={seconds!r}; give seconds above 0, or None for never")
    if declared.on_expiry not in ("reject", "approve"):
        found.append(f"has an approval with on_expiry={declared.on_expiry!r}; give 'reject' or 'approve'")
    if declared.when is not None and not callable(declared.when):
        found.append(f"has an approval with when={declared.when!r}; give a function of the context and the arguments")
    found += arity_faults("an approval with when", declared.when, "context", "arguments")
    found += _summary_faults(declared.summary)
    if not is_names(declared.roles):
        found.append(f"has an approval with roles={declared.roles!r}; give a list of names, such as ['manager']")
    return found


def _summary_faults(summary: object) -> list[str]:
    if callable(summary):
        return arity_faults("an approval with summary", summary, "context", "arguments")
    fine = summary is None or isinstance(summary, str)
    wanted = "give a text, or a function of the context and the arguments"
    return [] if fine else [f"has an approval with summary={summary!r}; {wanted}"]


def is_names(given: object) -> bool:
    """True if this is a list of names, none of them empty."""
    return isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(n, str) and n for n in given)


class Verdict(Struct, frozen=True, omit_defaults=True, gc=False):
    """The base class of decisions."""


class Approve(Verdict, frozen=True, tag="approve"):
    """Allow the call."""


class Reject(Verdict, frozen=True, tag="reject"):
    """Refuse the call; the model reads the `note`."""

    note: str = ""


class Edit(Verdict, frozen=True, tag="edit"):
    """Allow the call with other `arguments` (None keeps them), or with another `receiver` (empty keeps it)."""

    arguments: dict[str, Any] | None = None
    receiver: str = ""


class Respond(Verdict, frozen=True, tag="respond"):
    """Do not make the call; `text` is its result."""

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
"""The types of the fields of decisions."""


def decision_fault(decision: Decision) -> str:
    """A fault of the fields of a decision, which msgspec does not check when a record is made; empty if none."""
    for name, given in asdict(decision).items():
        if not isinstance(given, HELD[name]) and not (name == "arguments" and given is None):
            wanted, kind = HELD[name].__name__, type(decision).__name__
            return f"{kind}({name}=…) must be a {wanted}, not {type(given).__name__}"
    return ""


def verdict_words(decision: Decision) -> str:
    """A decision in one word, for lists."""
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


def unauthorised(request: ApprovalRequest, by: str, roles: Sequence[str]) -> str:
    """Why a person with these roles may not decide; empty if they may."""
    if not request.roles or not set(request.roles).isdisjoint(roles):
        return ""
    has = f"has only {', '.join(roles)}" if roles else "has no role"
    return f"it takes one of the roles {', '.join(request.roles)}, and {by or 'the person who decides'} {has}"
