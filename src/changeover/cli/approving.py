"""`approvals`: what waits for a person, and deciding about it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from changeover.cli.looking import IdArgument, given, look, show_list
from changeover.cli.options import JsonOption, LimitOption, StoreOption, TeamStoreOption, WithinOption
from changeover.cli.trouble import EXITS, plainly

if TYPE_CHECKING:
    from changeover.guards.approval import Decision
    from changeover.stores.views import Views

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
    from changeover.cli.output import line_of, when
    from changeover.cli.showing import listed

    async def find(views: Views) -> list[Any]:
        from changeover.stores.records import ApprovalRow

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
            "asked": when(row.requested_at),
            "what": line_of(f"{row.tool}({listed(row.arguments)}){f' to {row.receiver}' if row.receiver else ''}"),
        },
        "nothing waits for a decision" if status == "pending" else "no approvals",
    )


@app.command()
def approve(
    id: IdArgument,
    team: DecidingTeam = None,
    by: ByOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have it done. The run goes on here, and its answer is printed."""
    from changeover.guards.approval import Approve

    _decide(id, Approve(), by, (team, store), as_json)


@app.command()
def reject(
    id: IdArgument,
    team: DecidingTeam = None,
    note: Annotated[str, typer.Option("--note", help="For the agent: why not.", show_default=False)] = "",
    *,
    by: ByOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have it left undone. The agent reads the note; the run goes on here, and its answer is printed."""
    from changeover.guards.approval import Reject

    _decide(id, Reject(note), by, (team, store), as_json)


approve.__doc__ = f"{approve.__doc__}\n\n{EXITS}"
reject.__doc__ = f"{reject.__doc__}\n\n{EXITS}"


def _decide(id: str, decision: Decision, by: str | None, where: tuple[str | None, str | None], as_json: bool) -> None:
    address, store = where
    if address is None:
        raise typer.BadParameter(
            "a decision is recorded with what follows from it, and only the team knows that: give it as --team TEAM,"
            " or set CHANGEOVER_TEAM",
            param_hint="--team",
        )
    with plainly():
        from changeover.cli.asking import user_name
        from changeover.cli.ending import Place, finish, told
        from changeover.cli.teams import working_team
        from changeover.facts import RunResult

        team, _ = working_team(address, store)

        async def decided() -> RunResult:
            await team.decide(id, decision, by=by if by is not None else user_name())
            # The run is the root's, whichever of its delegates asked.
            return await team.resume(id.partition(":")[0].partition("/")[0])

        finish(asyncio.run(told(team, decided, Place(address, store), as_json)))
