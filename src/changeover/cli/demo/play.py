"""`demo`: the scripted conversation, then the chain of handoffs and the totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count

from rich.text import Text

from changeover.cli.demo.desk import MEMBERS, MESSAGES, desk, line
from changeover.cli.demo.dialogue import Talk, hold
from changeover.cli.demo.page import Page, pace_on
from changeover.cli.demo.show import Show, program, show_store, store_url
from changeover.cli.terminal.prompt import listed
from changeover.cli.terminal.render import console
from changeover.facts import ApprovalRequest, HandoffRecord, Mode
from changeover.guards.approval import Approve, Decision, Edit
from changeover.observe.drawing import declined
from changeover.relay.events import ApprovalRequested, ModelReplied, ToolFinished
from changeover.relay.stream import Recorded
from changeover.testing import ScriptedModel

STEP = 5
"""How far each agent of the chain stands to the right of the one before."""


def show_summary(page: Page, handoffs: Sequence[HandoffRecord], past: Sequence[Recorded]) -> None:
    """Who came after whom, who was asked by whom, and what it took."""
    page.rule("what happened")
    own = [each for each in handoffs if "/" not in each.id]
    if own:
        page.line(page.name(own[0].sender), margin=0)
    for margin, parts in _steps(page, own):
        page.line(*parts, margin=margin)
    page.gap()
    page.entry("totals", _totals(handoffs, past))


def _steps(page: Page, handoffs: Sequence[HandoffRecord]) -> Iterator[tuple[int, list[Text | str]]]:
    """A staircase: each transfer leads one step down, and whoever was only asked stands on the step of the asker."""
    marks, margin = page.marks, 0
    for index, handoff in enumerate(handoffs, 1):
        name = page.name(handoff.receiver)
        mark = f"{marks.bottom if index == len(handoffs) else marks.tee}{marks.dash}"
        if declined(handoff):
            yield margin, [f"{mark} tried ", name, Text(f": {handoff.error}", "dim")]
        elif handoff.mode is Mode.TRANSFER:
            yield margin, [f"{marks.bottom}{marks.arrow} ", name, Text(f"  {listed(handoff.variables)}", "dim")]
            margin += STEP
        else:
            yield margin, [f"{mark} asked ", name, Text(f": {handoff.message}", "dim")]


def _totals(handoffs: Sequence[HandoffRecord], past: Sequence[Recorded]) -> str:
    made = [each for each in handoffs if not declined(each)]
    transfers = sum(each.mode is Mode.TRANSFER for each in made)
    replies = [each.event for each in past if isinstance(each.event, ModelReplied)]
    tools = sum(isinstance(each.event, ToolFinished) for each in past)
    asked = Counter(each.event.kind for each in past if isinstance(each.event, ApprovalRequested))
    tokens = sum(reply.usage.total_tokens for reply in replies if reply.usage)
    parts = [
        _counted(transfers, "handoff"),
        *([f"{len(handoffs) - len(made)} declined"] if len(handoffs) > len(made) else []),
        _counted(len(made) - transfers, "delegate"),
        _counted(len(replies), "model turn"),
        _counted(tools, "tool call"),
        *(_counted(number, kind) for kind, number in asked.items()),
        *([f"{tokens} tokens"] if tokens else []),
        f"{past[-1].at - past[0].at:.1f} s",
    ]
    return ", ".join(parts)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


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
