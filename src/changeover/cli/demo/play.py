"""`demo` and `demo --chat`: the scripted conversation with its chain of handoffs and totals, and one that is typed."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from rich.text import Text

from changeover.cli.chat import YOU, Chat, chat_session
from changeover.cli.demo.desk import CUSTOMER, MEMBERS, MESSAGES, desk, judge, line
from changeover.cli.exits import console
from changeover.cli.options import store_url
from changeover.cli.terminal.page import Page
from changeover.cli.terminal.prompt import call_arguments
from changeover.cli.terminal.session import Items, Session
from changeover.cli.terminal.transcript import Transcript
from changeover.facts import HandoffRecord, Mode
from changeover.ids import is_root
from changeover.models.offline import OfflineModel
from changeover.observe.drawing.course import declined
from changeover.relay.events import ApprovalRequested, HandoffOffered, HandoffReturned, ModelReplied, ToolFinished
from changeover.relay.stream import Recorded, StreamItem, TextDelta
from changeover.testing import ScriptedModel

STEP = 5
"""The indentation of each agent in the chain of handoffs."""
PAUSES = {HandoffOffered: 0.35, HandoffReturned: 0.25, ToolFinished: 0.25, ApprovalRequested: 0.9}
"""Seconds after an event, for readers; other events need none."""
WORD, MESSAGE = 0.016, 0.5
"""Seconds after a word, and after a message of the customer."""
TITLE = "Changeover: five agents of a support desk hand over to one another"
SCRIPTED = (
    "Scripted: every reply was written beforehand, so this needs no model, no key and no network. "
    "The team, its tools, its handoffs and its log are real."
)
CHAT_TITLE = "Changeover: talk with a support desk of five agents"
OFFLINE = (
    "Offline: no model, no key, no network. Your words are matched against the descriptions of agents and tools. The "
    "team, its handoffs and its log are real."
)
EXAMPLES = (
    "Please refund the second payment of order 1042",
    "Please refund 112 EUR for order 1077",
    "The app shows error E42",
    "Compare the Basic plan with the Team plan",
)


def play_desk(store: str | None = None, pace: float | None = None) -> None:
    """Play the scripted conversation on standard output."""
    out, url = console(), store_url(store) if store else None
    pace = (1.0 if out.is_terminal else 0.0) if pace is None else pace
    page = Page(out, [CUSTOMER, *(member.id for member in MEMBERS)])
    page.is_animated = False  # nothing takes long but the pauses for readers
    page.title(TITLE, SCRIPTED)
    team = desk(ScriptedModel(line), url)
    with Session(team, Transcript(page, team.roster), "demo", judge, YOU) as session:
        session.paced = lambda items: _paced(items, pace)
        session.id = next(id for id in _ids() if not session.past(id))
        for message in MESSAGES:
            page.speaker(CUSTOMER)
            page.write(message)
            session.send(message)
        show_summary(page, session.handoffs(), session.past())
        page.entry("log", f"{len(session.past())} events; all of the above is read from them")
    show_next(page, store, session.id, "demo")


def chat_with_desk(store: str | None = None) -> None:
    """Talk with the desk; a conversation in the same store is continued."""
    team = desk(OfflineModel(notice=False), store_url(store) if store else None)
    with chat_session(team, "chat", []) as session:
        page = session.transcript.page
        page.title(CHAT_TITLE, OFFLINE)
        page.gap()
        if session.past():
            page.line("The conversation in this store continues.", margin=0)
        else:
            page.line("For example, order 1042 was paid twice. You could type:", margin=0)
            for example in EXAMPLES:
                page.line(Text(example, "italic"), margin=2)
            page.line("Refunds by billing need your approval. /help lists what else can be typed.", margin=0)
        Chat(team, session, lambda result: ()).talk()
    if store and session.begun:
        page.gap()
        page.line("The conversation is kept. To continue it, or to draw its handoffs:", margin=0)
        page.verbatim(f"{program()} demo --chat --store {shlex.quote(store)}")
        page.verbatim(f"{program()} graph chat --store {shlex.quote(store)}")


def show_next(page: Page, store: str | None, conversation: str, command: str) -> None:
    """Write the commands to try next; `command` is the one that was called."""
    page.rule("what to try next")
    kept = shlex.quote(store or "desk.db")
    if store is None:
        page.line("To keep the log of a demo, and to read it:", margin=0)
        page.verbatim(f"{program()} {command} --store {kept}")
    for reader in ("conversations", "handoffs", f"graph {conversation}"):
        page.verbatim(f"{program()} {reader} --store {kept}")
    page.gap()
    page.line("To talk with the desk yourself, to kill it in the middle, to make a team of your own:", margin=0)
    for other in ("demo --chat", "demo --crash", "init shop"):
        page.verbatim(f"{program()} {other}")


def program() -> str:
    """The command that starts this program from the current folder."""
    if shutil.which("changeover"):
        return "changeover"
    called = Path(sys.argv[0]).absolute()
    if called.name != "changeover":
        return f"{shlex.quote(sys.executable)} -m changeover"
    here = Path.cwd()
    return shlex.quote(str(called.relative_to(here) if called.is_relative_to(here) else called))


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


async def _paced(items: Items, pace: float) -> Items:
    """The same stream, slowly enough to read along."""
    if pace:
        await asyncio.sleep(MESSAGE * pace)
    async for item in items:
        yield item
        if pace and (seconds := _pause(item)):
            await asyncio.sleep(seconds * pace)


def _pause(item: StreamItem) -> float:
    if isinstance(item, TextDelta):
        return WORD if is_root(item.conversation) else 0.0
    return PAUSES.get(type(item.event), 0.0) if isinstance(item, Recorded) else 0.0


def _ids() -> Iterator[str]:
    """Ids for the conversation: a store that the user gave may have earlier ones."""
    yield "demo"
    yield from (f"demo-{number}" for number in count(2))


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
    delegates = sum(each.mode is Mode.DELEGATE for each in made)
    replies = [each.event for each in past if isinstance(each.event, ModelReplied)]
    tools = sum(isinstance(each.event, ToolFinished) for each in past)
    asked = Counter(each.event.kind for each in past if isinstance(each.event, ApprovalRequested))
    parts = [
        f"{_counted(len(made), 'handoff')} ({delegates} to delegates)",
        f"{len(handoffs) - len(made)} declined",
        _counted(len(replies), "model turn"),
        _counted(tools, "tool call"),
        *(_counted(number, kind) for kind, number in asked.items()),
        f"{past[-1].at - past[0].at:.1f} s",
    ]
    return ", ".join(parts)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
