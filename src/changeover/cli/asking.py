"""Asking a person at the terminal: yes, no, otherwise, or later; whatever fits what is asked."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.text import Text

from changeover.cli.exits import tell
from changeover.cli.terminal.prompt import request_words
from changeover.facts import ApprovalRequest, RequestKind
from changeover.guards.approval import Approve, Decision, Edit, Reject, Respond

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
