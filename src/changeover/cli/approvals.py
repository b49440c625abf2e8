"""Command `approvals`: list the requests that wait for a person, and approve, edit, reject, answer or route them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from changeover.cli.exits import add_exits, errors_reported, say
from changeover.cli.options import (
    ByOption,
    DecisionStoreOption,
    IdArgument,
    JsonLinesOption,
    JsonOption,
    LimitOption,
    OpenStore,
    RoleOption,
    StoreOption,
    TeamOption,
    WithinOption,
    in_store,
    on_server,
    required_team,
    server_of,
)
from changeover.cli.terminal.help import App, among

if TYPE_CHECKING:
    from changeover.guards.approval import Decision
    from changeover.relay.stream import StreamItem
    from changeover.team import Team

Status = Literal["pending", "approved", "rejected", "edited", "responded", "expired", "withdrawn", "all"]

app = App("List and decide requests that wait for a person.")


@app.command("list")
def list_approvals(
    status: Annotated[Status, typer.Option("--status", metavar="STATUS", help=among(Status))] = "pending",
    conversation: WithinOption = None,
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List requests to people, by default those that are pending."""
    from changeover.cli.terminal.prompt import kind_words, matter_words
    from changeover.cli.terminal.render import print_list, when

    async def find(opened: OpenStore) -> list[Any]:
        from changeover.relay.ports.lists import ApprovalRow

        wanted = {} if status == "all" else {"status": status}
        return await opened.lists.listed(ApprovalRow, wanted, conversation, limit=limit + 1)

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
    team: TeamOption = None,
    by: ByOption = None,
    role: RoleOption = None,
    store: DecisionStoreOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Approve a request, or grant a permission."""
    from changeover.guards.approval import Approve

    _decide(id, Approve(), "approve", (by, role), (team, store), as_json)


@app.command()
def reject(  # noqa: PLR0913 - each is a declared option
    id: IdArgument,
    team: TeamOption = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="The reason, for the agent.")] = "",
    *,
    by: ByOption = None,
    role: RoleOption = None,
    store: DecisionStoreOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Reject a request, with a note for the agent."""
    from changeover.guards.approval import Reject

    _decide(id, Reject(note), "reject", (by, role), (team, store), as_json)


@app.command()
def edit(  # noqa: PLR0913 - each is a declared option
    id: IdArgument,
    arguments: Annotated[
        str, typer.Argument(metavar="JSON", help="All arguments of the call, as a JSON object: '{\"amount\": 5}'.")
    ],
    team: TeamOption = None,
    *,
    by: ByOption = None,
    role: RoleOption = None,
    store: DecisionStoreOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Approve a call with other arguments."""
    from changeover.cli.terminal.prompt import json_object
    from changeover.guards.approval import Edit

    if (given := json_object(arguments)) is None:
        raise typer.BadParameter(f"{arguments!r} is not a JSON object", param_hint="JSON")
    _decide(id, Edit(arguments=given), "edit", (by, role), (team, store), as_json)


@app.command()
def answer(  # noqa: PLR0913 - each is a declared option
    id: IdArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.")],
    team: TeamOption = None,
    *,
    by: ByOption = None,
    role: RoleOption = None,
    store: DecisionStoreOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Answer a task, an escalation, or in place of a call."""
    from changeover.guards.approval import Respond

    _decide(id, Respond(text), "answer", (by, role), (team, store), as_json)


@app.command()
def route(  # noqa: PLR0913 - each is a declared option
    id: IdArgument,
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="The member that gets the work.")],
    team: TeamOption = None,
    *,
    by: ByOption = None,
    role: RoleOption = None,
    store: DecisionStoreOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Give a task, an escalation or a handoff to another member."""
    from changeover.guards.approval import Edit

    _decide(id, Edit(receiver=receiver), "route", (by, role), (team, store), as_json)


for command in (approve, edit, reject, answer, route):
    command.__doc__ = f"{command.__doc__}\n\nThe run continues here, or at the server."
add_exits(approve, edit, reject, answer, route)


def _decide(
    id: str,
    decision: Decision,
    verb: str,
    who: tuple[str | None, list[str] | None],
    where: tuple[str | None, str | None],
    as_json: bool,
) -> None:
    (by, roles), (address, store) = who, where
    with errors_reported():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.prompt import user_name
        from changeover.cli.terminal.run_report import NextCommands, RunReport
        from changeover.ids import conversation_of, root_of

        named = by if by is not None else user_name()
        if (server := server_of(store)) is not None:
            on_server(server, lambda remote: remote.decisions.decide(id, decision, named))
            say(f"{id} is decided; the server continues the run")
            return
        address = required_team(address, "only the team knows what follows from a decision")
        team, _ = working_team(address, store)
        # The run belongs to the root, whichever delegate made the request.
        conversation = root_of(conversation_of(id))

        async def decide() -> None:
            await team.decide(id, decision, by=named, roles=roles or ())

        async def decided() -> AsyncGenerator[StreamItem, None]:
            is_pending = await _is_pending(team, id, verb)
            if not is_pending:
                await decide()  # raises, unless the same decision was made before
            async for item in team.follow(conversation, decide if is_pending else None):
                yield item

        report = RunReport(team, NextCommands(address, store))
        raise typer.Exit(report.run(conversation, decided, as_json))


async def _is_pending(team: Team, id: str, verb: str) -> bool:
    """True if this request is pending; raises ApprovalError if this subcommand does not fit it."""
    from changeover.cli.terminal.prompt import verb_fault
    from changeover.errors import ApprovalError

    request = next((each for each in await team.approvals() if each.id == id), None)
    if request is not None and (fault := verb_fault(request, verb)):
        raise ApprovalError(fault, approval=id)
    return request is not None
