"""What people are asked: in words, for whom, and which commands fit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from changeover.cli.terminal.render import line_of
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
