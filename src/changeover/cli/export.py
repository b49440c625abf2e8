"""Commands `export`, `import` and `schema`: a team as one document, out of a store and into it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.declarations import Editor, Text, WriterOption, edited, editor_of
from changeover.cli.exits import Exit, errors_reported, say, tell
from changeover.cli.options import JsonOption, NewStoreOption, StoreOption, TeamOption, has_default_store, server_of

if TYPE_CHECKING:
    from changeover.documents.team_export import TeamExport
    from changeover.relay.ports.declarations import Declaration, Edit


def schema() -> None:
    """Print the JSON schema of a team's document, with which editors complete and check it."""
    from changeover.cli.terminal.render import print_json
    from changeover.documents.team_schema import team_schema

    print_json(team_schema())


def export(
    team: TeamOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Leave out what only code can express, and say what it is.")
    ] = False,
) -> None:
    """Print a team as one document: what the store declares and, with --team, what its code declares.

    Secrets are in it as references only.
    """
    from changeover.cli.terminal.render import print_json
    from changeover.documents.yaml_value import to_yaml

    found = _exported(team, store)
    for each in found.left_out:
        tell(f"only code can express {each}")
    if found.left_out and not partial:
        tell("changeover: nothing is printed; to leave that out: --partial")
        raise typer.Exit(Exit.FAILED)
    if as_json:
        print_json(found.document)
    else:
        say(to_yaml(found.document).rstrip("\n"))


def _exported(team: str | None, store: str | None) -> TeamExport:
    from changeover.documents.team_export import TeamExport

    if team is None:
        return TeamExport(edited("team", None, store, _document), ())
    from changeover.cli.teams import load_team
    from changeover.exchange import code_export, united

    with errors_reported():
        loaded = load_team(team, store=store)
        code = code_export(loaded.declared)
    # A command that only reads creates no store.
    if store is None and loaded.declared.store is None and not has_default_store():
        return code
    rows = edited("team", team, store, _document)
    return TeamExport(united(code.document, rows), code.left_out)


async def _document(editor: Editor) -> dict[str, Any]:
    from changeover.exchange import rows_document

    return rows_document(await editor.declarations.listed(), editor.team)


def import_team(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A document in YAML or JSON; - for standard input.")],
    yes: Annotated[bool, typer.Option("--yes", help="Write it; without this, what would change is shown.")] = False,
    by: WriterOption = None,
    team: TeamOption = None,
    store: NewStoreOption = None,
) -> None:
    """Declare what a document holds in a store: agents, tools, skills and settings, all of it or nothing.

    Other declarations of the store stay as they are.
    """

    async def work(editor: Editor) -> None:
        await _imported(editor, Text.of_file(file), yes, by)

    if yes or team or store or server_of(store) or has_default_store():
        edited("team", team, store, work, make=yes)
    else:  # what would change in the store that does not exist yet
        with errors_reported():
            asyncio.run(work(_editor_of_nothing()))


def _editor_of_nothing() -> Editor:
    from changeover.stores.memory.log import MemoryLog

    return editor_of("team", MemoryLog().declarations)


async def _imported(editor: Editor, text: Text, yes: bool, by: str | None) -> None:
    from changeover.cli.terminal.prompt import user_name
    from changeover.exchange import import_edits

    await editor.read(text)
    rows = await editor.declarations.listed(include_removed=True)
    current = {each.key: each for each in rows}
    edits = import_edits(text.text, text.source, rows)
    if not edits:
        tell("the store declares all of it already")
        return
    for edit in edits:
        say(_words(edit, current.get((edit.kind, edit.name))))
    if yes:
        await editor.declarations.write(edits, by=by or user_name())
        tell(f"written: {len(edits)}; what is declared holds from the next run on")
    else:
        tell("nothing is written; to write it: --yes")


def _words(edit: Edit, row: Declaration | None) -> str:
    from changeover.exchange import changed_keys

    what = f"{edit.kind} {edit.name}"
    if row is None:
        return f"+ {what}"
    if row.state == "removed":
        return f"+ {what} (it was removed)"
    return f"~ {what}: {', '.join(changed_keys(edit, row))}"
