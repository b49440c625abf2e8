"""Chat: the interactive session behind `chat`, with streamed replies and approval prompts."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rich.text import Text

from changeover.cli.exits import lined, tell
from changeover.cli.terminal.prompt import Asker
from changeover.cli.terminal.render import console
from changeover.cli.terminal.run_report import Place, awaited_workers, requests_of, tickets_of
from changeover.cli.terminal.transcript import Show
from changeover.errors import ApprovalError, ChangeoverError, ConversationNotFound
from changeover.facts import RunResult
from changeover.guards.approval import Decision
from changeover.relay.events import RunCancelled, RunCompleted, RunFailed
from changeover.relay.stream import Recorded, RunFinished
from changeover.team import Team

ENDED = (RunCompleted, RunFailed, RunCancelled)


class Chat:
    """Talks with one team in one conversation. Typing blocks: the loop only turns while the team works."""

    def __init__(
        self,
        team: Team,
        place: Place,
        conversation: str | None,
        first: Mapping[str, Any],
        roles: Sequence[str] = (),
    ) -> None:
        self._team, self._place, self._first, self._roles = team, place, dict(first), roles
        self._id = conversation or os.urandom(4).hex()
        self._new = conversation is None
        self._out = console()
        self._show = Show(self._out)
        self._asker = Asker(self._out, team.roster.seats)
        self._begun = False
        self._awaits = False
        """Whether it waits until somebody claims something."""

    def talk(self) -> None:
        """Until the user leaves; raises what the user did wrong before anything was said."""
        with asyncio.Runner() as runner:
            try:
                self._open(runner)
                while (text := self._typed()) is not None:
                    if text.strip() or self._awaits:
                        self._turn(runner, text.strip() and text)
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
            self._settle(runner, runner.run(self._go_on({})))

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
        """Say something; if that is nothing, see what has come of what was said before."""
        try:
            if self._awaits:
                runner.run(self._catch_up())
            self._settle(runner, runner.run(self._say(text) if text else self._go_on({})))
        except ChangeoverError as error:
            if not self._begun:
                raise  # nothing can come of this chat
            self._show.rest()
            tell(f"changeover: {lined(error)}")

    def _settle(self, runner: asyncio.Runner, result: RunResult) -> None:
        """Ask whatever has to be asked, until the run has an answer or the user leaves it for later."""
        while result.status == "waiting" and (requests := requests_of(result)):
            answers = {request.id: self._asker.ask(request) for request in requests}
            decided = {id: decision for id, decision in answers.items() if decision is not None}
            if not decided:
                break
            result = runner.run(self._go_on(decided))
        self._awaits = result.status == "waiting" and bool(tickets_of(result))
        if self._awaits:
            for line in awaited_workers(result, self._team, self._place):
                tell(line)
            tell("  Enter shows what has come of it, now or later.")

    async def _catch_up(self) -> None:
        """Show what others did meanwhile."""
        for recorded in await self._team.history(self._id):
            if recorded.seq > self._show.seq:
                self._show.item(recorded)

    async def _say(self, text: str) -> RunResult:
        options = {name: value for name, value in self._first.items() if value}
        self._first = {"user": self._first.get("user")}
        async for item in self._team.stream(text, conversation=self._id, **options):
            self._begun = True
            self._show.item(item)
            if isinstance(item, RunFinished):
                return item.result
        raise AssertionError("a stream ends with its result")

    async def _go_on(self, decided: Mapping[str, Decision]) -> RunResult:
        """Decide, and show what follows as it happens."""
        async for item in self._team.follow(self._id, partial(self._decide, decided)):
            if not isinstance(item, Recorded) or item.seq > self._show.seq:
                self._show.item(item)
            if isinstance(item, RunFinished):
                return item.result
        raise AssertionError("a stream ends with its result")

    async def _decide(self, decided: Mapping[str, Decision]) -> None:
        for id, decision in decided.items():
            try:
                await self._team.decide(id, decision, by=self._asker.name, roles=self._roles)
            except ApprovalError as error:
                # What still waits is asked again; or somebody else was quicker.
                tell(f"  {lined(error)}")

    def _leave(self) -> None:
        if self._begun:
            tell(f"The conversation is kept. To talk on: {self._place.again('chat', self._id)}")
            tell(f"To let it finish what was under way: {self._place.again('resume', self._id)}")
