"""Command `approvals`: list the requests that wait for a person, and approve, reject, answer or route them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from changeover.cli.exits import add_exits, errors_reported
from changeover.cli.options import (
    ByOption,
    DecidingTeamOption,
    IdArgument,
    JsonOption,
    LimitOption,
    OpenStore,
    RoleOption,
    StoreOption,
    TeamStoreOption,
    WithinOption,
    in_store,
)

if TYPE_CHECKING:
    from changeover.guards.approval import Decision
    from changeover.team import Team

Status = Literal["pending", "approved", "rejected", "edited", "responded", "expired", "withdrawn", "all"]

app = typer.Typer(help="List and decide requests that wait for a person.", no_args_is_help=True)


@app.command("list")
def list_approvals(
    status: Annotated[Status, typer.Option("--status")] = "pending",
    conversation: WithinOption = None,
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List requests to people, by default those that are pending."""
    from changeover.cli.terminal.prompt import kind_words, matter_words
    from changeover.cli.terminal.render import print_list, when

    async def find(opened: OpenStore) -> list[Any]:
        from changeover.relay.lists import ApprovalRow

        wanted = {} if status == "all" else {"status": status}
        return await opened.views.listed(ApprovalRow, wanted, conversation, limit + 1)

    print_list(
        in_store(store, find),
        limit,
        as_json,
        lambda row: {
            "approval": row.id,
            "status": row.status,
            "agent": row.agent,
            "kind": kind_words(row),
            "for": " or ".join(row.roles),
            "asked": when(row.requested_at),
            "what": matter_words(row),
        },
        "no request is pending" if status == "pending" else "no approvals",
    )


@app.command()
def approve(
    id: IdArgument,
    team: DecidingTeamOption = None,
    by: ByOption = None,
    role: RoleOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Approve a request, or grant a permission."""
    from changeover.guards.approval import Approve

    _decide(id, Approve(), (by, role), (team, store), as_json)


@app.command()
def reject(  # noqa: PLR0913 - each is a declared option
    id: IdArgument,
    team: DecidingTeamOption = None,
    note: Annotated[str, typer.Option("--note", help="The reason, for the agent.", show_default=False)] = "",
    *,
    by: ByOption = None,
    role: RoleOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reject a request, with a note for the agent."""
    from changeover.guards.approval import Reject

    _decide(id, Reject(note), (by, role), (team, store), as_json)


@app.command()
def answer(  # noqa: PLR0913 - each is a declared option
    id: IdArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.", show_default=False)],
    team: DecidingTeamOption = None,
    *,
    by: ByOption = None,
    role: RoleOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a task, an escalation, or in place of a call."""
    from changeover.guards.approval import Respond

    _decide(id, Respond(text), (by, role), (team, store), as_json)


@app.command()
def route(  # noqa: PLR0913 - each is a declared option
    id: IdArgument,
    receiver: Annotated[
        str, typer.Argument(metavar="RECEIVER", help="The member that gets the work.", show_default=False)
    ],
    team: DecidingTeamOption = None,
    *,
    by: ByOption = None,
    role: RoleOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a task, an escalation or a handoff to another member."""
    from changeover.guards.approval import Edit

    _decide(id, Edit(receiver=receiver), (by, role), (team, store), as_json)


for command in (approve, reject, answer, route):
    command.__doc__ = f"{command.__doc__}\n\nThe run continues here."
add_exits(approve, reject, answer, route)


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
            "only the team knows what follows from a decision: give it as --team TEAM, or set CHANGEOVER_TEAM",
            param_hint="--team",
        )
    with errors_reported():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.prompt import user_name
        from changeover.cli.terminal.run_report import NextCommands, RunReport, resume_shown
        from changeover.facts import RunResult
        from changeover.ids import conversation_of, root_of

        team, _ = working_team(address, store)
        # The run belongs to the root, whichever delegate made the request.
        conversation = root_of(conversation_of(id))

        async def decide() -> None:
            await team.decide(id, decision, by=by if by is not None else user_name(), roles=roles or ())

        async def decided() -> RunResult:
            if not await _is_pending(team, id, decision):
                await decide()  # raises, unless the same decision was made before
                return await resume_shown(team, conversation)
            return await resume_shown(team, conversation, decide)

        report = RunReport(team, NextCommands(address, store))
        raise typer.Exit(asyncio.run(report.print(decided, as_json)))


async def _is_pending(team: Team, id: str, decision: Decision) -> bool:
    """True if this request is pending; raises ApprovalError if the decision does not fit it."""
    from changeover.cli.terminal.prompt import VERBS, verb_fault
    from changeover.errors import ApprovalError

    request = next((each for each in await team.approvals() if each.id == id), None)
    if request is not None and (fault := verb_fault(request, VERBS[type(decision)])):
        raise ApprovalError(fault, approval=id)
    return request is not None
