"""Commands that agents, tools and skills share: declare them as rows of a store, change, show and withdraw them."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from changeover.cli.exits import Mistake, errors_reported, one_line, say, tell
from changeover.cli.options import JsonOption, StoreOption, TeamOption, in_database, on_server, server_of
from changeover.cli.terminal.help import App

if TYPE_CHECKING:
    from changeover.documents.shape import Scope
    from changeover.documents.team_document import Named
    from changeover.documents.tool_modules import ToolModules
    from changeover.relay.ports.declarations import Declaration, Declarations, Kind, Standing
    from changeover.stores.remote import RemoteStore
    from changeover.team import Team

T = TypeVar("T")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
FileOption = Annotated[
    str | None, typer.Option("--file", metavar="FILE", help="Its document in YAML or JSON; - for standard input.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A key of its document; the value is YAML. May be repeated."),
]
VersionOption = Annotated[int | None, typer.Option("--version", metavar="N", min=1, help="An earlier version.")]
ExpectOption = Annotated[
    int | None,
    typer.Option(
        "--expect", metavar="N", min=0, help="Write only if it is at this version. Default: the one that was read."
    ),
]
WriterOption = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="The person who changes it. Default: the login name.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Removed ones too.")]


class Editor:
    """The declarations of one kind in a store that a command has opened, beside the code of a team if it has one."""

    def __init__(
        self, kind: Kind, declarations: Declarations, modules: ToolModules, beside: Sequence[Named], team: str
    ) -> None:
        self.kind, self.declarations, self.team = kind, declarations, team
        self._modules, self._beside = modules, beside

    async def one(self, name: str, version: int | None = None) -> Declaration:
        """A declaration, in its current version or in this one; raises Mistake."""
        if (found := await self.declarations.one(self.kind, name, version)) is not None:
            return found
        names = ", ".join(each.name for each in await self.declarations.listed(self.kind)) or "none"
        numbered = f" with version {version}" if version else ""
        raise Mistake(f"the store declares no {self.kind} {name!r}{numbered}; there are: {names}")

    async def put(self, name: str, document: Mapping[str, Any] | Text, by: str | None, expected: int | None) -> None:
        """Write a document and say so. The faults of a text have its lines and columns."""
        from changeover.cli.terminal.prompt import user_name

        whole = await self._checked(name, document) if isinstance(document, Text) else document
        row = await self.declarations.put(self.kind, name, whole, by=by or user_name(), expected=expected)
        say(f"{self.kind} {name} is at version {row.version}; it holds from the next run on")

    async def add(self, name: str, document: Mapping[str, Any] | Text, by: str | None) -> None:
        """Write the document of a new declaration, or of a removed one; raises Mistake if there is one."""
        row = await self.declarations.one(self.kind, name)
        if row is not None and row.state != "removed":
            change = f"changeover {self.kind}s edit {name}"
            raise Mistake(f"the store declares {self.kind} {name!r} already; to change it: {change}")
        await self.put(name, document, by, row.version if row else 0)

    async def _checked(self, name: str, text: Text) -> dict[str, Any]:
        from changeover.documents.team_document import read_one

        return read_one(f"{self.kind}s", name, text.text, text.source, await self.scope(name))

    async def scope(self, name: str = "") -> Scope:
        """What a declaration may name: members, tools and skills of code and store; also an agent of this name."""
        from changeover.union import scope_over

        rows = await self.declarations.listed(include_removed=True)
        return scope_over(rows, self.team, self._modules, self._beside, name if self.kind == "agent" else "")

    async def read(self, text: Text) -> None:
        """Check the document of a team, which may name what the store declares; raises DocumentError with all faults,
        each with its line and column."""
        from changeover.exchange import check_import

        rows = await self.declarations.listed(include_removed=True)
        check_import(text.text, text.source, rows, self.team, self._modules, self._beside)

    async def set_state(self, name: str, state: Standing, by: str | None) -> Declaration:
        """Enable, disable or remove a declaration."""
        from changeover.cli.terminal.prompt import user_name

        await self.one(name)
        return await self.declarations.set_state(self.kind, name, state, by=by or user_name())


class RemoteEditor(Editor):
    """The declarations behind a server, which checks each change together with the team that it serves."""

    def __init__(self, kind: Kind, store: RemoteStore) -> None:
        from changeover.documents.tool_modules import ToolModules
        from changeover.ids import DEFAULT_TEAM

        super().__init__(kind, store.declarations, ToolModules(()), (), DEFAULT_TEAM)
        self.tools = store.tools

    async def _checked(self, name: str, text: Text) -> dict[str, Any]:
        from changeover.documents.yaml_value import parse_yaml
        from changeover.handoffs.json_value import json_copy

        document: dict[str, Any] = json_copy(parse_yaml(text.text, text.source).raw())
        return document

    async def read(self, text: Text) -> None:
        """Leave the check to the server: only it knows the code of its team."""


class Text:
    """A document as a person wrote it."""

    def __init__(self, text: str, source: str) -> None:
        self.text, self.source = text, source

    @classmethod
    def of_file(cls, file: str) -> Text:
        """The text of a file, or of standard input; raises Mistake."""
        if file == "-":
            return cls(sys.stdin.read(), "standard input")
        try:
            return cls(Path(file).read_text(encoding="utf-8"), file)
        except FileNotFoundError:
            raise Mistake(f"there is no file {file}") from None
        except UnicodeDecodeError:
            raise Mistake(f"{file} is not valid UTF-8") from None
        except OSError as error:
            raise Mistake(f"{file} cannot be read: {error.strerror}") from error


@errors_reported()
def edited(
    kind: Kind, team: str | None, store: str | None, work: Callable[[Editor], Awaitable[T]], *, make: bool = False
) -> T:
    """Do the work on the declarations of the store that a command names, or of its team. A file that is missing is made
    if the command may `make` it."""
    from changeover.cli.teams import working_team

    if (server := server_of(store)) is not None:
        return on_server(server, lambda remote: work(RemoteEditor(kind, remote)))
    if team is not None:
        return asyncio.run(_with_team(kind, working_team(team, store)[0], work))
    return in_database(store, lambda opened: work(editor_of(kind, opened.declarations)), make=make)


def editor_of(kind: Kind, declarations: Declarations) -> Editor:
    """An editor of declarations by themselves, without the code of a team."""
    from changeover.ids import DEFAULT_TEAM

    modules = listed_modules(Path())
    return Editor(kind, declarations.checked_by(_alone(modules)), modules, (), DEFAULT_TEAM)


async def _with_team(kind: Kind, found: Team, work: Callable[[Editor], Awaitable[T]]) -> T:
    from changeover.documents.tool_modules import ToolModules
    from changeover.union import in_code

    declared = found.declared
    try:
        modules = ToolModules(declared.tool_modules)
        return await work(Editor(kind, found.declarations, modules, in_code(declared), declared.name))
    finally:
        await found.close()


def listed_modules(folder: Path) -> ToolModules:
    """The modules that the environment lists for documents, as seen from this folder."""
    from changeover.cli.teams import module_at
    from changeover.documents.tool_modules import VARIABLE, ToolModules

    def load(module: str) -> Any:
        try:
            return module_at(module, folder)
        except Mistake as mistake:
            raise ImportError(str(mistake)) from mistake

    return ToolModules.of_text(os.environ.get(VARIABLE, ""), load)


def _alone(modules: ToolModules) -> Callable[[Sequence[Declaration]], None]:
    """The check of rows by themselves, without the code of a team."""

    def check(rows: Sequence[Declaration]) -> None:
        from changeover.errors import MisconfiguredError
        from changeover.union import read_rows

        teams = [each.name for each in rows if each.kind == "team"] or [""]
        try:
            for team in teams:
                read_rows(rows, team, modules)
        except MisconfiguredError:
            tell("the store is checked by itself; if code declares what it names, give --team TEAM")
            raise

    return check


def given(sets: Sequence[str] | None, before: Mapping[str, Any]) -> dict[str, Any]:
    """A document with the keys that options set; raises Mistake. A key without a value is dropped."""
    from changeover.documents.yaml_value import parse_yaml

    document = dict(before)
    for each in sets or ():
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise Mistake(f"--set {each!r} is not KEY=VALUE")
        if value:
            document[key] = parse_yaml(value, f"--set {key}").raw()
        else:
            document.pop(key, None)
    return document


def add_commands(app: App, kind: Kind) -> None:
    """Give a group the commands that all kinds share, apart from `add` and `list`."""

    @app.command("edit")
    def edit(  # noqa: PLR0913 - each is a declared option
        name: NameArgument,
        file: FileOption = None,
        sets: SetOption = None,
        expect: ExpectOption = None,
        by: WriterOption = None,
        *,
        team: TeamOption = None,
        store: StoreOption = None,
    ) -> None:
        """Change a document: by --set, by --file, or else in your editor.

        Nothing is written if another person has changed it meanwhile.
        """

        async def work(editor: Editor) -> None:
            row = await editor.one(name)
            expected = row.version if expect is None else expect
            if sets and file is None:
                await editor.put(name, given(sets, row.document), by, expected)
                return
            text = Text.of_file(file) if file else _in_editor(row)
            with _kept(text, file is None):
                await editor.put(name, text, by, expected)

        edited(kind, team, store, work)

    @app.command("history")
    def history(name: NameArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
        """List all versions: when each was written, and who wrote it."""
        from changeover.cli.terminal.render import print_json, print_table

        async def find(editor: Editor) -> list[Declaration]:
            await editor.one(name)
            return await editor.declarations.history(kind, name)

        rows = edited(kind, None, store, find)
        if as_json:
            print_json([as_data(row) for row in rows])
        else:
            print_table([_line(row) for row in rows], "no versions")


def add_states(app: App, kind: Kind) -> None:
    """Give a group the commands that list, show, withdraw and bring back declarations. Agents have commands of their
    own, which also know the agents of code."""

    @app.command("disable")
    def disable(name: NameArgument, by: WriterOption = None, store: StoreOption = None) -> None:
        """Disable it from the next run on, until it is enabled."""
        _switched(kind, name, "disabled", by, store)

    @app.command("enable")
    def enable(name: NameArgument, by: WriterOption = None, store: StoreOption = None) -> None:
        """Bring it back after it was disabled or removed."""
        _switched(kind, name, "enabled", by, store)

    @app.command("remove")
    def remove(name: NameArgument, by: WriterOption = None, store: StoreOption = None) -> None:
        """Remove it from the next run on; its versions stay."""
        _switched(kind, name, "removed", by, store)

    @app.command("list")
    def list_all(store: StoreOption = None, every: AllOption = False, as_json: JsonOption = False) -> None:
        """List what the store declares."""
        from changeover.cli.terminal.render import print_json, print_table

        rows = edited(kind, None, store, lambda editor: editor.declarations.listed(kind, every))
        if as_json:
            print_json([as_data(row) for row in rows])
        else:
            print_table([{"name": row.name, **_about(row), **_line(row)} for row in rows], f"no {kind}s")

    @app.command("show")
    def show(
        name: NameArgument, version: VersionOption = None, store: StoreOption = None, as_json: JsonOption = False
    ) -> None:
        """Show its document, as it stands in a file."""
        row = edited(kind, None, store, lambda editor: editor.one(name, version))
        show_row(row, as_json)


def _switched(kind: Kind, name: str, state: Standing, by: str | None, store: str | None) -> None:
    edited(kind, None, store, lambda editor: editor.set_state(name, state, by))
    back = "" if state == "enabled" else f"; to undo that: changeover {kind}s enable {name}"
    say(f"{kind} {name} is {state} from the next run on{back}")


def show_row(row: Declaration, as_json: bool = False) -> None:
    """Print a declaration with its document."""
    from changeover.cli.terminal.render import print_json, when
    from changeover.documents.yaml_value import to_yaml

    if as_json:
        print_json(as_data(row))
        return
    by = f" by {row.by}" if row.by else ""
    say(f"# {row.kind} {row.name}, version {row.version}, {row.state}, {when(row.at)}{by}")
    say(to_yaml(row.document).rstrip("\n"))


def as_data(row: Declaration) -> dict[str, Any]:
    """A declaration as JSON."""
    from changeover.cli.terminal.render import json_time

    return {
        "name": row.name,
        "version": row.version,
        "edition": row.edition,
        "state": row.state,
        "at": json_time(row.at),
        "by": row.by,
        "document": row.document,
    }


def _line(row: Declaration) -> dict[str, str]:
    from changeover.cli.terminal.render import when

    return {"version": str(row.version), "state": row.state, "written": when(row.at), "by": one_line(row.by)}


def _about(row: Declaration) -> dict[str, str]:
    return {"type": str(row.document["type"])} if "type" in row.document else {}


def _in_editor(row: Declaration) -> Text:
    """The document as the user leaves it in an editor; raises Mistake if it stays as it was."""
    import click

    from changeover.documents.yaml_value import to_yaml

    before = to_yaml(row.document)
    after = click.edit(before, extension=".yaml")
    if after is None or after == before:
        raise Mistake("the document is as it was; nothing is written")
    return Text(after, f"{row.kind} {row.name}")


@contextmanager
def _kept(text: Text, wanted: bool) -> Iterator[None]:
    """Keep what was written in an editor in a file if it cannot be stored."""
    from changeover.errors import ChangeoverError

    try:
        yield
    except ChangeoverError:
        if wanted:
            with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False, encoding="utf-8") as file:
                file.write(text.text)
            tell(f"what you wrote is in {file.name}; correct it, and give it as --file")
        raise
