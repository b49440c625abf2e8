"""Narration: the events of the demo as a newcomer reads them, written on a page."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from rich.text import Text

from changeover.cli.demo.page import FIELD, Page, field
from changeover.cli.exits import clean, one_line
from changeover.cli.terminal.prompt import call_arguments, request_words
from changeover.cli.terminal.transcript import CallIndex, answer_words, is_retry
from changeover.facts import Mode
from changeover.guards.approval import Edit, Reject, Respond, verdict_words
from changeover.ids import handoff_id, is_root
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

LONGEST = 500
"""How many characters of a text are shown; the log has all of it."""
ANSWERS: dict[type, str] = {
    HandoffRejected: "REJECTED",
    HandoffConditional: "CONDITION",
    HandoffExpired: "TIMEOUT",
}
STILL = "still answers: a message goes to the active agent"


class Narration:
    """Writes the items of a stream or of a log on a page; with a pace above 0, slowly enough to read along."""

    def __init__(self, page: Page, pace: float = 0.0) -> None:
        self.page, self._pace = page, pace
        self._calls = CallIndex()
        self._last_text = ""
        self._active, self._still = "", STILL
        self._delegated: set[str] = set()
        """The handoffs to delegates that have not returned yet."""

    @property
    def seq(self) -> int:
        """The `seq` of the last event."""
        return self._calls.seq

    def item(self, item: StreamItem) -> None:
        """Write an item of a stream."""
        if isinstance(item, Recorded):
            self.event(item)
        # Delegates may work in parallel; of their texts only the result is shown.
        elif isinstance(item, TextDelta) and is_root(item.conversation):
            text = clean(item.text)
            self.page.write(text)
            self._last_text += text
            self.wait(0.016)

    def event(self, recorded: Recorded) -> None:
        """Write a recorded event, if a newcomer should see it."""
        self._calls.add(recorded)
        at = recorded.conversation
        match recorded.event:
            case FunctionReturned(text=""):
                self.page.line(Text("plain Python: a rule decides which agent is next", "dim"))
            case ModelReplied(text=text) | FunctionReturned(text=text):
                self._reply(at, clean(text))
            case ToolFinished(call=id, text=text):
                self._tool(at, recorded.agent, self._call(at, id), _short(text))
            case CallRefused(call=id, reason=reason):
                self._tool(at, recorded.agent, self._call(at, id), f"refused: {_short(reason)}")
            case event:
                self._handoff_event(at, event)

    def recall(self, past: Iterable[Recorded]) -> str:
        """Take in past events without writing them; returns the active agent."""
        for each in past:
            self._calls.add(each)
            match each.event:
                case RunStarted(agent=agent) | HandoffAccepted(receiver=agent, mode=Mode.TRANSFER):
                    self._active = agent if is_root(each.conversation) else self._active
                case _:
                    pass
        return self._active

    def call_name(self, conversation: str, id: str) -> str:
        """The name of the tool or handoff that a call is for."""
        return self._call(conversation, id).name

    def _call(self, conversation: str, id: str) -> Call:
        call = self._calls.find(conversation, id)
        assert call is not None, "a call is recorded before its outcome"
        return call

    def wait(self, seconds: float) -> None:
        """Pause, scaled by the pace."""
        if self._pace:
            time.sleep(seconds * self._pace)

    def _handoff_event(self, at: str, event: object) -> None:
        """Write an event by which work passes from one agent to another."""
        match event:
            case RunStarted(agent=agent) if is_root(at):
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
                self._request_event(event)

    def _request_event(self, event: object) -> None:
        """Write a request to a person, or a decision."""
        match event:
            case ApprovalRequested() as request:
                self._request(request)
            case ApprovalDecided() as decided:
                self._decided(decided)
            case _:
                pass  # other events are not shown

    def _reply(self, at: str, text: str) -> None:
        # A log has whole texts, a stream has sent them in pieces before.
        if is_root(at) and text and not self._last_text.endswith(text):
            self.page.write(text)
            self._last_text = text

    def _turn_to(self, agent: str, note: str) -> None:
        if note == STILL:
            self._still = "still answers"  # explained once
        self._active, self._last_text = agent, ""
        self._delegated.clear()
        self.page.speaker(agent)
        self.page.line(Text(note, "dim"))

    def _tool(self, at: str, agent: str, call: Call, text: str) -> None:
        who: list[Text | str] = [self.page.name(agent), ": "] if not is_root(at) else []
        self._nested(at, "", *who, Text(f"{call.name}({call_arguments(call.args)})", "bold"))
        self._nested(at, f"{self.page.marks.elbow} ", Text(text, "dim"))
        self.wait(0.25)

    def _nested(self, at: str, mark: str, *parts: Text | str) -> None:
        """Write a line, indented by the depth of its conversation."""
        bars, below = f"{self.page.marks.bar} " * at.count("/"), " " * len(mark)
        if mark.startswith(self.page.marks.top):
            below = below.replace(" ", self.page.marks.bar, 1)
        self.page.line(*parts, lead=Text(bars + mark, "dim"), more=Text(bars + below, "dim"))

    def _ask(self, at: str, offer: HandoffOffered) -> None:
        if not self._delegated:
            self.page.gap()
        self._delegated = (self._delegated - {offer.retry_of}) | {handoff_id(at, offer.call)}
        name = self.page.name(offer.receiver)
        self._nested(at, f"{self.page.marks.top} ", "asks ", name, f": {_short(offer.message)}")
        self.wait(0.25)

    def _answer(self, at: str, back: HandoffReturned) -> None:
        answer = f" answers: {_short(back.response or back.error)}"
        self._nested(at, f"{self.page.marks.bottom} ", self.page.name(back.receiver), answer)
        self._back(handoff_id(at, back.call))

    def _back(self, handoff: str) -> None:
        self._delegated.discard(handoff)
        if not self._delegated:
            self.page.gap()
        self.wait(0.25)

    def _handoff(self, offer: HandoffOffered) -> None:
        page = self.page
        again = Text(f"  try {offer.attempt}", "dim") if is_retry(offer) else ""
        page.label("HANDOFF", page.name(offer.sender), f" {page.marks.arrow} ", page.name(offer.receiver), again)
        if again:  # its message was shown with the first offer
            self.wait(0.35)
            return
        # The message of a declared handoff is the text beside the call, which is on the page already.
        message = _short(offer.message)
        if message and not one_line(self._last_text).endswith(message):
            self._field("message", message)
        for name, value in offer.variables.items():
            self._field(name, json.dumps(value, ensure_ascii=False))
        self.wait(0.35)

    def _field(self, name: str, text: str) -> None:
        self.page.line(text, lead=field(name), more=" " * FIELD)

    def _declined(self, at: str, answer: HandoffRejected | HandoffConditional | HandoffExpired) -> None:
        if (handoff := handoff_id(at, answer.call)) not in self._delegated:
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
                call = Text(f"{request.tool}({call_arguments(request.arguments)})", "bold")
                self.page.label("APPROVAL", name, " wants ", call)
            case "escalation":
                self.page.label("ESCALATION", "no agent takes this from ", name, ", so a person decides")
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
                self.page.line(Text(f"answered {who}: {_short(text)}", "green"))
            case _:
                colour = "red" if isinstance(decision, Reject) else "green"
                self.page.line(Text(f"{verdict_words(decision)} {who}", colour))
        self.page.gap()
        self.wait(0.25)


def _short(text: str) -> str:
    return one_line(text)[:LONGEST]
