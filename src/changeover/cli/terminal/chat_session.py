"""ChatSession: the session of `chat`, with streamed replies and approval prompts."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from rich.text import Text

from changeover.cli.exits import clean, error_text, tell
from changeover.cli.terminal.prompt import Prompt
from changeover.cli.terminal.render import console
from changeover.cli.terminal.run_report import NextCommands, RunReport, requests_of, tickets_of
from changeover.cli.terminal.transcript import RUN_ENDED, Transcript
from changeover.errors import ApprovalError, ChangeoverError, ConversationNotFound
from changeover.facts import RunResult
from changeover.guards.approval import Decision
from changeover.relay.stream import Recorded, RunFinished, StreamItem
from changeover.team import Team


class ChatSession:
    """One conversation with one team. Input blocks: the event loop runs only while the team works."""

    def __init__(
        self,
        team: Team,
        commands: NextCommands,
        conversation: str | None,
        first: Mapping[str, Any],
        roles: Sequence[str] = (),
    ) -> None:
        self._team, self._commands, self._roles = team, commands, roles
        self._first = dict(first)
        """Options of the first message."""
        self._report = RunReport(team, commands)
        self._id = conversation or os.urandom(4).hex()
        self._new = conversation is None
        self._out = console()
        self._transcript = Transcript(self._out)
        self._prompt = Prompt(self._out, team.roster.seats)
        self._begun = False
        self._waits_for_worker = False

    def talk(self) -> None:
        """Talk until the user leaves; an error in the first message is raised, later errors are printed."""
        with asyncio.Runner() as runner:
            try:
                self._open(runner)
                while (text := self._input()) is not None:
                    if text.strip() or self._waits_for_worker:
                        self._turn(runner, text.strip() and text)
            except (KeyboardInterrupt, EOFError):
                self._out.print()  # leaving is not a failure
            finally:
                self._transcript.end_line()
                runner.run(self._team.close())
        self._leave()

    def _open(self, runner: asyncio.Runner) -> None:
        """Say how to leave; continue the run of a known conversation that has not ended."""
        if sys.stdin.isatty():
            self._out.print(Text(f"Conversation {clean(self._id)}. Ctrl-D leaves; the conversation is kept.", "dim"))
        if self._new:
            return
        try:
            past = runner.run(self._team.history(self._id))
        except ConversationNotFound:
            return
        self._begun, self._transcript.seq = True, past[-1].seq
        own = [each.event for each in past if each.conversation == self._id]
        if not isinstance(own[-1], RUN_ENDED):
            self._settle(runner, runner.run(self._continue({})))

    def _input(self) -> str | None:
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
        """Send a message; if it is empty, show what has been recorded since."""
        try:
            if self._waits_for_worker:
                runner.run(self._catch_up())
            self._settle(runner, runner.run(self._send(text) if text else self._continue({})))
        except ChangeoverError as error:
            if not self._begun:
                raise
            self._transcript.end_line()
            tell(f"changeover: {error_text(error)}")

    def _settle(self, runner: asyncio.Runner, result: RunResult) -> None:
        """Ask about pending requests until the run has ended or the user leaves them for later."""
        while result.status == "waiting" and (requests := requests_of(result)):
            answers = {request.id: self._prompt.ask(request) for request in requests}
            decided = {id: decision for id, decision in answers.items() if decision is not None}
            if not decided:
                break
            result = runner.run(self._continue(decided))
        self._waits_for_worker = result.status == "waiting" and bool(tickets_of(result))
        if self._waits_for_worker:
            for line in self._report.worker_lines(result):
                tell(line)
            tell("  Press Enter to see the result, now or later.")

    async def _catch_up(self) -> None:
        """Show what other processes have recorded."""
        for recorded in await self._team.history(self._id, after=self._transcript.seq):
            self._transcript.item(recorded)

    async def _send(self, text: str) -> RunResult:
        options = {name: value for name, value in self._first.items() if value}
        self._first = {"user": self._first.get("user")}
        return await self._show(self._team.stream(text, conversation=self._id, **options))

    async def _continue(self, decided: Mapping[str, Decision]) -> RunResult:
        """Record these decisions, and show what follows."""
        return await self._show(self._team.follow(self._id, partial(self._decide, decided)))

    async def _show(self, items: AsyncIterator[StreamItem]) -> RunResult:
        async for item in items:
            self._begun = True
            if not isinstance(item, Recorded) or item.seq > self._transcript.seq:
                self._transcript.item(item)
            if isinstance(item, RunFinished):
                return item.result
        raise AssertionError("a stream ends with its result")

    async def _decide(self, decided: Mapping[str, Decision]) -> None:
        for id, decision in decided.items():
            try:
                await self._team.decide(id, decision, by=self._prompt.name, roles=self._roles)
            except ApprovalError as error:
                # A request that still waits is asked again; another person may have decided this one.
                tell(f"  {error_text(error)}")

    def _leave(self) -> None:
        if self._begun:
            tell(f"The conversation is kept. To continue it: {self._commands.chat(self._id)}")
            tell(f"To let an unfinished run finish: {self._commands.resume(self._id)}")
