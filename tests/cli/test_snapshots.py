"""Terminal output as SVG pictures, which people have looked at: tests/cli/snapshots.

CHANGEOVER_SNAPSHOTS=write makes them anew; look at them before you commit them.
"""

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.main import get_command

from changeover import Agent, Team, Variable, delegate, handoff, tool
from changeover.cli import exits
from changeover.cli.commands import app
from changeover.cli.terminal.page import Page
from changeover.cli.terminal.session import Session
from changeover.cli.terminal.transcript import Transcript
from changeover.events import ApprovalDecided
from changeover.facts import ApprovalRequest
from changeover.guards.approval import Approve, Decision, Reject
from changeover.protocol import Rejected
from changeover.stream import Recorded
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says

PICTURES = Path(__file__).with_name("snapshots")
LIST = """There are three ways to get your money:

- to your card, which takes up to three days, or a little longer if there is a bank holiday in between
- as a voucher
- in cash, from:

      Main Street 1

Tell me which one you like: “可以用人民币付款吗” is fine, too."""


@tool(read_only=True)
def payments(order_id: str) -> str:
    """Look up the payments."""
    return "pay_71 24.95 EUR at 09:14, pay_72 24.95 EUR at 09:16"


@tool(read_only=True)
def broken(order_id: str) -> str:
    """Fail."""
    raise RuntimeError("the line is dead")


@tool(approval=True)
def refund(payment_id: str, amount: float) -> str:
    """Send money back."""
    return f"{amount:.2f} EUR of {payment_id} sent back"


SCRIPT = {
    "triage": [hands_off("billing", "Sorry about that! Billing can help.", order_id="1042", amount=24.95)],
    "billing": [
        calls(("payments", {"order_id": "1042"}), text="I look at your payments."),
        calls(("broken", {"order_id": "1042"})),
        delegates("research", "What do our terms say about paying twice?"),
        calls(("refund", {"payment_id": "pay_72", "amount": 24.95}), text="A refund needs a person's yes."),
        hands_off("small", "Who answers the rest?"),
    ],
    "research": [says("Terms 7.2: it goes back within three days.")],
    "closing": [says(LIST)],
}


def team() -> Team:
    variables = [Variable("order_id"), Variable("amount", type="number")]
    members = [
        Agent("triage", handoffs=[handoff("billing", variables=variables)]),
        Agent(
            "billing",
            tools=[payments, broken, refund],
            handoffs=[handoff("small", alternatives=["closing"]), delegate("research")],
        ),
        Agent("research", handoffs=()),
        Agent("small", accepts=lambda package: Rejected("it may decide about 10 EUR at most"), handoffs=()),
        Agent("closing", handoffs=()),
    ]
    return Team(members, model=ScriptedModel(SCRIPT))


def recorded(columns: int) -> Console:
    """A terminal of this width that remembers what was written on it."""
    return Console(
        record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="standard", highlight=False
    )


def conversation(columns: int) -> Console:
    out, members = recorded(columns), team()

    def judge(request: ApprovalRequest) -> Decision:
        return Approve()

    page = Page(out, ["you", *members.roster.seats])
    page.is_animated = False
    with Session(members, Transcript(page, members.roster), "c", judge, "ada") as session:
        page.speaker("you")
        page.write("I was charged 24.95 EUR twice for order 1042. Can I have one payment back?")
        session.send("I was charged twice")
    return out


@pytest.mark.parametrize(
    ("by", "expired", "words"),
    [("ana", False, "by ana"), ("", False, "by an unnamed person"), ("", True, "at its deadline")],
)
def test_a_decision_is_shown_with_the_person_who_made_it_or_with_its_deadline(by: str, expired: bool, words: str):
    out, roster = recorded(80), team().roster
    decided = ApprovalDecided("3.0", "", Reject("too much"), by, expired)
    Transcript(Page(out, ["you"]), roster).item(Recorded(1, 0.0, "c", "billing", decided, 4))
    assert f"rejected {words}: too much" in out.export_text()


def assert_picture(name: str, out: Console) -> None:
    drawn = out.export_svg(title=name, unique_id=name)
    file = PICTURES / f"{name}.svg"
    if os.environ.get("CHANGEOVER_SNAPSHOTS") == "write":
        file.write_text(drawn)
    assert drawn == file.read_text(), f"{name} looks different; see the head of this file"


@pytest.mark.parametrize("columns", [80, 120])
def test_a_conversation_looks_as_it_did(columns: int):
    assert_picture(f"conversation-{columns}", conversation(columns))


def help_of(words: Sequence[str], out: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Print the help of a command on this console."""
    shown: Callable[..., Console] = lambda error=False: out  # noqa: E731
    monkeypatch.setattr("changeover.cli.terminal.help.console", shown)
    with pytest.raises(SystemExit) as exited:
        app(words, prog_name="changeover")
    assert exited.value.code == 0


@pytest.mark.parametrize("name", ["help", "help-run", "help-handoffs", "help-tools"])
def test_help_looks_as_it_did(name: str, monkeypatch: pytest.MonkeyPatch):
    out = recorded(80)
    help_of([*name.split("-")[1:], "-h"], out, monkeypatch)
    assert_picture(name, out)


def every_command(group: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The words of a group, of its groups and of all their commands."""
    yield path
    for name, each in getattr(group, "commands", {}).items():
        yield from every_command(each, *path, name)


@pytest.mark.parametrize(
    "words", list(every_command(get_command(app))), ids=lambda words: " ".join(words) or "changeover"
)
def test_help_fits_eighty_columns_and_cuts_nothing(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    short, long = io.StringIO(), io.StringIO()
    help_of([*words, "-h"], Console(width=80, file=short), monkeypatch)
    help_of([*words, "--help"], Console(width=80, file=long), monkeypatch)
    shown = short.getvalue()
    assert shown == long.getvalue()
    assert shown.startswith(f"Usage: {' '.join(('changeover', *words))} ")
    assert [line for line in shown.splitlines() if len(line.rstrip()) > 80] == []
    assert re.search(r"<\w+>|…", shown) is None
    assert exits.clean(shown) == shown
