"""What came of a conversation: the chain, drawn; what it took; where it is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from changeover.cli.demo.page import Page
from changeover.cli.terminal.prompt import listed
from changeover.facts import HandoffRecord, Mode
from changeover.observe.drawing import declined
from changeover.relay.events import ApprovalRequested, ModelReplied, ToolFinished
from changeover.relay.stream import Recorded

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
