"""Dialogue: one conversation with the desk, message by message; and `demo --chat`, typed by the user."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, Self

from rich.text import Text

from changeover.cli.demo.desk import MEMBERS, desk
from changeover.cli.demo.narration import Narration
from changeover.cli.demo.page import Page, pace_on, program, store_url
from changeover.cli.terminal.render import console
from changeover.cli.terminal.transcript import RUN_ENDED
from changeover.errors import ConversationNotFound
from changeover.facts import ApprovalRequest, HandoffRecord
from changeover.guards.approval import Approve, Decision, Edit, Reject, Respond
from changeover.relay.events import ApprovalRequested
from changeover.relay.stream import Recorded, StreamItem
from changeover.team import Team

Judge = Callable[[ApprovalRequest], Decision]
"""Decides the request that was shown last."""
PAUSE = 0.05
YOU = "you"


async def wait_forever(request: ApprovalRequest) -> None:
    """For `Team(ask=…)`: the run waits for the decision of the person who reads its stream."""
    await asyncio.Event().wait()


class Dialogue:
    """One conversation. The event loop runs only while the team works, so `judge` may wait for a keyboard."""

    def __init__(self, team: Team, narration: Narration, judge: Judge) -> None:
        self._team, self._narration, self._judge = team, narration, judge
        self._runner = asyncio.Runner()
        self.id = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._runner:
            self._runner.run(self._team.close())

    def send(self, text: str) -> None:
        """Send a message, and show everything until the answer."""
        stream = self._team.stream(text, conversation=self.id)
        while (item := self._runner.run(_next(stream))) is not None:
            self._narration.item(item)
            if isinstance(item, Recorded):
                self._decide(item)

    def past(self, id: str | None = None) -> list[Recorded]:
        """The history of this conversation, or of another one."""
        try:
            return self._runner.run(self._team.history(id or self.id))
        except ConversationNotFound:
            return []

    def handoffs(self) -> list[HandoffRecord]:
        """The handoffs of this conversation."""
        return self._runner.run(self._team.handoffs(self.id))

    def resume(self) -> None:
        """Continue the last run to its end, if it was interrupted."""
        past = self.past()
        waiting = {(each.conversation, each.call) for each in self._runner.run(self._team.approvals(self.id))}
        self._runner.run(self._team.__aenter__())
        for each in past:
            if isinstance(each.event, ApprovalRequested) and (each.conversation, each.event.call) in waiting:
                self._narration.event(each)
                self._decide(each)
        while not self._caught_up():
            self._runner.run(asyncio.sleep(PAUSE))

    def _caught_up(self) -> bool:
        past = self.past()
        for each in past:
            if each.seq > self._narration.seq:
                self._narration.event(each)
                self._decide(each)
        own = [each.event for each in past if each.conversation == self.id]
        return isinstance(own[-1], RUN_ENDED)

    def _decide(self, recorded: Recorded) -> None:
        """If the event is a request, ask `judge` and record the decision."""
        if not isinstance(recorded.event, ApprovalRequested):
            return
        for request in self._runner.run(self._team.approvals(recorded.conversation)):
            if (request.conversation, request.call) == (recorded.conversation, recorded.event.call):
                self._runner.run(self._team.decide(request, self._judge(request), by=YOU))


async def _next(stream: AsyncGenerator[StreamItem, Any]) -> StreamItem | None:
    return await anext(stream, None)


ID = "chat"
TITLE = "Changeover: talk with a support desk of five agents"
OFFLINE = (
    "Offline: no model, no key, no network. Your words are matched against the descriptions of agents and tools, and "
    "replies marked (offline) are composed from those. The team, its handoffs and its log are real."
)
QUESTION = "Do you approve? y/n:"
WHO = "Who takes it? One of the desk, or your own answer to the customer:"
EXAMPLES = (
    "Please refund the second payment of order 1042",
    "Please refund 112 EUR for order 1077",
    "The app shows error E42",
    "Compare the Basic plan with the Team plan",
)


def chat_with_desk(store: str | None = None, pace: float | None = None) -> None:
    """Talk until an empty line or the end of the input; a conversation in the same store is continued."""
    out, url = console(), store_url(store)
    page = Page(out, [YOU, *(member.id for member in MEMBERS)])
    narration, keyboard = Narration(page, pace_on(out) if pace is None else pace), Keyboard(page)
    page.title(TITLE, OFFLINE)
    with Dialogue(desk("offline", url, wait_forever), narration, keyboard.judge) as dialogue:
        dialogue.id = ID
        try:
            _begin(narration, dialogue)
            while text := keyboard.message():
                dialogue.send(text)
        except (EOFError, KeyboardInterrupt):
            pass  # leaving is not a failure
        begun = bool(dialogue.past())
    if begun:
        _leave(page, url)


class Keyboard:
    """The user's input; if it comes from a pipe it is printed, so that the output is complete."""

    def __init__(self, page: Page) -> None:
        self._page, self._terminal = page, sys.stdin.isatty()

    def message(self) -> str:
        """The next message; empty if the user leaves."""
        self._page.speaker(YOU)
        return self._typed(self._page.margin - len(YOU))

    def judge(self, request: ApprovalRequest) -> Decision:
        """The user's decision about the request on the page."""
        if request.kind == "escalation":
            return self._escalation()
        answer = ""
        while answer not in ("y", "n"):
            self._page.write(QUESTION)
            answer = self._typed(1).lower()[:1]
        return Approve() if answer == "y" else Reject()

    def _escalation(self) -> Decision:
        """The member that gets an escalated task, or the user's own answer."""
        answer = ""
        while not answer:
            self._page.write(WHO)
            answer = self._typed(1)
        return Edit(receiver=answer) if answer in {member.id for member in MEMBERS} else Respond(answer)

    def _typed(self, space: int) -> str:
        typed = input(" " * space if self._terminal else "").strip()
        if self._terminal:
            self._page.typed()
        else:
            self._page.write(f" {typed}")
        return typed


def _begin(narration: Narration, dialogue: Dialogue) -> None:
    page = narration.page
    page.gap()
    if past := dialogue.past():
        page.line("The conversation in this store continues. Active: ", page.name(narration.recall(past)), margin=0)
        dialogue.resume()
        return
    page.line("For example, order 1042 was paid twice. You could type:", margin=0)
    for example in EXAMPLES:
        page.line(Text(example, "italic"), margin=2)
    page.line("An empty line or Ctrl-D ends the chat. Refunds by billing need your approval.", margin=0)


def _leave(page: Page, url: str) -> None:
    page.gap()
    page.line("The conversation is kept. To continue it, or to draw its handoffs:", margin=0)
    page.verbatim(f"{program()} demo --chat --store {shlex.quote(url)}")
    page.verbatim(f"{program()} graph {ID} --store {shlex.quote(url)}")
