"""Talk: one conversation with the desk, message by message; and `demo --chat`, typed by the user."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, Self

from rich.text import Text

from changeover.cli.demo.desk import MEMBERS, desk
from changeover.cli.demo.page import Page, pace_on
from changeover.cli.demo.show import Show, program, store_url
from changeover.cli.terminal.render import console
from changeover.errors import ConversationNotFound
from changeover.facts import ApprovalRequest, HandoffRecord
from changeover.guards.approval import Approve, Decision, Edit, Reject, Respond
from changeover.relay.events import ApprovalRequested, RunCancelled, RunCompleted, RunFailed
from changeover.relay.stream import Recorded, StreamItem
from changeover.team import Team

Judge = Callable[[ApprovalRequest], Decision]
"""Decides about the request that was shown last."""
ENDED = (RunCompleted, RunFailed, RunCancelled)
PAUSE = 0.05
YOU = "you"


async def hold(request: ApprovalRequest) -> None:
    """For `Team(ask=…)`: the run waits here, because whoever decides is reading its stream."""
    await asyncio.Event().wait()


class Talk:
    """One conversation. The loop turns only while the team works, so that `judge` may wait for a keyboard."""

    def __init__(self, team: Team, show: Show, judge: Judge) -> None:
        self._team, self._show, self._judge = team, show, judge
        self._runner = asyncio.Runner()
        self.id = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._runner:
            self._runner.run(self._team.close())

    def say(self, text: str) -> None:
        """Say something, and show all that comes of it."""
        stream = self._team.stream(text, conversation=self.id)
        while (item := self._runner.run(_next(stream))) is not None:
            self._show.item(item)
            if isinstance(item, Recorded):
                self._heed(item)

    def past(self, id: str | None = None) -> list[Recorded]:
        """All that was recorded of this conversation, or of another."""
        try:
            return self._runner.run(self._team.history(id or self.id))
        except ConversationNotFound:
            return []

    def handoffs(self) -> list[HandoffRecord]:
        """Who handed to whom in this conversation."""
        return self._runner.run(self._team.handoffs(self.id))

    def go_on(self) -> None:
        """If the last run was left in the middle, let it go on to its end."""
        past = self.past()
        waiting = {f"{each.conversation}:{each.call}" for each in self._runner.run(self._team.approvals(self.id))}
        self._runner.run(self._team.__aenter__())
        for each in past:
            if isinstance(each.event, ApprovalRequested) and f"{each.conversation}:{each.event.call}" in waiting:
                self._show.event(each)
                self._heed(each)
        while not self._caught_up():
            self._runner.run(asyncio.sleep(PAUSE))

    def _caught_up(self) -> bool:
        past = self.past()
        for each in past:
            if each.seq > self._show.seq:
                self._show.event(each)
                self._heed(each)
        own = [each.event for each in past if each.conversation == self.id]
        return isinstance(own[-1], ENDED)

    def _heed(self, recorded: Recorded) -> None:
        """Have a decision made, if that is what was recorded."""
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
    "Offline: no model, no key, no network. Words are compared with what agents and tools are for, and texts marked "
    "(offline) are put together from that. The team, its handoffs and its log are the real ones."
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
    """Talk until an empty line or the end of the input; the conversation is kept, and goes on from the same store."""
    out, url = console(), store_url(store)
    page = Page(out, [YOU, *(member.id for member in MEMBERS)])
    show, keyboard = Show(page, pace_on(out) if pace is None else pace), Keyboard(page)
    page.title(TITLE, OFFLINE)
    with Talk(desk("offline", url, hold), show, keyboard.judge) as talk:
        talk.id = ID
        try:
            _begin(show, talk)
            while text := keyboard.message():
                talk.say(text)
        except (EOFError, KeyboardInterrupt):
            pass  # leaving is no failure
        begun = bool(talk.past())
    if begun:
        _leave(page, url)


class Keyboard:
    """What the user types; in a pipe it is written down, so that what is printed can be read by itself."""

    def __init__(self, page: Page) -> None:
        self._page, self._terminal = page, sys.stdin.isatty()

    def message(self) -> str:
        """The next message; nothing if the user leaves."""
        self._page.speaker(YOU)
        return self._typed(self._page.margin - len(YOU))

    def judge(self, request: ApprovalRequest) -> Decision:
        """A decision about the request on the page."""
        if request.kind == "escalation":
            return self._settled()
        answer = ""
        while answer not in ("y", "n"):
            self._page.write(QUESTION)
            answer = self._typed(1).lower()[:1]
        return Approve() if answer == "y" else Reject()

    def _settled(self) -> Decision:
        """Who takes what nobody wanted."""
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


def _begin(show: Show, talk: Talk) -> None:
    page = show.page
    page.gap()
    if past := talk.past():
        page.line("The conversation in this store goes on. Active: ", page.name(show.recall(past)), margin=0)
        talk.go_on()
        return
    page.line("Order 1042 was paid twice, for instance. You might type:", margin=0)
    for example in EXAMPLES:
        page.line(Text(example, "italic"), margin=2)
    page.line("An empty line or Ctrl-D ends. Billing's refunds need a yes: yours.", margin=0)


def _leave(page: Page, url: str) -> None:
    page.gap()
    page.line("The conversation is kept. To go on with it, or to see who handed to whom:", margin=0)
    page.verbatim(f"{program()} demo --chat --store {shlex.quote(url)}")
    page.verbatim(f"{program()} graph {ID} --store {shlex.quote(url)}")
