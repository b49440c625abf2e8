"""Transcript: the one renderer of streams: what agents say and do, written on a page as it is recorded."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from rich.text import Text

from changeover.agent.roster import Roster
from changeover.cli.exits import clean, one_line, short
from changeover.cli.terminal.notes import LABELS, NOTES, Declined, Note, answer_words
from changeover.cli.terminal.page import Page
from changeover.cli.terminal.prompt import Asked, call_arguments, request_words
from changeover.cli.terminal.tool_calls import ToolCalls
from changeover.facts import Mode, RunResult
from changeover.guards.approval import Edit, Reject, Respond, verdict_words
from changeover.ids import call_of, handoff_id, is_root
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
    SkillLoaded,
    StepBegan,
    StepSkipped,
    TicketLapsed,
    TicketTaken,
    ToolFinished,
)
from changeover.relay.stream import Recorded, RunFinished, StreamItem, TextDelta

PATIENCE = 0.3
"""Seconds without news after which a spinner shows what is going on."""


class Transcript:
    """Writes the items of a stream or of a log on a page. `roster` tells tools from handoffs."""

    def __init__(self, page: Page, roster: Roster) -> None:
        self.page, self._roster = page, roster
        self.seq = 0
        """The `seq` of the last event; older ones are taken in, and not written again."""
        self.active = ""
        """The agent that has the conversation."""
        self._is_named = False
        """True if the name of the active agent stands above what is written next."""
        self.calls = ToolCalls(page, roster)
        self._said = ""
        """The last text of the active agent."""
        self._news = time.time()
        """When the last item came."""
        self._streaming: tuple[str, int] = ("", 0)
        self._delegates: dict[str, str] = {}
        """The handoffs to delegates that have not returned yet, and their receivers."""
        self._asked: dict[tuple[str, str], int] = {}
        """The requests on the page, and the number of lines when each was written."""

    async def show(self, items: AsyncGenerator[StreamItem, Any]) -> RunResult:
        """Write a stream to its end; returns its result. On a terminal a spinner shows what takes long."""
        async with aclosing(items):
            following = asyncio.ensure_future(anext(items))
            try:
                while True:
                    await asyncio.wait([following], timeout=PATIENCE if self.page.is_animated else None)
                    if not following.done():
                        self._idle()
                        continue
                    item = following.result()
                    self.item(item)
                    if isinstance(item, RunFinished):
                        return item.result
                    following = asyncio.ensure_future(anext(items))
            finally:
                following.cancel()
                await asyncio.wait([following])
                self.page.close()

    def item(self, item: StreamItem) -> None:
        """Write an item of a stream, or an event of a log."""
        self._news = time.time()
        if isinstance(item, RunFinished):
            self._end(item.result)
        elif isinstance(item, Recorded):
            is_old, self.seq = item.seq <= self.seq, max(self.seq, item.seq)
            if isinstance(item.event, ModelReplied):
                self.calls.read(item, item.event)
            if is_old:
                self._recall(item)
            else:
                self._event(item)
        # Delegates may work in parallel; of their texts only the result is shown.
        elif isinstance(item, TextDelta) and is_root(item.conversation):
            self._delta(item)

    def request(self, request: Asked, at: tuple[str, str]) -> None:
        """Write a request to a person, unless it stands on the page; `at` are its conversation and its call."""
        if at in self._asked:
            return
        name = self.page.name(request.agent)
        match request.kind:
            case "approval" if not request.roles:
                what = Text(one_line(f"{request.tool}({call_arguments(request.arguments)})"), "bold")
                to: list[Text | str] = [" to ", self.page.name(request.receiver)] if request.receiver else []
                self._label("APPROVAL", name, " wants ", what if request.tool else "a handoff", *to)
            case kind:
                self._label(kind.upper(), request_words(request))
        self._asked[at] = self.page.lines

    def ends_with(self, at: tuple[str, str]) -> bool:
        """True if this request is the last thing on the page."""
        return self._asked.get(at) == self.page.lines

    def _recall(self, recorded: Recorded) -> None:
        """Take in an event that was written before, or by another process."""
        at = recorded.conversation
        match recorded.event:
            case RunStarted(agent=agent) | HandoffAccepted(receiver=agent, mode=Mode.TRANSFER) if is_root(at):
                self.active = agent
            case ToolFinished(call=id) | SkillLoaded(call=id) | CallRefused(call=id) | ApprovalRequested(call=id):
                self.calls.withhold(at, id)
            case HandoffReturned(call=id):
                self._delegates.pop(handoff_id(at, id), None)
            case HandoffOffered(mode=Mode.DELEGATE) as offer:
                self._delegates[handoff_id(at, offer.call)] = offer.receiver
            case _:
                pass

    def _event(self, recorded: Recorded) -> None:
        at = recorded.conversation
        if not isinstance(recorded.event, ApprovalRequested | ApprovalDecided | ModelReplied):
            self.calls.begin(self._speaks)
        match recorded.event:
            case RunStarted(agent=active) | HandoffAccepted(receiver=active, mode=Mode.TRANSFER) if is_root(at):
                self.active, self._is_named, self._said = active, False, ""
            case ModelReplied(text=text) | FunctionReturned(text=text):
                self._reply(at, clean(text))
            case CallRefused(why="declined"):
                self._note(at, Note(f"{recorded.agent} is told, and continues"))
            case ToolFinished() | SkillLoaded() | CallRefused() as outcome:
                self.calls.end(recorded, outcome)
            case ApprovalRequested(call=id) as request:
                self.calls.withhold(at, id)
                self.request(request, (at, id))
            case ApprovalDecided() as decided:
                self._decided(decided)
                self.calls.approve(recorded, decided)
            case event:
                self._handoff_event(at, recorded.agent, event)

    def _handoff_event(self, at: str, agent: str, event: object) -> None:
        """Write an event by which work passes from one agent to another."""
        match event:
            case HandoffOffered(mode=Mode.DELEGATE) as offer:
                self._ask(at, offer)
            case HandoffOffered() as offer:
                self._handoff(at, offer)
            case HandoffRejected() | HandoffConditional() | HandoffExpired() as answer:
                self._declined(at, answer)
            case HandoffReturned(declined=True):
                self._note(at, Note(f"{agent} is told, and continues"))
            case HandoffReturned() as back:
                self._answer(at, back)
            case TicketTaken() | TicketLapsed() if not is_root(at):
                pass  # the sender's log has the tickets of its delegates too
            case _:
                self._noted(at, agent, event)

    def _noted(self, at: str, agent: str, event: object) -> None:
        if isinstance(event, StepBegan | StepSkipped) and is_root(at):
            self._speaks(agent)
        if describe := NOTES.get(type(event)):
            self._note(at, describe(agent, event))

    def _idle(self) -> None:
        """After a while without news, show the calls that have begun, and what is awaited."""
        self.calls.begin(self._speaks)
        if tools := self.calls.under_way:
            self.page.busy(", ".join(begun.call.name for begun in tools), min(begun.at for begun in tools))
        elif self._delegates:
            self.page.busy(f"waiting for {', '.join(self._delegates.values())}", self._news)
        else:
            self.page.busy(f"{self.active} is thinking", self._news)

    def _delta(self, delta: TextDelta) -> None:
        if self._streaming != (streaming := (delta.command, delta.attempt)):
            self.page.end_line()
            self._streaming, self._said = streaming, ""
        if delta.text.strip() or self._said:
            self._speaks(delta.agent)
            self.page.write(delta.text)
            self._said += clean(delta.text)

    def _reply(self, at: str, text: str) -> None:
        """Write a reply, unless it was streamed before."""
        if is_root(at):
            if text.strip() and self._said.strip() != text.strip():
                self._speaks(self.active)
                self.page.write(text)
                self._said = text
            self.page.end_line()

    def _end(self, result: RunResult) -> None:
        """Write the answer, unless it stands on the page."""
        self.calls.begin(self._speaks)
        answer = clean(result.text)
        if result.status == "completed" and answer.strip() not in ("", self._said.strip()):
            self._speaks(result.final_agent)
            self.page.write(answer)
            self._said = answer
        self.page.end_line()

    def _speaks(self, agent: str) -> None:
        """Write the name of a speaker, unless it stands above what is written next."""
        if not self._is_named or agent != self.active:
            self.page.speaker(agent)
            self.active, self._is_named = agent, True

    def _note(self, at: str, note: Note) -> None:
        if note.text:
            self.page.nested(at.count("/"), "", Text(short(note.text), note.colour))

    def _label(self, text: str, *parts: Text | str, colour: str = "black on yellow") -> None:
        self.page.label(text, *parts, colour=colour)
        self._is_named = False

    def _ask(self, at: str, offer: HandoffOffered) -> None:
        if is_root(at):
            self._speaks(offer.sender)
        self._delegates.pop(offer.retry_of, None)
        self._delegates[handoff_id(at, offer.call)] = offer.receiver
        name, again = self.page.name(offer.receiver), f" (try {offer.attempt})" if offer.attempt > 1 else ""
        self.page.nested(at.count("/"), f"{self.page.marks.top} ", "asks ", name, f"{again}: {short(offer.message)}")

    def _answer(self, at: str, back: HandoffReturned) -> None:
        answer = f" answers: {short(back.response or back.error or 'nothing')}"
        self.page.nested(at.count("/"), f"{self.page.marks.bottom} ", self.page.name(back.receiver), answer)
        self._delegates.pop(handoff_id(at, back.call), None)

    def _handoff(self, at: str, offer: HandoffOffered) -> None:
        page = self.page
        who = (page.name(offer.sender), f" {page.marks.arrow} ", page.name(offer.receiver))
        again = Text(f"  try {offer.attempt}", "dim") if offer.attempt > 1 else ""
        if not is_root(at):
            self.page.nested(at.count("/"), "", *who, again)
            return
        self._label("HANDOFF", *who, again)
        if call_of(offer.call) != offer.call:  # another receiver declined it: its message stands there already
            return
        # The message of a declared handoff is the text beside the call, which is on the page already.
        message = short(offer.message)
        if message and not one_line(self._said).endswith(message):
            page.field("message", message)
        for name, value in offer.variables.items():
            page.field(name, short(json.dumps(value, ensure_ascii=False)))

    def _declined(self, at: str, answer: Declined) -> None:
        handoff = handoff_id(at, answer.call)
        if is_root(at) and handoff not in self._delegates:
            self._label(LABELS[type(answer)], one_line(answer_words(answer)), colour="white on red")
            return
        self.page.nested(at.count("/"), f"{self.page.marks.bar} ", Text(one_line(answer_words(answer)), "red"))
        if isinstance(answer, HandoffExpired):
            self._delegates.pop(handoff, None)

    def _decided(self, decided: ApprovalDecided) -> None:
        decision, by = decided.decision, {"ask": "the program"}.get(decided.by, decided.by)
        who = one_line(f"by {by}") if by else "at its deadline" if decided.expired else "by an unnamed person"
        match decision:
            case Edit(receiver=receiver) if receiver:
                self.page.line(Text("given to ", "green"), self.page.name(receiver), Text(f" {who}", "green"))
            case Respond(text=text):
                self.page.line(Text(f"answered {who}: {short(text)}", "green"))
            case Reject(note=note):
                self.page.line(Text(f"rejected {who}{f': {short(note)}' if note else ''}", "red"))
            case _:
                self.page.line(Text(f"{verdict_words(decision)} {who}", "green"))
