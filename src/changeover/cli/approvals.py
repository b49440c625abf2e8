"""Command `approvals`: list the requests that wait for a person, and approve, reject, answer or route them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from changeover.cli.conversations import IdArgument, given, look, show_list
from changeover.cli.exits import EXITS, plainly
from changeover.cli.options import JsonOption, LimitOption, RoleOption, StoreOption, TeamStoreOption, WithinOption

if TYPE_CHECKING:
    from changeover.guards.approval import Decision
    from changeover.stores.views import Views
    from changeover.team import Team

Status = Literal["pending", "approved", "rejected", "edited", "responded", "expired", "withdrawn", "all"]

app = typer.Typer(help="Approvals: what waits for a person's decision.", no_args_is_help=True)

DecidingTeam = Annotated[
    str | None,
    typer.Option(
        "--team",
        metavar="TEAM",
        envvar="CHANGEOVER_TEAM",
        help="The team whose run goes on; without one nothing can follow from a decision.",
        show_default=False,
    ),
]
ByOption = Annotated[
    str | None, typer.Option("--by", help="Who decides. Without it: the user's name.", show_default=False)
]


@app.command("list")
def list_approvals(
    status: Annotated[Status, typer.Option("--status")] = "pending",
    conversation: WithinOption = None,
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what people were asked; without --status, what still waits."""
    from changeover.cli.terminal.prompt import kind_words, what_words
    from changeover.cli.terminal.render import when

    async def find(views: Views) -> list[Any]:
        from changeover.relay.lists import ApprovalRow

        wanted = given({"status": None if status == "all" else status})
        return await views.listed(ApprovalRow, wanted, conversation, limit + 1)

    show_list(
        look(store, find),
        limit,
        as_json,
        lambda row: {
            "approval": row.id,
            "status": row.status,
            "agent": row.agent,
            "kind": kind_words(row),
            "for": " or ".join(row.roles),
            "asked": when(row.requested_at),
            "what": what_words(row),
        },
        "nothing waits for a decision" if status == "pending" else "no approvals",
    )


@app.command()
def approve(
    id: IdArgument,
    team: DecidingTeam = None,
    by: ByOption = None,
    role: RoleOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have it done: an approval, or a permission. The run goes on here."""
    from changeover.guards.approval import Approve

    _decide(id, Approve(), (by, role), (team, store), as_json)


@app.command()
def reject(  # noqa: PLR0913 - each is a declared option
    id: IdArgument,
    team: DecidingTeam = None,
    note: Annotated[str, typer.Option("--note", help="For the agent: why not.", show_default=False)] = "",
    *,
    by: ByOption = None,
    role: RoleOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have it left undone, or give it back; the agent reads the note. The run goes on here."""
    from changeover.guards.approval import Reject

    _decide(id, Reject(note), (by, role), (team, store), as_json)


@app.command()
def answer(  # noqa: PLR0913 - each is a declared option
    id: IdArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer, or the result.", show_default=False)],
    team: DecidingTeam = None,
    *,
    by: ByOption = None,
    role: RoleOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer it yourself: a task, what nobody took, or a call that is not made then. The run goes on here."""
    from changeover.guards.approval import Respond

    _decide(id, Respond(text), (by, role), (team, store), as_json)


@app.command()
def route(  # noqa: PLR0913 - each is a declared option
    id: IdArgument,
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="Who gets it.", show_default=False)],
    team: DecidingTeam = None,
    *,
    by: ByOption = None,
    role: RoleOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have another member take it: a task, what nobody took, or a handoff to be approved. The run goes on here."""
    from changeover.guards.approval import Edit

    _decide(id, Edit(receiver=receiver), (by, role), (team, store), as_json)


for command in (approve, reject, answer, route):
    command.__doc__ = f"{command.__doc__}\n\n{EXITS}"


def _decide(
    id: str,
    decision: Decision,
    who: tuple[str | None, list[str] | None],
    where: tuple[str | None, str | None],
    as_json: bool,
) -> None:
    (by, roles), (address, store) = who, where
    if address is None:
        raise typer.BadParameter(
            "a decision is recorded with what follows from it, and only the team knows that: give it as --team TEAM,"
            " or set CHANGEOVER_TEAM",
            param_hint="--team",
        )
    with plainly():
        from changeover.cli.run import resumed
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.prompt import user_name
        from changeover.cli.terminal.run_report import Place, finish, told
        from changeover.facts import RunResult

        team, _ = working_team(address, store)
        # The run is the root's, whichever of its delegates asked.
        conversation = id.partition(":")[0].partition("/")[0]

        async def decide() -> None:
            await team.decide(id, decision, by=by if by is not None else user_name(), roles=roles or ())

        async def decided() -> RunResult:
            if not await _awaited(team, id, decision):
                await decide()  # which says what is wrong; the same decision once more is not
                return await resumed(team, conversation)
            return await resumed(team, conversation, decide)

        finish(asyncio.run(told(team, decided, Place(address, store), as_json)))


async def _awaited(team: Team, id: str, decision: Decision) -> bool:
    """Whether this request waits for a decision; raises ApprovalError if another command would fit it."""
    from changeover.cli.terminal.prompt import VERBS, misfit
    from changeover.errors import ApprovalError

    request = next((each for each in await team.approvals() if each.id == id), None)
    if request is not None and (fault := misfit(request, VERBS[type(decision)])):
        raise ApprovalError(fault, approval=id)
    return request is not None
