"""Approval requests in words, the commands that decide them, and the prompt that asks a person."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from changeover.cli.exits import tell
from changeover.cli.terminal.render import line_of
from changeover.facts import ApprovalRequest, RequestKind
from changeover.guards.approval import Approve, Decision, Edit, Reject, Respond
from changeover.relay.perform.approvals import KINDS, POSSIBLE


class Asked(Protocol):
    """A request, as it is awaited, recorded or listed."""

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


VERBS: dict[type[Decision], str] = {Approve: "approve", Respond: "answer", Edit: "route", Reject: "reject"}
"""The command for each decision. Arguments are changed in a chat, where they can be seen."""
MORE = {"approve": (), "answer": ("TEXT",), "route": ("RECEIVER",), "reject": ("--note", "TEXT")}
"""What follows the id in each."""
USUAL = ("approve", "reject")
"""What is recommended for an approval; that it can be answered or sent elsewhere need not be read each time."""


def listed(values: Mapping[str, Any]) -> str:
    """Arguments as they would stand in a call."""
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())


def request_words(request: Asked) -> str:
    """What a person is asked, on one line."""
    who, to, what = request.agent, request.receiver, what_words(request)
    lead = {
        "approval": f"{who} wants ",
        "escalation": f"nobody takes this{f' from {who}' if who else ''}: ",
        "task": f"{who} asks {to}: " if who else f"{to} is asked: ",
    }
    takes = f" (for {' or '.join(request.roles)} to decide)" if request.roles else ""
    return f"{lead.get(request.kind, '')}{what}{takes}"


def what_words(request: Asked) -> str:
    """The matter alone, for a list that has its agent and its kind beside it."""
    values, to, message = request.arguments, request.receiver, request.message
    about = f": {message}" if message and to else ""
    match request.kind:
        case "permission":
            what = f"{to} needs permission for {', '.join(values['permission'])}{about}"
        case "escalation":
            whose = f"declined by {', '.join(values['declined'])}" if "declined" in values else f"a task of {to}"
            what = f"{whose} ({values['reason']}){about}"
        case "task":
            what = f"{message}{f' ({listed(values)})' if values else ''}"
        case _:
            asked = f"{request.tool}({listed(values)})" if request.tool else "a handoff"
            what = f"{asked}{f' to {to}' if to else ''}{about}"
    return line_of(what)


def kind_words(request: Asked) -> str:
    """What kind of request it is, and for whom, if not for anybody who may decide."""
    return f"task for {request.receiver}" if request.kind == "task" else str(request.kind)


def fitting(request: Asked) -> list[str]:
    """The commands that decide about it."""
    verbs = [VERBS[decision] for decision in VERBS if decision in POSSIBLE[request.kind]]
    return verbs if request.receiver else [verb for verb in verbs if verb != "route"]


def misfit(request: Asked, verb: str) -> str:
    """What fits instead of this command, if it does not fit; nothing if it does."""
    if verb in (fits := fitting(request)):
        return ""
    *others, last = (" ".join((each, "ID", *MORE[each])) for each in fits)
    return f"{verb} does not fit {KINDS[request.kind]}; what fits is: {', '.join(others)} or {last}"


CHOICES: dict[RequestKind, tuple[str, ...]] = {
    "approval": ("y(es)", "n(o)", "e(dit)", "r(espond)"),
    "permission": ("y(es)", "n(o)"),
    "escalation": ("h(and to somebody)", "r(espond)", "n(o)"),
    "task": ("r(espond)", "h(and on)", "n(o)"),
}
"""What can be typed; its first letter is enough."""


def user_name() -> str:
    """Who sits here, as the machine knows them."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""  # a container may run under a number that has no name


class Asker:
    """Asks until there is a decision, or it is left for later."""

    def __init__(self, out: Console, members: Iterable[str] = ()) -> None:
        self._out, self.name = out, user_name()
        self._members = list(members)

    def ask(self, request: ApprovalRequest) -> Decision | None:
        """What was decided; None for later."""
        self._out.print(Text(f"  {request_words(request)}", "yellow"), soft_wrap=True)
        choices = CHOICES[request.kind]
        letters = {choice[0] for choice in choices}
        while (answer := input(f"  {', '.join(choices)}, Enter for later: ").strip().lower()[:1]) != "":
            if answer in letters and (decision := self._decision(answer, request)) is not None:
                return decision
        return None

    def _decision(self, answer: str, request: ApprovalRequest) -> Decision | None:
        match answer:
            case "y":
                return Approve()
            case "n":
                return Reject(input("  note for the agent (may be empty): ").strip())
            case "e":
                return self._edit(request)
            case "r":
                return Respond(input("  the result, in your words: "))
            case "h":
                return self._hand_to()
            case _:
                return None

    def _hand_to(self) -> Edit | None:
        receiver = input(f"  to whom ({', '.join(self._members)}): ").strip()
        return Edit(receiver=receiver) if receiver else None

    def _edit(self, request: ApprovalRequest) -> Edit | None:
        receiver = input(f"  receiver [{request.receiver}]: ").strip() if request.receiver else ""
        shown = json.dumps(request.arguments, ensure_ascii=False)
        typed = input(f"  arguments as JSON [{shown}]: ").strip()
        arguments = _object(typed) if typed else None
        if typed and arguments is None:
            tell("  expected a JSON object, such as " + shown)
            return None
        return Edit(arguments=arguments, receiver=receiver)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
