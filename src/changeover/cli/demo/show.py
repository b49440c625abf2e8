"""Show: the events of the demo written on a page, and where its log is stored."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from rich.text import Text

from changeover.cli.demo.page import Page
from changeover.cli.terminal.prompt import listed, request_words
from changeover.cli.terminal.render import clean, line_of
from changeover.cli.terminal.transcript import answer_words, next_offer
from changeover.facts import Mode
from changeover.guards.approval import Edit, Reject, Respond, verdict_words
from changeover.messages import Call
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallRefused,
    FunctionReturned,
    HandoffAccepted,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    ModelReplied,
    RunStarted,
    ToolFinished,
)
from changeover.relay.stream import Recorded, StreamItem, TextDelta

SHORT = 500
"""Of a long result, so much is shown; the log has all of it."""
FIELD = 12
ANSWERS: dict[type, str] = {
    HandoffRejected: "REJECTED",
    HandoffConditional: "CONDITION",
    HandoffExpired: "TIMEOUT",
}
STILL = "still answers: a message goes to the active agent"


class Show:
    """Shows what a stream or a log tells; above pace 0 slowly enough to read along."""

    def __init__(self, page: Page, pace: float = 0.0) -> None:
        self.page, self._pace = page, pace
        self._calls: dict[str, Call] = {}
        self._said = ""
        self._active, self._still = "", STILL
        self._asked: set[str] = set()
        """The handoffs to delegates that are not back yet."""
        self.seq = 0
        """Of the last event that was shown."""

    def item(self, item: StreamItem) -> None:
        """Show what a stream gives."""
        if isinstance(item, Recorded):
            self.event(item)
        # Of what delegates say while they work at once, only what they come back with is shown.
        elif isinstance(item, TextDelta) and "/" not in item.conversation:
            text = clean(item.text)
            self.page.write(text)
            self._said += text
            self.wait(0.016)

    def event(self, recorded: Recorded) -> None:
        """Show what was recorded, if a newcomer should see it."""
        self._know(recorded)
        at = recorded.conversation
        match recorded.event:
            case FunctionReturned(text=""):
                self.page.line(Text("plain Python: a rule says who works next", "dim"))
            case ModelReplied(text=text) | FunctionReturned(text=text):
                self._reply(at, clean(text))
            case ToolFinished(call=id, text=text):
                self._tool(at, recorded.agent, self._calls[f"{at}:{id}"], line_of(text)[:SHORT])
            case CallRefused(call=id, reason=reason):
                self._tool(at, recorded.agent, self._calls[f"{at}:{id}"], f"refused: {line_of(reason)[:SHORT]}")
            case event:
                self._passing(at, event)

    def recall(self, past: Iterable[Recorded]) -> str:
        """Know what was recorded before, without showing it; who is active by then."""
        for each in past:
            self._know(each)
            match each.event:
                case RunStarted(agent=agent) | HandoffAccepted(receiver=agent, mode=Mode.TRANSFER):
                    self._active = agent if "/" not in each.conversation else self._active
                case _:
                    pass
        return self._active

    def called(self, conversation: str, id: str) -> str:
        """The name of what a call that was shown calls."""
        return self._calls[f"{conversation}:{id}"].name

    def wait(self, seconds: float) -> None:
        """Let the reader follow."""
        if self._pace:
            time.sleep(seconds * self._pace)

    def _know(self, recorded: Recorded) -> None:
        self.seq = max(self.seq, recorded.seq)
        if isinstance(recorded.event, ModelReplied):
            # The log names a call by its place: the position of the reply, and its number there.
            at = f"{recorded.conversation}:{recorded.position}"
            self._calls |= {f"{at}.{index}": call for index, call in enumerate(recorded.event.calls)}

    def _passing(self, at: str, event: object) -> None:
        """The events by which work passes from one to another."""
        match event:
            case RunStarted(agent=agent) if "/" not in at:
                self._turn_to(agent, self._still if self._active else "answers now")
            case HandoffAccepted(receiver=receiver, mode=Mode.TRANSFER):
                self._turn_to(receiver, "answers now")
            case HandoffOffered(mode=Mode.DELEGATE) as offer:
                self._ask(at, offer)
            case HandoffOffered() as offer:
                self._handoff(offer)
            case HandoffRejected() | HandoffConditional() | HandoffExpired() as answer:
                self._declined(at, answer)
            case HandoffReturned() as back:
                self._answer(at, back)
            case _:
                self._people(event)

    def _people(self, event: object) -> None:
        """The events by which a person has a say."""
        match event:
            case ApprovalRequested() as request:
                self._request(request)
            case ApprovalDecided() as decided:
                self._decided(decided)
            case _:
                pass  # of the rest the page shows nothing

    def _reply(self, at: str, text: str) -> None:
        # Whoever reads a log, and no stream, gets texts whole.
        if "/" not in at and text and not self._said.endswith(text):
            self.page.write(text)
            self._said = text

    def _turn_to(self, agent: str, note: str) -> None:
        if note == STILL:
            self._still = "still answers"  # once is enough to explain it
        self._active, self._said = agent, ""
        self._asked.clear()
        self.page.speaker(agent)
        self.page.line(Text(note, "dim"))

    def _tool(self, at: str, agent: str, call: Call, text: str) -> None:
        who: list[Text | str] = [self.page.name(agent), ": "] if "/" in at else []
        self._nested(at, "", *who, Text(f"{call.name}({listed(call.args)})", "bold"))
        self._nested(at, f"{self.page.marks.elbow} ", Text(text, "dim"))
        self.wait(0.25)

    def _nested(self, at: str, mark: str, *parts: Text | str) -> None:
        """A line that stands as deep as its conversation."""
        bars, below = f"{self.page.marks.bar} " * at.count("/"), " " * len(mark)
        if mark.startswith(self.page.marks.top):
            below = below.replace(" ", self.page.marks.bar, 1)
        self.page.line(*parts, lead=Text(bars + mark, "dim"), more=Text(bars + below, "dim"))

    def _ask(self, at: str, offer: HandoffOffered) -> None:
        if not self._asked:
            self.page.gap()
        self._asked = (self._asked - {offer.retry_of}) | {f"{at}:{offer.call}"}
        name = self.page.name(offer.receiver)
        self._nested(at, f"{self.page.marks.top} ", "asks ", name, f": {_one(offer.message)}")
        self.wait(0.25)

    def _answer(self, at: str, back: HandoffReturned) -> None:
        said = f" answers: {_one(back.response or back.error)}"
        self._nested(at, f"{self.page.marks.bottom} ", self.page.name(back.receiver), said)
        self._back(f"{at}:{back.call}")

    def _back(self, handoff: str) -> None:
        self._asked.discard(handoff)
        if not self._asked:
            self.page.gap()
        self.wait(0.25)

    def _handoff(self, offer: HandoffOffered) -> None:
        page = self.page
        again = Text(f"  try {offer.attempt}", "dim") if next_offer(offer) else ""
        page.label("HANDOFF", page.name(offer.sender), f" {page.marks.arrow} ", page.name(offer.receiver), again)
        if again:  # whatever it says was read with the first offer
            self.wait(0.35)
            return
        # A declared handoff takes the text beside the call as its message, and that is on the page already.
        said = _one(offer.message)
        if said and not line_of(self._said).endswith(said):
            self._field("message", said)
        for name, value in offer.variables.items():
            self._field(name, json.dumps(value, ensure_ascii=False))
        self.wait(0.35)

    def _field(self, name: str, text: str) -> None:
        self.page.line(text, lead=Text(f"{name:<{FIELD}}", "yellow"), more=" " * FIELD)

    def _declined(self, at: str, answer: HandoffRejected | HandoffConditional | HandoffExpired) -> None:
        if (handoff := f"{at}:{answer.call}") not in self._asked:
            self.page.label(ANSWERS[type(answer)], answer_words(answer), colour="white on red")
            self.wait(0.45)
            return
        self._nested(at, f"{self.page.marks.bar} ", Text(answer_words(answer), "red"))
        if isinstance(answer, HandoffExpired):
            self._back(handoff)

    def _request(self, request: ApprovalRequested) -> None:
        name = self.page.name(request.agent)
        match request.kind:
            case "approval":
                call = Text(f"{request.tool}({listed(request.arguments)})", "bold")
                self.page.label("APPROVAL", name, " wants ", call)
            case "escalation":
                self.page.label("ESCALATION", "nobody takes this from ", name, ", so a person decides who does")
            case kind:
                self.page.label(kind.upper(), request_words(request))
        self.wait(0.45)

    def _decided(self, decided: ApprovalDecided) -> None:
        decision, by = decided.decision, {"ask": "the program"}.get(decided.by, decided.by)
        who = f"by {by or 'nobody in time'}"
        match decision:
            case Edit(receiver=receiver) if receiver:
                self.page.line(Text("given to ", "green"), self.page.name(receiver), Text(f" {who}", "green"))
            case Respond(text=text):
                self.page.line(Text(f"answered {who}: {_one(text)}", "green"))
            case _:
                colour = "red" if isinstance(decision, Reject) else "green"
                self.page.line(Text(f"{verdict_words(decision)} {who}", colour))
        self.page.gap()
        self.wait(0.25)


def _one(text: str) -> str:
    return line_of(text)[:SHORT]


def store_url(store: str | None) -> str:
    """The store that was asked for, by URL or by file; else a new file that stays."""
    if store is None:
        handle, store = tempfile.mkstemp(prefix="desk-", suffix=".db")
        os.close(handle)
    return store if "://" in store else f"sqlite:///{store}"


def program() -> str:
    """How this program is called from here."""
    if shutil.which("changeover"):
        return "changeover"
    called = Path(sys.argv[0]).absolute()
    if called.name != "changeover":
        return f"{shlex.quote(sys.executable)} -m changeover"
    here = Path.cwd()
    return shlex.quote(str(called.relative_to(here) if called.is_relative_to(here) else called))


def show_store(page: Page, url: str, conversation: str, events: int) -> None:
    """Where the log lies, and three commands that look at it."""
    page.entry("log", f"{events} events in {url.removeprefix('sqlite:///')}; all of the above is read from them")
    page.rule("what to try next")
    for command in ("conversations", "handoffs list", f"graph {conversation}"):
        page.verbatim(f"{program()} {command} --store {shlex.quote(url)}")
