"""Command `conversations`: list the conversations of a store, and how the context of one came about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from changeover.cli.exits import one_line
from changeover.cli.options import IdArgument, JsonOption, LimitOption, OpenStore, StoreOption, in_store
from changeover.cli.terminal.help import App, among

if TYPE_CHECKING:
    from changeover.relay.context_flow import Change, ValueFlow

Status = Literal["running", "interrupted", "waiting", "completed", "failed", "cancelled"]


app = App("List conversations, and show how the context of one came about.")


@app.command("list")
def list_conversations(  # noqa: PLR0913 - each is a declared option
    status: Annotated[
        Status | None, typer.Option("--status", metavar="STATUS", help=f"Only those with this status. {among(Status)}")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Only those of this user.")] = None,
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="Only those with this text in title or id.")
    ] = None,
    *,
    delegates: Annotated[bool, typer.Option("--delegates", help="Include the conversations of delegates.")] = False,
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List conversations, newest first.

    A terminal shows a line for each: where it is too narrow for all columns, --json has the others.
    """
    from changeover.cli.terminal.render import print_list, when

    async def find(opened: OpenStore) -> list[Any]:
        from changeover.relay.ports.lists import ConversationRow

        given = {"status": status, "user": user, "text": search}
        wanted = {name: value for name, value in given.items() if value is not None}
        return list(await opened.lists.listed(ConversationRow, wanted, limit=limit + 1, roots=not delegates))

    print_list(
        in_store(store, find),
        limit,
        as_json,
        lambda row: {
            "conversation": row.id,
            "status": row.status,
            "agent": row.agent,
            "handoffs": str(row.handoffs),
            "updated": when(row.updated_at),
            "user": one_line(row.user),
            "title": one_line(row.title),
        },
        "no conversations",
        spare=("user", "updated", "handoffs", "agent"),
    )


@app.command("flow")
def flow(id: IdArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show which hop set, changed or removed each context variable and artifact, from what to what."""
    from changeover.cli.terminal.render import print_json, print_table, without_empty

    found = in_store(store, lambda opened: opened.lists.context_flow(id))
    if as_json:
        print_json([_flow_data(each) for each in found])
        return
    rows = [_flow_row(each, change) for each in found for change in each.changes]
    print_table(without_empty(rows), "no context variables and no artifacts")


def _flow_data(flow: ValueFlow) -> dict[str, Any]:
    from changeover.cli.terminal.render import as_data

    return {"name": flow.name, "kind": flow.kind, "changes": [as_data(each) for each in flow.changes]}


def _flow_row(flow: ValueFlow, change: Change) -> dict[str, str]:
    import json

    before, after = (
        one_line(json.dumps(value, ensure_ascii=False)) if shown else "-"
        for value, shown in ((change.before, change.effect != "set"), (change.after, change.effect != "removed"))
    )
    return {
        "name": one_line(flow.name),
        "kind": flow.kind if flow.kind != "variable" else "",
        "by": f"{change.source} {one_line(change.tool)}".strip(),
        "agent": change.agent,
        "hop": change.hop or change.conversation,
        "from": before,
        "to": after,
    }
