"""Help of commands, and App: a Typer whose commands print it and whose groups have a default command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from changeover.cli.exits import console, interruption_reported

F = TypeVar("F", bound=Callable[..., Any])
HELP_OPTIONS = ["-h", "--help"]
PANELS = ("Start", "Talk", "Work", "Inspect", "Declare", "Operate")
FIRST = ("list", "show", "add", "edit", "history", "disable", "enable", "remove")
"""The commands that stand first in every group which has them; others follow in the order of the code."""
PLAIN = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "it is not a whole number",
    "Input should be a valid number, unable to parse string as a number": "it is not a number",
    "Input should be": "it should be",
}
"""Parts of the messages of Typer's parser, and what we say instead."""
LEFT = 30
"""The widest left column; a longer entry has a line of its own."""


def among(choices: Any) -> str:
    """The values of a Literal as a sentence for the help of an option."""
    return f"One of: {', '.join(get_args(choices))}."


class Helpful:
    """Help that fits 80 columns: no type names, choices in words, nothing cut."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        _print_help(self, ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words behind the name of the command, for errors too."""
        return _usage(self, ctx)


class HelpCommand(Helpful, TyperCommand):
    """A command with our help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; what is wrong with a value is said in plain words."""
        try:
            found: list[str] = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            for theirs, ours in PLAIN.items():
                error.message = error.message.replace(theirs, ours)
            raise
        return found


class HelpGroup(Helpful, TyperGroup):
    """A group of commands with our help. Called without one it lists, if it has the command `list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `list` before options that come without a command."""
        is_own = bool(args) and (args[0] in HELP_OPTIONS or not args[0].startswith("-"))
        if "list" in self.commands and not is_own:
            args = ["list", *args]
        with interruption_reported():
            found: list[str] = super().parse_args(ctx, args)
        return found

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with interruption_reported():
            return super().invoke(ctx)


class App(typer.Typer):
    """A Typer with our help; `panel` is the heading under which a command is listed."""

    def __init__(self, help: str, **options: Any) -> None:
        settings = {"help_option_names": HELP_OPTIONS}
        super().__init__(help=help, cls=HelpGroup, context_settings=settings, pretty_exceptions_enable=False, **options)

    def add(self, command: Callable[..., Any] | typer.Typer, name: str, panel: str) -> None:
        """Add a command or a group."""
        if isinstance(command, typer.Typer):
            self.add_typer(command, name=name, rich_help_panel=panel)
        else:
            self.command(name, rich_help_panel=panel)(command)

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """As in Typer, with our help."""
        return super().command(name, cls=HelpCommand, **options)


def _print_help(command: Any, ctx: Any) -> None:
    from rich.text import Text

    out = console()
    out.print(Text(f"Usage: {usage(command, ctx)}", "bold"), soft_wrap=True)
    for paragraph in paragraphs(command):
        out.print()
        out.print(Text(paragraph))
    found = sections(command, ctx)
    left = min(max((len(name) for rows in found.values() for name, _ in rows), default=0) + 4, LEFT)
    for title, rows in found.items():
        out.print()
        out.print(Text(title, "bold yellow"))
        _print_rows(out, rows, left)


def usage(command: Any, ctx: Any) -> str:
    """The usage line of a command."""
    return " ".join([ctx.command_path, *_usage(command, ctx)])


def paragraphs(command: Any) -> list[str]:
    """What a command does, a line for each paragraph."""
    return [" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n")]


def sections(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """The arguments, commands and options of a command under their headings, each with its explanation."""
    shown = [each for each in command.get_params(ctx) if not getattr(each, "hidden", False)]
    arguments = [each for each in shown if isinstance(each, TyperArgument)]
    found = {
        "Arguments": [(_metavar(each), each.help or "") for each in arguments],
        **_commands(command),
        "Options": [(_option(each), " ".join(_sentences(each))) for each in shown if each not in arguments],
    }
    return {title: rows for title, rows in found.items() if rows}


def _print_rows(out: Any, rows: Iterable[tuple[str, str]], left: int) -> None:
    from rich.text import Text

    for name, about in rows:
        lead = Text(f"  {name}", "cyan")
        if lead.cell_len > left - 2:
            out.print(lead, soft_wrap=True)
            lead = Text("")
        lines = list(Text(about).wrap(out, max(out.width - left, 20))) or [Text("")]
        for index, line in enumerate(lines):
            line.rstrip()
            start = lead if not index else Text("")
            out.print(Text.assemble(start, " " * (left - start.cell_len) if line else "", line), soft_wrap=True)


def _commands(group: Any) -> dict[str, list[tuple[str, str]]]:
    """The commands of a group under their headings, with the first sentence of each."""
    found: dict[str, list[tuple[str, str]]] = {}
    commands = getattr(group, "commands", {}).items()
    for name, each in sorted(commands, key=lambda each: FIRST.index(each[0]) if each[0] in FIRST else len(FIRST)):
        found.setdefault(each.rich_help_panel or "Commands", []).append((name, paragraphs(each)[0]))
    order = [panel for panel in PANELS if panel in found] + [panel for panel in found if panel not in PANELS]
    return {panel: found[panel] for panel in order}


def _usage(command: Any, ctx: Any) -> list[str]:
    if isinstance(command, TyperGroup):
        return ["[OPTIONS]", "[COMMAND]" if "list" in command.commands else "COMMAND"]
    arguments = [each for each in command.get_params(ctx) if isinstance(each, TyperArgument)]
    return ["[OPTIONS]", *(_metavar(each) if each.required else f"[{_metavar(each)}]" for each in arguments)]


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _option(param: Any) -> str:
    names = ", ".join(sorted([*param.opts, *param.secondary_opts], key=len))
    return names if param.is_flag else f"{names} {_metavar(param)}"


def _sentences(param: Any) -> Iterator[str]:
    """What an option is for, its default, and the variable that sets it."""
    if param.help:
        yield param.help
    default = param.show_default if isinstance(param.show_default, str) else param.default
    if param.show_default and not param.is_flag and default not in (None, "", ()):
        yield f"Default: {default}."
    if param.envvar:
        yield f"Default: ${param.envvar}."
