"""`demo`: the scripted conversation, then the chain of handoffs and the totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count

from rich.text import Text

from changeover.cli.demo.desk import CUSTOMER, MEMBERS, MESSAGES, desk, line
from changeover.cli.demo.dialogue import Dialogue, wait_forever
from changeover.cli.demo.narration import Narration
from changeover.cli.demo.page import Page, pace_on, program, show_store, store_url
from changeover.cli.terminal.prompt import call_arguments
from changeover.cli.terminal.render import console
from changeover.facts import ApprovalRequest, HandoffRecord, Mode
from changeover.guards.approval import Approve, Decision, Edit
from changeover.ids import is_root
from changeover.observe.diagram import declined
from changeover.relay.events import ApprovalRequested, ModelReplied, ToolFinished
from changeover.relay.stream import Recorded
from changeover.testing import ScriptedModel

STEP = 5
"""The indentation of each agent in the chain of handoffs."""


def show_summary(page: Page, handoffs: Sequence[HandoffRecord], past: Sequence[Recorded]) -> None:
    """Write the chain of handoffs, the delegates, and the totals."""
    page.rule("what happened")
    own = [each for each in handoffs if is_root(each.id)]
    if own:
        page.line(page.name(own[0].sender), margin=0)
    for margin, parts in _steps(page, own):
        page.line(*parts, margin=margin)
    page.gap()
    page.entry("totals", _totals(handoffs, past))


def _steps(page: Page, handoffs: Sequence[HandoffRecord]) -> Iterator[tuple[int, list[Text | str]]]:
    """The lines of a staircase: each transfer leads one step down; delegates stand on the step of their sender."""
    marks, margin = page.marks, 0
    for index, handoff in enumerate(handoffs, 1):
        name = page.name(handoff.receiver)
        mark = f"{marks.bottom if index == len(handoffs) else marks.tee}{marks.dash}"
        if declined(handoff):
            yield margin, [f"{mark} tried ", name, Text(f": {handoff.error}", "dim")]
        elif handoff.mode is Mode.TRANSFER:
            yield margin, [f"{marks.bottom}{marks.arrow} ", name, Text(f"  {call_arguments(handoff.variables)}", "dim")]
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


TITLE = "Changeover: five agents of a support desk hand over to one another"
SCRIPTED = (
    "Scripted: every reply was written beforehand, so this needs no model, no key and no network. "
    "The team, its tools, its handoffs and its log are real."
)


def play_desk(store: str | None = None, pace: float | None = None) -> None:
    """Play the scripted conversation on standard output."""
    out, url = console(), store_url(store)
    page = Page(out, [CUSTOMER, *(member.id for member in MEMBERS)])
    narration = Narration(page, pace_on(out) if pace is None else pace)
    page.title(TITLE, SCRIPTED)

    def judge(request: ApprovalRequest) -> Decision:
        narration.wait(0.5)
        return Edit(receiver="accounts") if request.kind == "escalation" else Approve()

    with Dialogue(desk(ScriptedModel(line), url, wait_forever), narration, judge) as dialogue:
        dialogue.id = next(id for id in _ids() if not dialogue.past(id))
        for message in MESSAGES:
            page.speaker(CUSTOMER)
            page.write(message)
            narration.wait(0.5)
            dialogue.send(message)
        show_summary(page, dialogue.handoffs(), dialogue.past())
        show_store(page, url, dialogue.id, len(dialogue.past()))
    page.gap()
    page.line("To talk with the desk yourself, or to kill it in the middle:", margin=0)
    page.gap()
    page.verbatim(f"{program()} demo --chat")
    page.verbatim(f"{program()} demo --crash")


def _ids() -> Iterator[str]:
    """Ids for the conversation: a store that the user gave may have earlier ones."""
    yield "demo"
    yield from (f"demo-{number}" for number in count(2))
