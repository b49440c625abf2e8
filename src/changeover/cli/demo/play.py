"""The played demo: a customer, five agents and a script, on a store that stays."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from changeover.cli.demo.desk import MEMBERS, desk
from changeover.cli.demo.dialogue import Talk, hold
from changeover.cli.demo.page import Page, pace_on
from changeover.cli.demo.show import Show
from changeover.cli.demo_script import MESSAGES, line
from changeover.cli.demo_store import program, show_store, store_url
from changeover.cli.demo_summary import show_summary
from changeover.cli.terminal.render import console
from changeover.facts import ApprovalRequest
from changeover.guards.approval import Approve, Decision, Edit
from changeover.testing import ScriptedModel

CUSTOMER = "customer"
TITLE = "Changeover: five agents of a support desk hand a customer on"
SCRIPTED = (
    "Scripted: every reply was written beforehand, so this needs no model, no key and no network. "
    "The team, its tools, its handoffs and its log are the real ones."
)


def play(pace: float | None = None, store: str | None = None) -> None:
    """Play the conversation on standard output; unless told otherwise, at a pace to read along on a terminal."""
    out, url = console(), store_url(store)
    page = Page(out, [CUSTOMER, *(member.id for member in MEMBERS)])
    show = Show(page, pace_on(out) if pace is None else pace)
    page.title(TITLE, SCRIPTED)

    def judge(request: ApprovalRequest) -> Decision:
        show.wait(0.5)
        return Edit(receiver="accounts") if request.kind == "escalation" else Approve()

    with Talk(desk(ScriptedModel(line), url, hold), show, judge) as talk:
        talk.id = next(id for id in _names() if not talk.past(id))
        for message in MESSAGES:
            page.speaker(CUSTOMER)
            page.write(message)
            show.wait(0.5)
            talk.say(message)
        show_summary(page, talk.handoffs(), talk.past())
        show_store(page, url, talk.id, len(talk.past()))
    page.gap()
    page.line("To type yourself, or to kill it in the middle:", margin=0)
    page.gap()
    page.verbatim(f"{program()} demo --chat")
    page.verbatim(f"{program()} demo --crash")


def _names() -> Iterator[str]:
    """Ids for the conversation: a store that was chosen may hold those of former times."""
    yield "demo"
    yield from (f"demo-{number}" for number in count(2))
