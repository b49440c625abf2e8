"""Command `chat`: talk with a team on the terminal."""

from __future__ import annotations

from changeover.cli.exits import errors_reported
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

    Ctrl-C or Ctrl-D leaves; the conversation is kept.
    """
    first = {"agent": agent, "user": user, "context": variables(context)}
    with errors_reported():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.chat_session import ChatSession
        from changeover.cli.terminal.run_report import NextCommands

        found, _ = working_team(team, store, not no_handoffs)
        ChatSession(found, NextCommands(team, store), conversation, first, role or ()).talk()
