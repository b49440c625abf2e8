"""Commands `run`, `resume` and `chat`: start or continue a conversation with a team."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.exits import EXITS, Exit, plainly, tell
from changeover.cli.options import JsonOption, NoHandoffsOption, RoleOption, TeamArgument, TeamStoreOption, UserOption

if TYPE_CHECKING:
    from changeover.facts import RunResult
    from changeover.relay.stream import StreamItem
    from changeover.team import Team

ConversationOption = Annotated[
    str | None,
    typer.Option("--conversation", metavar="ID", help="A known one goes on; a new one begins.", show_default=False),
]
AgentOption = Annotated[
    str | None, typer.Option("--agent", metavar="ID", help="Who answers, if not who is active.", show_default=False)
]
ContextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        metavar="KEY=VALUE",
        help="A context variable; JSON if it is any, else text. May be given several times.",
        show_default=False,
    ),
]
AttachOption = Annotated[
    list[str] | None,
    typer.Option(
        "--attach",
        metavar="FILE",
        help="An image or another file for the models to see, by path or https:// address. May be given several times.",
        show_default=False,
    ),
]


def run(  # noqa: PLR0913 - each is a declared option
    team: TeamArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.", show_default=False)],
    *,
    conversation: ConversationOption = None,
    agent: AgentOption = None,
    user: UserOption = None,
    context: ContextOption = None,
    attach: AttachOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
    no_handoffs: NoHandoffsOption = False,
) -> None:
    """Say something to a team and print its answer. Handoffs are shown beside it on a terminal."""
    options = {
        "conversation": conversation,
        "agent": agent,
        "user": user,
        "context": variables(context),
        "files": attach,
    }
    with plainly():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.run_report import Place, finish, told

        found, where = working_team(team, store, not no_handoffs)
        place = Place(team, where.url if store and where else None)
        code = _interruptible(told(found, lambda: said(found, text, options), place, as_json))
        finish(code)


def resume(
    team: TeamArgument,
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its id.", show_default=False)],
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
    no_handoffs: NoHandoffsOption = False,
) -> None:
    """Go on with a conversation that was interrupted, or whose last step failed; else print its last answer."""
    with plainly():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.run_report import Place, finish, told

        found, where = working_team(team, store, not no_handoffs)
        place = Place(team, where.url if store and where else None)
        code = _interruptible(told(found, lambda: resumed(found, conversation), place, as_json))
        finish(code)


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
    """Talk with a team. What needs a person's yes is asked here. Ctrl-C or Ctrl-D leaves; the conversation is kept."""
    first = {"agent": agent, "user": user, "context": variables(context)}
    with plainly():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.chat import Chat
        from changeover.cli.terminal.run_report import Place

        found, where = working_team(team, store, not no_handoffs)
        place = Place(team, where.url if store and where else None)
        Chat(found, place, conversation, first, role or ()).talk()


run.__doc__ = f"{run.__doc__}\n\n{EXITS}"
resume.__doc__ = f"{resume.__doc__}\n\n{EXITS}"


def variables(given: list[str] | None) -> dict[str, Any]:
    """KEY=VALUE, each value as JSON if it can be read so."""
    found: dict[str, Any] = {}
    for each in given or ():
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{each!r} is not KEY=VALUE", param_hint="--context")
        try:
            found[key] = json.loads(value, parse_constant=_is_text)
        except (ValueError, RecursionError):
            found[key] = value
    return found


def _is_text(word: str) -> Any:
    # Python's reader takes NaN and Infinity for numbers; JSON does not have them, and a store would keep nothing.
    raise ValueError(word)


def _interruptible(work: Any) -> Exit:
    import asyncio

    try:
        code: Exit = asyncio.run(work)
    except KeyboardInterrupt:
        tell("Interrupted; what was recorded is kept. See: changeover conversations, changeover resume")
        return Exit.INTERRUPTED
    return code


async def said(team: Team, text: str, options: Mapping[str, Any]) -> RunResult:
    """What came of saying this."""
    if not sys.stderr.isatty():
        return await team.run(text, **options)
    return await _shown(team.stream(text, **options))


async def resumed(team: Team, conversation: str, first: Callable[[], Awaitable[None]] | None = None) -> RunResult:
    """What comes of going on, after `first`; what was recorded before was seen before."""
    if sys.stderr.isatty():
        past = await team.history(conversation)
        return await _shown(team.follow(conversation, first), past[-1].seq)
    if first is not None:
        await first()
    return await team.resume(conversation)


async def _shown(items: AsyncIterator[StreamItem], after: int = 0) -> RunResult:
    from changeover.cli.terminal.render import console
    from changeover.cli.terminal.transcript import Show
    from changeover.relay.stream import Recorded, RunFinished

    show = Show(console(error=True), texts=False)
    async for item in items:
        if isinstance(item, RunFinished):
            return item.result
        if not isinstance(item, Recorded) or item.seq > after:
            show.item(item)
        else:
            show.recall(item)
    raise AssertionError("a stream ends with its result")
