"""What happens at the desk, as it happens: who answers, what is called, who hands to whom or asks whom, who decides."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from rich.text import Text

from changeover.cli.output import clean, line_of
from changeover.cli.page import Page
from changeover.facts import Mode
from changeover.guards.approval import Reject, verdict_words
from changeover.messages import Call
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallRefused,
    HandoffAccepted,
    HandoffOffered,
    HandoffReturned,
    ModelReplied,
    RunStarted,
    ToolFinished,
)
from changeover.relay.stream import Recorded, StreamItem, TextDelta

SHORT = 500
"""Of a long result, so much is shown; the log has all of it."""
FIELD = 12
STILL = "still answers: a message goes to the active agent"


class Show:
    """Shows what a stream or a log tells; above pace 0 slowly enough to read along."""

    def __init__(self, page: Page, pace: float = 0.0) -> None:
        self.page, self._pace = page, pace
        self._calls: dict[str, Call] = {}
        self._said = ""
        self._active, self._still = "", STILL
        self._asked = 0
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
            self.wait(0.018)

    def event(self, recorded: Recorded) -> None:
        """Show what was recorded, if a newcomer should see it."""
        self._know(recorded)
        at = recorded.conversation
        match recorded.event:
            case ModelReplied(text=text):
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
        """The events by which work passes from one to another, and those by which a person has a say."""
        match event:
            case RunStarted(agent=agent) if "/" not in at:
                self._turn_to(agent, self._still if self._active else "answers now")
            case HandoffAccepted(receiver=receiver, mode=Mode.TRANSFER):
                self._turn_to(receiver, "answers now")
            case HandoffOffered(mode=Mode.DELEGATE) as offer:
                self._ask(at, offer)
            case HandoffOffered() as offer:
                self._handoff(offer)
            case HandoffReturned() as back:
                self._answer(at, back)
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
        self.page.speaker(agent)
        self.page.line(Text(note, "dim"))

    def _tool(self, at: str, agent: str, call: Call, text: str) -> None:
        who: list[Text | str] = [self.page.name(agent), ": "] if "/" in at else []
        self._nested(at, "", *who, Text(f"{call.name}({listed(call.args)})", "bold"))
        self._nested(at, f"{self.page.marks.elbow} ", Text(text, "dim"))
        self.wait(0.35)

    def _nested(self, at: str, mark: str, *parts: Text | str) -> None:
        """A line that stands as deep as its conversation."""
        bars, below = f"{self.page.marks.bar} " * at.count("/"), " " * len(mark)
        if mark.startswith(self.page.marks.top):
            below = below.replace(" ", self.page.marks.bar, 1)
        self.page.line(*parts, lead=Text(bars + mark, "dim"), more=Text(bars + below, "dim"))

    def _ask(self, at: str, offer: HandoffOffered) -> None:
        if not self._asked:
            self.page.gap()
        self._asked += 1
        name = self.page.name(offer.receiver)
        self._nested(at, f"{self.page.marks.top} ", "asks ", name, f": {_one(offer.message)}")
        self.wait(0.3)

    def _answer(self, at: str, back: HandoffReturned) -> None:
        said = f" answers: {_one(back.response or back.error)}"
        self._nested(at, f"{self.page.marks.bottom} ", self.page.name(back.receiver), said)
        self._asked = max(0, self._asked - 1)
        if not self._asked:
            self.page.gap()
        self.wait(0.4)

    def _handoff(self, offer: HandoffOffered) -> None:
        page = self.page
        page.label("HANDOFF", page.name(offer.sender), f" {page.marks.arrow} ", page.name(offer.receiver))
        # A declared handoff takes the text beside the call as its message, and that is on the page already.
        said = _one(offer.message)
        if said and said != _one(self._said):
            self._field("message", said)
        for name, value in offer.variables.items():
            self._field(name, json.dumps(value, ensure_ascii=False))
        self.wait(0.5)

    def _field(self, name: str, text: str) -> None:
        self.page.line(text, lead=Text(f"{name:<{FIELD}}", "yellow"), more=" " * FIELD)

    def _request(self, request: ApprovalRequested) -> None:
        call = Text(f"{request.tool}({listed(request.arguments)})", "bold")
        self.page.label("APPROVAL", self.page.name(request.agent), " wants ", call)
        self.wait(0.6)

    def _decided(self, decided: ApprovalDecided) -> None:
        colour = "red" if isinstance(decided.decision, Reject) else "green"
        by = {"ask": "the program"}.get(decided.by, decided.by)
        self.page.line(Text(f"{verdict_words(decided.decision)} by {by or 'nobody in time'}", colour))
        self.page.gap()
        self.wait(0.35)


def listed(values: Mapping[str, Any]) -> str:
    """Arguments as they would stand in a call."""
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())


def _one(text: str) -> str:
    return line_of(text)[:SHORT]
