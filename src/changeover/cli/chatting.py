"""A chat: what the user types goes to the team, what the team does is shown as it happens, and approvals are asked."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from changeover.cli.asking import Asker
from changeover.cli.ending import Place
from changeover.cli.output import console
from changeover.cli.showing import Show
from changeover.cli.trouble import lined, tell
from changeover.errors import ApprovalError, ChangeoverError, ConversationNotFound
from changeover.facts import ApprovalRequest, RunResult
from changeover.guards.approval import Decision
from changeover.relay.events import RunCancelled, RunCompleted, RunFailed
from changeover.relay.stream import RunFinished
from changeover.team import Team

ENDED = (RunCompleted, RunFailed, RunCancelled)


class Chat:
    """Talks with one team in one conversation. Typing blocks: the loop only turns while the team works."""

    def __init__(self, team: Team, place: Place, conversation: str | None, first: Mapping[str, Any]) -> None:
        self._team, self._place, self._first = team, place, dict(first)
        self._id = conversation or os.urandom(4).hex()
        self._new = conversation is None
        self._out = console()
        self._show = Show(self._out)
        self._asker = Asker(self._out)
        self._begun = False

    def talk(self) -> None:
        """Until the user leaves; raises what the user did wrong before anything was said."""
        with asyncio.Runner() as runner:
            try:
                self._open(runner)
                while (text := self._typed()) is not None:
                    if text.strip():
                        self._turn(runner, text)
            except (KeyboardInterrupt, EOFError):
                self._out.print()  # leaving is no failure
            finally:
                self._show.rest()
                runner.run(self._team.close())
        self._leave()

    def _open(self, runner: asyncio.Runner) -> None:
        """Say how to leave; take up a conversation where it was left."""
        if sys.stdin.isatty():
            self._out.print(Text(f"Conversation {self._id}. Ctrl-D leaves; it can be taken up again.", "dim"))
        if self._new:
            return
        try:
            past = runner.run(self._team.history(self._id))
        except ConversationNotFound:
            return
        self._begun, self._show.seq = True, past[-1].seq
        own = [each.event for each in past if each.conversation == self._id]
        if not isinstance(own[-1], ENDED):
            self._settle(runner, runner.run(self._go_on()))

    def _typed(self) -> str | None:
        prompt = "you> " if sys.stdin.isatty() else ""
        try:
            return input(prompt)
        except EOFError:
            if prompt:
                self._out.print()
            return None
        except KeyboardInterrupt:
            self._out.print()
            return None

    def _turn(self, runner: asyncio.Runner, text: str) -> None:
        try:
            self._settle(runner, runner.run(self._say(text)))
        except ChangeoverError as error:
            if not self._begun:
                raise  # nothing can come of this chat
            self._show.rest()
            tell(f"changeover: {lined(error)}")

    def _settle(self, runner: asyncio.Runner, result: RunResult) -> None:
        """Ask whatever has to be asked, until the run has an answer or the user leaves it for later."""

        def decide(request: ApprovalRequest, decision: Decision) -> bool:
            return runner.run(self._decide(request, decision))

        while result.status == "waiting" and result.pending:
            answers = [self._asker.ask(request, decide) for request in result.pending]
            if not any(answers):
                return
            result = runner.run(self._go_on())

    async def _say(self, text: str) -> RunResult:
        options = {name: value for name, value in self._first.items() if value}
        self._first = {"user": self._first.get("user")}
        async for item in self._team.stream(text, conversation=self._id, **options):
            self._begun = True
            self._show.item(item)
            if isinstance(item, RunFinished):
                return item.result
        raise AssertionError("a stream ends with its result")

    async def _decide(self, request: ApprovalRequest, decision: Decision) -> bool:
        try:
            await self._team.decide(request, decision, by=self._asker.name)
        except ApprovalError as error:
            tell(f"  {lined(error)}")
            # Somebody else may have been quicker.
            return request.id not in {each.id for each in await self._team.approvals(self._id)}
        return True

    async def _go_on(self) -> RunResult:
        """Wait for the run, then show what happened in it meanwhile."""
        try:
            result = await self._team.resume(self._id)
        finally:
            for each in await self._team.history(self._id):
                if each.seq > self._show.seq:
                    self._show.event(each)
        self._show.end(result)
        return result

    def _leave(self) -> None:
        if self._begun:
            tell(f"The conversation is kept. To talk on: {self._place.again('chat', self._id)}")
            tell(f"To let it finish what was under way: {self._place.again('resume', self._id)}")
