"""Arguments and options that several commands share, and the store that they choose."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, TypeVar

import typer

from changeover.cli.exits import Mistake, errors_reported, tell

if TYPE_CHECKING:
    from changeover.relay.ports.declarations import Declarations
    from changeover.relay.ports.lists import RecordLists
    from changeover.relay.ports.log import Breakers
    from changeover.relay.ports.queue import Queued
    from changeover.relay.ports.tables import Agents, Lessons
    from changeover.relay.ports.tokens import Tokens
    from changeover.stores.calls import Work
    from changeover.stores.remote import RemoteStore
    from changeover.stores.sql.log import SqlLog
    from changeover.stores.store import Store
    from changeover.stores.views import Views
    from changeover.team import Team

T = TypeVar("T")

VARIABLE = "CHANGEOVER_STORE"
SERVER_VARIABLE, TOKEN_VARIABLE = "CHANGEOVER_SERVER", "CHANGEOVER_TOKEN"
FILE = "changeover.db"
HOST = re.compile(r"[\w.-]+:\d+(?:/.*)?|\[[\da-fA-F:]+\]:\d+(?:/.*)?")
"""The address of a server without its scheme."""
ALL_ROWS = 10_000
"""The limit of a list that is read whole, to count or to search in it."""

TEAM_FORMS = (
    "file.py, file.py:name, package.module:name (a Team, or a function that returns one), a YAML file,"
    " or the word store: the team that the store declares."
)
TeamArgument = Annotated[str, typer.Argument(metavar="TEAM", help=TEAM_FORMS)]
STORE_FORMS = "A file, sqlite:///file.db or postgresql://user@host/name."
SERVER_FORM = f"Or the address of a server, http://host:8765; its token is ${TOKEN_VARIABLE}."
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="An id from the list.")]
DatabaseOption = Annotated[
    str | None,
    typer.Option("--store", metavar="STORE", help=f"{STORE_FORMS} Default: ${VARIABLE}, else ./{FILE} if it exists."),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        "--server",
        metavar="STORE",
        help=f"{STORE_FORMS} {SERVER_FORM} Default: ${SERVER_VARIABLE}, else ${VARIABLE}, else ./{FILE} if it exists.",
    ),
]
TeamStoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="STORE",
        help=f"{STORE_FORMS} Default: the team's own, else ${VARIABLE}, else ./{FILE}, which is made if it is missing.",
    ),
]
DecisionStoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        "--server",
        metavar="STORE",
        help=f"{STORE_FORMS} Or the address of a server, which knows the team and goes on with it; its token is"
        f" ${TOKEN_VARIABLE}. Default: ${SERVER_VARIABLE}, else the team's own store, ${VARIABLE} or ./{FILE}.",
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Where conversations run: temporal://host:7233/namespace?queue=NAME. Default: the team's own, else this"
        " process.",
    ),
]
TeamOption = Annotated[
    str | None, typer.Option("--team", metavar="TEAM", envvar="CHANGEOVER_TEAM", help=f"The team. {TEAM_FORMS}")
]
NewStoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        "--server",
        metavar="STORE",
        help=f"{STORE_FORMS} A file is made if it is missing. {SERVER_FORM}"
        f" Default: ${SERVER_VARIABLE}, else ${VARIABLE}, else ./{FILE}.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonLinesOption = Annotated[
    bool, typer.Option("--json", help="Print each event as a line of JSON, and last the result.")
]
NoHandoffsOption = Annotated[bool, typer.Option("--no-handoffs", help="Switch handoffs off: each agent works alone.")]
RoleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--role", metavar="NAME", help="A role of the person who decides, where a request needs one. May be repeated."
    ),
]
ByOption = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="The person who decides. Default: the login name.")
]
UserOption = Annotated[str | None, typer.Option("--user", metavar="NAME", help="The user who speaks.")]
ConversationOption = Annotated[
    str | None,
    typer.Option(
        "--conversation", metavar="ID", help="The conversation to continue, or the id of a new one. Default: a new id."
    ),
]
AgentOption = Annotated[
    str | None, typer.Option("--agent", metavar="ID", help="The agent that answers. Default: the active one.")
]
ContextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--context", metavar="KEY=VALUE", help="A context variable; a value that is not JSON is text. May be repeated."
    ),
]
WithinOption = Annotated[
    str | None, typer.Option("--conversation", metavar="ID", help="Only this conversation and its delegates.")
]
LogFormatOption = Annotated[
    Literal["text", "json"] | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="Log what happens to standard error, with ids and without content: text or json.",
    ),
]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The most rows to show, newest first.")]


def seconds(value: float) -> float:
    """Callback of an option that takes seconds."""
    if not isfinite(value) or value < 0:
        raise typer.BadParameter(f"{value:g} is not a number of seconds")
    return value


def positive_seconds(value: float) -> float:
    """Callback of an option that takes seconds above 0."""
    if not seconds(value):
        raise typer.BadParameter("give more than 0 seconds")
    return value


def observed(team: Team, log_format: Literal["text", "json"] | None) -> Team:
    """The team with the telemetry that the environment asks for, and with a log of what happens if one is wanted."""
    from changeover.observe.logs import configure
    from changeover.observe.telemetry import telemetry_of_environment

    telemetry = telemetry_of_environment() if team.declared.telemetry is None else None
    if log_format is not None:
        configure(log_format)
    elif telemetry is None:
        return team
    return team.on(team.declared.store, telemetry=telemetry, narrated=log_format is not None)


def required_team(address: str | None, why: str) -> str:
    """The team that a command cannot do without; raises BadParameter if none is given."""
    if address is None:
        raise typer.BadParameter(f"{why}: give it as --team TEAM, or set CHANGEOVER_TEAM", param_hint="--team")
    return address


def nothing_declared(kind: str, team: str | None, store: str | None, group: str = "") -> str:
    """The message of an empty list of what code or a store can declare; `group` has its command."""
    if team is not None or server_of(store) is not None:
        return f"no {kind}"
    return f"the store declares no {kind}; to list those of a team: changeover {f'{group} {kind}'.strip()} --team TEAM"


def has_default_store() -> bool:
    """True if the environment or the current folder has a store for commands that name none."""
    return bool(os.environ.get(VARIABLE)) or Path(FILE).exists()


def store_of(store: str | None) -> Store:
    """The store that a command reads; raises Mistake if none is given and there is no default."""
    if not store and not has_default_store():
        raise Mistake(f"which store? Give --store (a file or a URL) or set {VARIABLE}; there is no {FILE} here")
    return store_to_make(store)


def store_to_make(store: str | None) -> Store:
    """The store that a command may create."""
    from changeover.stores.store import Store

    return Store(store_url(store or os.environ.get(VARIABLE) or FILE))


def store_url(store: str) -> str:
    """The URL of a store that was given as URL or file."""
    # What has a colon or an equals sign is meant as an address, and its faults are reported as such.
    return store if ":" in store or "=" in store else f"sqlite:///{store}"


class OpenStore(Protocol):
    """What commands use of a store, without a team; a database has it, and so has a server."""

    @property
    def lists(self) -> RecordLists: ...
    @property
    def agents(self) -> Agents: ...
    @property
    def breakers(self) -> Breakers: ...
    @property
    def declarations(self) -> Declarations: ...
    @property
    def experience(self) -> Lessons: ...
    @property
    def tokens(self) -> Tokens: ...
    @property
    def work(self) -> Work: ...


class OpenDatabase:
    """A store that this process has opened."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store, self.lists, self.work = store, views, self

    @cached_property
    def log(self) -> SqlLog:
        """Opened when it is first used: commands that only read lists do not need it."""
        from changeover.stores.store import open_log

        return open_log(self._store)

    @property
    def declarations(self) -> Declarations:
        return self.log.declarations

    @property
    def agents(self) -> Agents:
        return self.log.agents

    @property
    def breakers(self) -> Breakers:
        return self.log.breakers

    @property
    def experience(self) -> Lessons:
        return self.log.experience

    @property
    def tokens(self) -> Tokens:
        return self.log.tokens

    async def unfinished(self) -> list[str]:
        return await self.log.unfinished()

    async def tickets(self, ticket: str | None = None) -> list[Queued]:
        return await self.log.queue.tickets(ticket)

    async def retry(self, ticket: str) -> bool:
        from changeover.ticket import retry

        return await retry(self.log, ticket)

    async def close(self) -> None:
        if "log" in self.__dict__:
            await self.log.close()


