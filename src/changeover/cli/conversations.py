"""Command `conversations`: list the conversations of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from changeover.cli.exits import one_line
from changeover.cli.options import ALL_ROWS, JsonOption, LimitOption, OpenStore, StoreOption, in_store
from changeover.cli.terminal.help import App, among

if TYPE_CHECKING:
    from changeover.relay.lists import ConversationRow, RecordLists

Status = Literal["running", "interrupted", "waiting", "completed", "failed", "cancelled"]


app = App("List conversations.")


@app.command("list")
def list_conversations(  # noqa: PLR0913 - each is a declared option
    status: Annotated[
        Status | None,
        typer.Option(
            "--status", metavar="STATUS", help=f"Only those with this status. {among(Status)}", show_default=False
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="Only those of this user.", show_default=False)
    ] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="TEXT", help="Only those with this text in title or id.", show_default=False),
    ] = None,
    *,
    delegates: Annotated[bool, typer.Option("--delegates", help="Include the conversations of delegates.")] = False,
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List conversations, newest first."""
    from changeover.cli.terminal.render import print_list, when

    async def find(opened: OpenStore) -> list[Any]:
        from changeover.relay.lists import ConversationRow

        given = {"status": status, "user": user, "text": search}
        wanted = {name: value for name, value in given.items() if value is not None}
        rows = await opened.lists.listed(ConversationRow, wanted, limit=limit + 1, roots=not delegates)
        return [await _with_all_handoffs(opened.lists, row) for row in rows]

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
    )


async def _with_all_handoffs(lists: RecordLists, row: ConversationRow) -> ConversationRow:
    """The row with the handoffs of all its runs and delegates; the stored count is what limits need, of one run."""
    from msgspec.structs import replace

    from changeover.relay.lists import HandoffRow

    offered = await lists.listed(HandoffRow, within=row.id, limit=ALL_ROWS)
    return replace(row, handoffs=sum(each.accepted_at is not None for each in offered))
