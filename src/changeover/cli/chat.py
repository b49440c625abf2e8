"""Command `chat`: talk with a team on the terminal; `demo --chat` talks with the demo's team in the same way."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from changeover.cli.exits import console, error_text, errors_reported, tell
from changeover.cli.graph import lines_within
from changeover.cli.options import (
    AgentOption,
    ContextOption,
    ConversationOption,
    NoHandoffsOption,
    RoleOption,
    TeamArgument,
    TeamStoreOption,
    UserOption,
)
from changeover.cli.run import variables

if TYPE_CHECKING:
    from changeover.cli.terminal.session import Session
    from changeover.facts import RunResult
    from changeover.team import Team

YOU = "you"
HELP = (
    ("/help", "this list"),
    ("/agents", "the members of the team; the active one is marked"),
    ("/graph", "draw the handoffs of this conversation so far, or the team"),
    ("/quit", "leave, as Ctrl-C or Ctrl-D; the conversation is kept"),
)


def chat(  # noqa: PLR0913 - each is a declared option
    team: TeamArgument,
    *,
    conversation: ConversationOption = None,
    agent: AgentOption = None,
    user: UserOption = None,
    context: ContextOption = None,
    store: TeamStoreOption = None,
    no_handoffs: NoHandoffsOption = False,
    role: RoleOption = None,
) -> None:
    """Talk with a team, and decide its approvals.

    Ctrl-C or Ctrl-D leaves; the conversation is kept. /help lists what else can be typed.
    """
    first = {"agent": agent, "user": user, "context": variables(context)}
    with errors_reported():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.run_report import NextCommands, RunReport

        found, _ = working_team(team, store, not no_handoffs)
        commands, id = NextCommands(team, store), conversation or new_id()
        report = RunReport(found, commands)
        with chat_session(found, id, role or []) as session:
            Chat(found, session, report.worker_lines, first).talk(f"Conversation {id}. /help lists what can be typed.")
        if session.begun:
            tell(f"\nThe conversation is kept. To continue it:\n  {commands.chat(id)}")
        else:
            tell("\nNothing was said, so nothing is kept.")
        if session.is_unfinished:
            tell(f"To let the unfinished run finish:\n  {commands.resume(id)}")


def new_id() -> str:
    """The id of a new conversation: the command line chooses it, so that it can name it after Ctrl-C."""
    return os.urandom(4).hex()


def chat_session(team: Team, id: str, roles: list[str]) -> Session:
    """A session on standard output in which the person at the keyboard decides."""
    from changeover.cli.terminal.page import Page
    from changeover.cli.terminal.prompt import Prompt, user_name
    from changeover.cli.terminal.session import Session
    from changeover.cli.terminal.transcript import Transcript

    page = Page(console(), [YOU, *team.roster.seats])
    transcript = Transcript(page, team.roster)
    return Session(team, transcript, id, Prompt(page, team.roster.seats).ask, user_name(), roles)


class Chat:
    """A user at the keyboard, or a pipe of lines. `waiting` gives the lines about work that waits for a worker."""

    def __init__(
        self, team: Team, session: Session, waiting: Callable[[RunResult], Any], first: dict[str, Any] | None = None
    ) -> None:
        self._team, self._session, self._waiting = team, session, waiting
        self._first = first or {}
        """Options of the first message."""
        self._page, self._is_terminal = session.transcript.page, sys.stdin.isatty()
        self._waits = False
        """True if the run waits for a worker."""

    def talk(self, greeting: str = "") -> None:
        """Talk until the user leaves; an error in the first message is raised, later errors are printed."""
        if greeting and self._is_terminal:
            self._page.line(greeting, margin=0)
        try:
            if (result := self._session.open()) is not None:
                self._look(result)
            while (text := self._page.prompt("", self._is_terminal, YOU)) != "/quit":
                self._answer(text)
        except (KeyboardInterrupt, EOFError):
            pass  # leaving is not a failure
        finally:
            self._page.close()

    def _answer(self, text: str) -> None:
        from changeover.errors import ChangeoverError

        if text.startswith("/"):
            self._command(text)
        elif text or self._waits:
            try:
                self._turn(text)
            except ChangeoverError as error:
                if not self._session.begun:
                    raise
                self._page.close()
                tell(f"changeover: {error_text(error)}")

    def _turn(self, text: str) -> None:
        """Send a message; if it is empty, show what workers have recorded since."""
        if self._waits:
            self._session.catch_up()
        if not text:
            self._look(self._session.resume())
            return
        options = {name: value for name, value in self._first.items() if value}
        self._first = {"user": self._first.get("user")}
        self._look(self._session.send(text, **options))

    def _look(self, result: RunResult) -> None:
        """Say what the run waits for, if that is a worker."""
        lines = list(self._waiting(result)) if result.status == "waiting" else []
        self._waits = bool(lines)
        for line in [*lines, "  Press Enter to see the result, now or later."] if lines else []:
            tell(line)

    def _command(self, text: str) -> None:
        match text.split(maxsplit=1)[0]:
            case "/help":
                for name, about in HELP:
                    self._page.field(name, about)
            case "/agents":
                for id, seat in self._team.roster.seats.items():
                    self._page.field(f"{id}{' *' if id == self._session.transcript.active else ''}", purpose_of(seat))
            case "/graph":
                for line in lines_within(self._drawn(), console(), self._page.width - self._page.margin):
                    self._page.line(line)
            case other:
                self._page.line(f"{other} is not known here; /help lists what can be typed")

    def _drawn(self) -> str:
        from changeover.observe.drawing.course import course_of
        from changeover.observe.drawing.diagram import course_text, plan_of, team_text

        handoffs = self._session.handoffs() if self._session.begun else []
        if not handoffs:
            return team_text(plan_of(self._team.roster))
        return course_text(course_of(self._session.id, handoffs[0].sender, handoffs))


def purpose_of(seat: Any) -> str:
    """What a member is for, in one line."""
    from changeover.agent.agent import purpose
    from changeover.agent.roster import Seat
    from changeover.cli.exits import one_line

    member = seat.agent if isinstance(seat, Seat) else seat
    return one_line(purpose(member) or type(member).__name__.lower())
