"""Approval requests in words, the commands that decide them, and the prompt that asks a person."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from changeover.cli.exits import one_line
from changeover.cli.terminal.page import Page
from changeover.facts import ApprovalRequest, RequestKind
from changeover.guards.approval import KINDS, POSSIBLE, Approve, Decision, Edit, Reject, Respond


class Asked(Protocol):
    """A request: pending, recorded or listed."""

    @property
    def kind(self) -> Any: ...
    @property
    def agent(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def arguments(self) -> dict[str, Any]: ...
    @property
    def receiver(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def roles(self) -> Sequence[str]: ...


OPERANDS = {
    "approve": (),
    "edit": ("JSON",),
    "answer": ("TEXT",),
    "route": ("RECEIVER",),
    "reject": ("--note", "TEXT"),
}
"""The subcommands of `approvals` that decide, and the words that follow the id in each."""
USUAL = ("approve", "reject")
"""The subcommands suggested for an approval; it could also be edited, answered or routed."""


def call_arguments(values: Mapping[str, Any]) -> str:
    """Arguments as they are written in a call."""
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())


def request_words(request: Asked) -> str:
    """A request in one line: the agent that asks, the matter, and the roles that may decide."""
    sender, receiver = request.agent, request.receiver
    leads = {
        "approval": f"{sender} wants ",
        "escalation": f"no agent takes this{f' from {sender}' if sender else ''}: ",
        "task": f"{sender} asks {receiver}: " if sender else f"{receiver} is asked: ",
    }
    roles = f" (for {' or '.join(request.roles)} to decide)" if request.roles else ""
    return one_line(f"{leads.get(request.kind, '')}{matter_words(request)}{roles}")


def matter_words(request: Asked) -> str:
    """The matter of a request in one line, for a list that shows agent and kind beside it."""
    values, receiver, message = request.arguments, request.receiver, request.message
    about = f": {message}" if message and receiver else ""
    match request.kind:
        case "permission":
            matter = f"{receiver} needs permission for {', '.join(values['permission'])}{about}"
        case "escalation":
            declined = f"declined by {', '.join(values['declined'])}" if "declined" in values else ""
            matter = f"{declined or f'a task of {receiver}'} ({values['reason']}){about}"
        case "task":
            matter = f"{message}{f' ({call_arguments(values)})' if values else ''}"
        case _:
            call = f"{request.tool}({call_arguments(values)})" if request.tool else "a handoff"
            said = f"{message}: " if message and not receiver else ""  # the declared summary
            matter = f"{said}{call}{f' to {receiver}' if receiver else ''}{about}"
    return one_line(matter)


def kind_words(request: Asked) -> str:
    """The kind of a request; for a task, the person too."""
    return f"task for {request.receiver}" if request.kind == "task" else str(request.kind)


def fitting_verbs(request: Asked) -> list[str]:
    """The subcommands that can decide this request."""
    possible = POSSIBLE[request.kind]
    fits = {
        "approve": Approve in possible,
        "edit": request.kind == "approval",
        "answer": Respond in possible,
        "route": Edit in possible and bool(request.receiver),
        "reject": Reject in possible,
    }
    return [verb for verb in OPERANDS if fits[verb]]


def verb_fault(request: Asked, verb: str) -> str:
    """Why this subcommand cannot decide this request, and which ones can; empty if it can."""
    if verb in (fitting := fitting_verbs(request)):
        return ""
    *others, last = (" ".join((each, "ID", *OPERANDS[each])) for each in fitting)
    return f"{verb} does not fit {KINDS[request.kind]}; use {', '.join(others)} or {last}"


CHOICES: dict[RequestKind, tuple[str, ...]] = {
    "approval": ("y(es)", "n(o)", "e(dit)", "r(espond)"),
    "permission": ("y(es)", "n(o)"),
    "escalation": ("h(and over)", "r(espond)", "n(o)"),
    "task": ("r(espond)", "h(and on)", "n(o)"),
}
"""The answers that can be typed; the first letter is enough."""


def user_name() -> str:
    """The login name of the user; empty if there is none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""  # a container may run under a user id without a name


class Prompt:
    """Asks the person at the terminal about requests."""

    def __init__(self, page: Page, members: Iterable[str] = ()) -> None:
        self._page, self._is_terminal = page, sys.stdin.isatty()
        self._members = [one_line(member) for member in members]

    def ask(self, request: ApprovalRequest) -> Decision | None:
        """The person's decision about the request on the page; None if it is left for later. Raises EOFError."""
        choices = CHOICES[request.kind]
        letters = {choice[0] for choice in choices}
        while (answer := self._typed(f"{', '.join(choices)}, Enter for later").lower()[:1]) != "":
            if answer in letters and (decision := self._decision(answer, request)) is not None:
                return decision
        return None

    def _decision(self, answer: str, request: ApprovalRequest) -> Decision | None:
        match answer:
            case "y":
                return Approve()
            case "n":
                return Reject(self._typed("note for the agent (may be empty)"))
            case "e":
                return self._edit(request)
            case "r":
                return Respond(self._typed("the result, in your words"))
            case "h":
                receiver = self._typed(f"to whom ({', '.join(self._members)})")
                return Edit(receiver=receiver) if receiver else None
            case _:
                return None

    def _edit(self, request: ApprovalRequest) -> Edit | None:
        receiver = self._typed(f"receiver [{request.receiver}]") if request.receiver else ""
        shown = json.dumps(request.arguments, ensure_ascii=False)
        if not (typed := self._typed(f"arguments as JSON [{shown}]")):
            return Edit(receiver=receiver)
        if (arguments := json_object(typed)) is None:
            self._page.line(f"expected a JSON object, such as {one_line(shown)}")
            return None
        return Edit(arguments=arguments, receiver=receiver)

    def _typed(self, question: str) -> str:
        return self._page.prompt(f"{one_line(question)}: ", self._is_terminal)


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is; None if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
