"""Command `skills`: declare skills as rows of a store, change, show and withdraw them."""

from __future__ import annotations

from typing import Annotated

import typer

from changeover.cli.declarations import (
    Editor,
    FileOption,
    NameArgument,
    SetOption,
    Text,
    WriterOption,
    add_commands,
    add_states,
    edited,
    given,
)
from changeover.cli.exits import Mistake
from changeover.cli.options import NewStoreOption, TeamOption
from changeover.cli.terminal.help import App

app = App("Declare skills in a store, change and withdraw them.")
add_states(app, "skill")
add_commands(app, "skill")

FolderOption = Annotated[
    str | None, typer.Option("--folder", metavar="FOLDER", help="A folder with a SKILL.md and further texts.")
]


@app.command()
def add(  # noqa: PLR0913 - each is a declared option
    name: NameArgument,
    folder: FolderOption = None,
    file: FileOption = None,
    sets: SetOption = None,
    by: WriterOption = None,
    *,
    team: TeamOption = None,
    store: NewStoreOption = None,
) -> None:
    """Declare a skill, with the texts of a folder or of a document."""

    async def work(editor: Editor) -> None:
        if folder is not None:
            await editor.add(name, _packed(name, folder), by)
        else:
            await editor.add(name, Text.of_file(file) if file else given(sets, {}), by)

    edited("skill", team, store, work, make=True)


def _packed(name: str, folder: str) -> dict[str, object]:
    """The document of the skill in a folder."""
    from changeover.toolkits.skills import packed_skill

    skill = packed_skill(folder)
    if skill.name != name:
        raise Mistake(f"the skill in {folder} is called {skill.name!r}, not {name!r}")
    files = {"files": dict(skill.files)} if skill.files else {}
    return {"description": skill.description, "instructions": skill.instructions, **files}
