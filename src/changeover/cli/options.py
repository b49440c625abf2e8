"""Options that several commands share, and which store a command uses."""

from __future__ import annotations

import os
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from changeover.cli.exits import Mistake

if TYPE_CHECKING:
    from changeover.stores.store import Store

VARIABLE = "CHANGEOVER_STORE"
FILE = "changeover.db"

TeamArgument = Annotated[
    str,
    typer.Argument(
        metavar="TEAM",
        help="file.py:name, package.module:name (a Team, or a function that returns one) or a YAML file.",
        show_default=False,
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help=f"sqlite:///file.db or postgresql://user@host/name. Without it: ${VARIABLE}, else ./{FILE} if it exists.",
        show_default=False,
    ),
]
TeamStoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help=f"Another store than the team's own. Without either: ${VARIABLE}, else ./{FILE}, made if need be.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
NoHandoffsOption = Annotated[bool, typer.Option("--no-handoffs", help="Each agent works alone.")]
RoleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="NAME",
        help="A role of whoever decides, where one is asked for. May be given several times.",
        show_default=False,
    ),
]
UserOption = Annotated[str | None, typer.Option("--user", help="Who is speaking.", show_default=False)]
WithinOption = Annotated[
    str | None,
    typer.Option("--conversation", metavar="ID", help="Only this one and its delegates.", show_default=False),
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="How many at most, newest first.")]


def seconds(value: float) -> float:
    """A number of seconds that an option takes."""
    if not isfinite(value) or value < 0:
        raise typer.BadParameter(f"{value:g} is no number of seconds")
    return value


def some_seconds(value: float) -> float:
    """The same, and not none."""
    if not seconds(value):
        raise typer.BadParameter("it must be more than 0 seconds")
    return value


def is_store_here() -> bool:
    """Whether there is a store that is meant where none is named."""
    return bool(os.environ.get(VARIABLE)) or Path(FILE).exists()


def store_of(url: str | None) -> Store:
    """The store that a command looks at."""
    from changeover.stores.store import Store

    if given := url or os.environ.get(VARIABLE):
        return Store(given)
    if Path(FILE).exists():
        return Store(f"sqlite:///{FILE}")
    raise Mistake(f"which store? Give --store URL or set {VARIABLE}; there is no {FILE} here")


def store_to_make(url: str | None) -> Store:
    """The store that a command may begin."""
    from changeover.stores.store import Store

    return Store(url or os.environ.get(VARIABLE) or f"sqlite:///{FILE}")