def server_of(given: str | None) -> str | None:
    """The address of the server that a command talks to; None if it opens a store itself."""
    if given and HOST.fullmatch(given):
        raise Mistake(f"the address of a server has a scheme: write http://{given}")
    if not given:
        return os.environ.get(SERVER_VARIABLE) or None
    return given if given.startswith(("http://", "https://")) else None


@errors_reported()
def in_store(given: str | None, work: Callable[[OpenStore], Awaitable[T]]) -> T:
    """Open the store or the server that this option or the environment names, do the work, close it."""
    if (server := server_of(given)) is not None:
        return on_server(server, work)
    return in_database(given, work)


def on_server(url: str, work: Callable[[RemoteStore], Awaitable[T]]) -> T:
    """Do the work with the store behind this server."""
    from changeover.stores.remote import RemoteStore

    async def done() -> T:
        return await work(RemoteStore(url, os.environ.get(TOKEN_VARIABLE, "")))

    return asyncio.run(done())


def in_database(given: str | None, work: Callable[[OpenDatabase], Awaitable[T]], *, make: bool = False) -> T:
    """Open the store that this option or the environment names in this process, do the work, close it. A file that is
    missing is made if the command may `make` it."""
    from changeover.stores.store import open_log
    from changeover.stores.views import open_views

    async def done() -> T:
        chosen = store_to_make(given) if make else store_of(given)
        if make:
            await open_log(chosen).close()
        with closing(open_views(chosen)) as views:
            store = OpenDatabase(chosen, views)
            try:
                return await work(store)
            finally:
                await store.close()

    return asyncio.run(done())


def for_agent(url: str | None, agent: str, work: Callable[[OpenStore], Awaitable[object]]) -> None:
    """Do the work in a store, and warn if the store has no record of this agent: its id may be misspelled."""

    async def done(store: OpenStore) -> bool:
        from changeover.relay.ports.lists import TaskRow

        described = any(each.id == agent for each in await store.agents.all())
        known = described or bool(await store.lists.listed(TaskRow, {"agent": agent}, limit=1))
        await work(store)
        return known

    if not in_store(url, done):
        tell(f"no agent called {agent!r} has worked in this store yet; check the spelling")
