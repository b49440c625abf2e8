"""Commands `export`, `import` and `schema`: a team as one document, out of a store and into it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.declarations import Editor, Text, WriterOption, edited
from changeover.cli.exits import Exit, errors_reported, say, tell
from changeover.cli.options import JsonOption, StoreOption, TeamOption, has_default_store

if TYPE_CHECKING:
    from changeover.agent.agent import Member
    from changeover.documents.team_export import TeamExport
    from changeover.relay.declarations import Declaration, Edit, Kind
    from changeover.team import Team

KINDS: dict[str, Kind] = {"agents": "agent", "tools": "tool", "skills": "skill", "settings": "team"}
"""The kinds of rows, by the sections of a document."""


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
    """Print a team as one document: what the store declares and, with --team, what its code does.

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

    with errors_reported():
        loaded = load_team(team)
        code = _of_code(loaded)
    # A command that only reads creates no store.
    if store is None and loaded.declared.store is None and not has_default_store():
        return code
    rows = edited("team", team, store, _document)
    return TeamExport(_united(code.document, rows), code.left_out)


def _of_code(team: Team) -> TeamExport:
    from changeover.documents.team_export import export_team
    from changeover.documents.tool_modules import ToolModules

    declared = team.declared
    members = [_packed(member) for member in declared.members]
    return export_team(members, vars(declared), ToolModules(declared.tool_modules))


def _packed(member: Member) -> Member:
    """The member with the texts of its skills' folders in it."""
    from changeover.agent.agent import Agent
    from changeover.toolkits.skills import packed_skill

    if not isinstance(member, Agent) or not member.skills:
        return member
    return replace(member, skills=tuple(map(packed_skill, member.skills)))


async def _document(editor: Editor) -> dict[str, Any]:
    from changeover.ids import DEFAULT_TEAM
    from changeover.union import document_of

    found = document_of(await editor.declarations.listed(), editor.team)
    named = {} if editor.team == DEFAULT_TEAM else {"name": editor.team}
    return {key: value for key, value in {**named, **found}.items() if value != {}}


def _united(code: dict[str, Any], rows: dict[str, Any]) -> dict[str, Any]:
    """The document of code and rows; code wins."""
    sections = {key: {**rows.get(key, {}), **code.get(key, {})} for key in ("agents", "tools", "skills")}
    return {key: value for key, value in {**rows, **code, **sections}.items() if value != {}}


def import_team(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A document in YAML or JSON; - for standard input.")],
    yes: Annotated[bool, typer.Option("--yes", help="Write it; without this, what would change is shown.")] = False,
    by: WriterOption = None,
    team: TeamOption = None,
    store: StoreOption = None,
) -> None:
    """Declare what a document holds in a store: agents, tools, skills and settings, all of it or nothing.

    What the store declares besides stays as it is.
    """
    edited("team", team, store, lambda editor: _imported(editor, Text.of_file(file), yes, by))


async def _imported(editor: Editor, text: Text, yes: bool, by: str | None) -> None:
    from changeover.cli.terminal.prompt import user_name
    from changeover.documents.team_document import split_team

    await editor.read(text)
    current = {each.key: each for each in await editor.declarations.listed(include_removed=True)}
    edits = list(_edits(split_team(text.text, text.source), current))
    if not edits:
        tell("the store declares all of it already")
        return
    for edit in edits:
        say(_words(edit, current.get((edit.kind, edit.name))))
    if yes:
        await editor.declarations.write(edits, by=by or user_name())
        tell(f"{len(edits)} declarations are written; they hold from the next run on")
    else:
        tell("nothing is written; to write it: --yes")


def _edits(
    documents: Sequence[tuple[str, str, dict[str, Any]]], current: dict[tuple[Kind, str], Declaration]
) -> Iterator[Edit]:
    """The changes that make the rows of a store equal to these documents."""
    from changeover.relay.declarations import Edit

    for section, name, document in documents:
        row = current.get((KINDS[section], name))
        if row is None or row.state == "removed" or row.document != document:
            yield Edit(KINDS[section], name, document, expected=row.version if row else 0)


def _words(edit: Edit, row: Declaration | None) -> str:
    what = f"{edit.kind} {edit.name}"
    if row is None:
        return f"+ {what}"
    if row.state == "removed":
        return f"+ {what} (it was removed)"
    after = dict(edit.document or {})
    changed = [key for key in {**row.document, **after} if row.document.get(key) != after.get(key)]
    return f"~ {what}: {', '.join(changed)}"
