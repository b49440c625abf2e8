"""A conversation with the desk, said message by message; where a person has to decide, `judge` is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, Self

from changeover.cli.demo.show import Show
from changeover.errors import ConversationNotFound
from changeover.facts import ApprovalRequest, HandoffRecord
from changeover.guards.approval import Decision
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
