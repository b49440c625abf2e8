"""Session: one conversation with one team, shown on a page, with its requests decided on the spot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from changeover.cli.exits import error_text, tell
from changeover.cli.terminal.prompt import request_words
from changeover.cli.terminal.run_report import lease_words, requests_of
from changeover.cli.terminal.transcript import Transcript
from changeover.errors import ApprovalError, ConversationNotFound
from changeover.facts import ApprovalRequest, HandoffRecord, RunResult
from changeover.guards.approval import Decision
from changeover.relay.events import RunCancelled, RunCompleted, RunFailed
from changeover.relay.stream import Recorded, StreamItem
from changeover.team import Team

Judge = Callable[[ApprovalRequest], Decision | None]
"""Decides a request; None leaves it for later."""
Items = AsyncGenerator[StreamItem, Any]
RUN_ENDED = (RunCompleted, RunFailed, RunCancelled)


class Session:
    """One conversation. The event loop runs only while the team works, so `judge` may wait for a keyboard."""

    def __init__(
        self, team: Team, transcript: Transcript, id: str, judge: Judge, by: str, roles: Sequence[str] = ()
    ) -> None:
        self._team, self.transcript, self.id = team, transcript, id
        self._judge, self._by, self._roles = judge, by, roles
        self._runner = asyncio.Runner()
        self.paced: Callable[[Items], Items] = lambda items: items
        """Slows a stream down, so that people can read along."""
        self.begun = False
        self.is_unfinished = False
        """True if the last run was left before it ended, or waits."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._runner:
            self._runner.run(self._team.close())

    def open(self) -> RunResult | None:
        """Take in a conversation that the store has, and continue its run if that has not ended; returns its result."""
        past = self.past()
        for each in past:
            self.transcript.seq = each.seq
            self.transcript.item(each)
        self.begun = bool(past)
        own = [each.event for each in past if each.conversation == self.id]
        if waiting := self._runner.run(lease_words(self._team, self.id)):
            tell(waiting)
        return self.resume() if own and not isinstance(own[-1], RUN_ENDED) else None

    def send(self, text: str, **options: Any) -> RunResult:
        """Send a message, show everything until the answer, and have requests decided; raises ChangeoverError."""
        return self._settled(self._team.stream(text, conversation=self.id, **options))

    def resume(self) -> RunResult:
        """Continue the last run, or show its result."""
        return self._settled(self._team.follow(self.id))

    def past(self, id: str | None = None) -> list[Recorded]:
        """The history of this conversation, or of another one; empty if the store does not have it."""
        try:
            return self._runner.run(self._team.history(id or self.id))
        except ConversationNotFound:
            return []

    def handoffs(self) -> list[HandoffRecord]:
        """The handoffs of the conversation."""
        return self._runner.run(self._team.handoffs(self.id))

    def catch_up(self) -> None:
        """Show what other processes have recorded."""
        for recorded in self._runner.run(self._team.history(self.id, after=self.transcript.seq)):
            self.transcript.item(recorded)

    def _settled(self, items: Items) -> RunResult:
        """Show a stream, and ask about pending requests until the run has ended or all are left for later."""
        self.is_unfinished = True
        result = self._runner.run(self._shown(items))
        while result.status == "waiting" and (requests := requests_of(result)):
            decided = {request.id: decision for request in requests if (decision := self._decision(request))}
            if not decided:
                break
            result = self._runner.run(self._shown(self._team.follow(self.id, partial(self._decide, decided))))
        self.is_unfinished = result.status == "waiting"
        return result

    async def _shown(self, items: Items) -> RunResult:
        result = await self.transcript.show(self.paced(items))
        self.begun = True
        return result

    def _decision(self, request: ApprovalRequest) -> Decision | None:
        at = request.conversation, request.call
        self.transcript.request(request, at)
        if not self.transcript.ends_with(at):  # say again which one is asked about
            self.transcript.page.line(request_words(request))
        return self._judge(request)

    async def _decide(self, decided: Mapping[str, Decision]) -> None:
        for id, decision in decided.items():
            try:
                await self._team.decide(id, decision, by=self._by, roles=self._roles)
            except ApprovalError as error:
                # A request that still waits is asked again; another person may have decided this one.
                self.transcript.page.line(error_text(error))
