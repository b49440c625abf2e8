"""Command `serve`: serve a team over HTTP."""

from __future__ import annotations

import gc
import logging
import os
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.exits import Mistake, errors_reported, tell
from changeover.cli.options import TEAM_FORMS, EngineOption, LogFormatOption, TeamStoreOption, observed

if TYPE_CHECKING:
    from changeover.server import Settings
    from changeover.team import Team

PORT = 8765


def serve(  # noqa: PLR0913 - each is a declared option
    team: Annotated[str | None, typer.Argument(metavar="TEAM", help=TEAM_FORMS)] = None,
    *,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 takes a free one.")] = PORT,
    store: TeamStoreOption = None,
    engine: EngineOption = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Serve a support desk with some conversations; in memory if no store is named."),
    ] = False,
    token: Annotated[
        list[str] | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            envvar="CHANGEOVER_TOKEN",
            help="A token that may do everything, of 20 characters or more. May be repeated.",
        ),
    ] = None,
    webhook_secret: Annotated[
        str,
        typer.Option(
            "--webhook-secret",
            metavar="SECRET",
            envvar="CHANGEOVER_WEBHOOK_SECRET",
            help="Webhooks may publish events if they sign them with this secret, of 20 characters or more.",
        ),
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A name by which clients reach the server. May be repeated."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin", metavar="ORIGIN", help="Pages of this origin may call the API. May be repeated."
        ),
    ] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="PATH", help="The path under which a proxy serves it.")
    ] = "",
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Write a line for each request to standard error.")
    ] = False,
    log_format: LogFormatOption = None,
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", min=0, help="Requests a second per client; 0 for no limit.")
    ] = 200.0,
) -> None:
    """Serve a team over HTTP: pages for people, and the API under /api/v1.

    Without TEAM it serves the team that the store declares.

    On loopback no token is needed. On any other address the server refuses to start without one.

    SIGTERM or Ctrl-C: it refuses new work and stops; unfinished work can be taken up again.
    """
    with errors_reported():
        _require_extra()
        import asyncio

        from changeover.server import Settings

        if access_log:
            logging.getLogger("changeover.server").setLevel(logging.INFO)
        local = _is_loopback(host)
        settings = Settings(
            open_access=local and not token,
            tokens=_strong(token or []),
            webhook_secret=_strong([webhook_secret])[0] if webhook_secret else "",
            hosts=tuple(allow_host or ()),
            origins=tuple(allow_origin or ()),
            rate=rate,
        )
        served, shown = _served(team, store, demo, engine)
        served = observed(served, log_format)
        if log_format is not None and not access_log:
            logging.getLogger("changeover.server").setLevel(logging.WARNING)
        asyncio.run(_serve(served, settings, shown, demo, host=host, port=port, root_path=prefix.rstrip("/")))
        tell("\nStopped." if sys.stderr.isatty() else "Stopped.")  # below the ^C of a terminal


async def _serve(team: Team, settings: Settings, store: str, demo: bool, **where: Any) -> None:
    from changeover.server import create_app
    from changeover.server.process import serve

    def listens(url: str) -> None:
        tell(f"Serving {team.name} on {store}: {url}/api/v1")
        tell(f"Pages for people: {url}/")

    async with team:
        if not settings.open_access and not settings.tokens:
            await _require_token(team, where["host"])
        if demo:
            from changeover.cli.demo.seeds import sow

            await sow(team)
        app = create_app(team, settings)
        gc.freeze()  # what is loaded by now stays, and the collector need not look at it again
        await serve(app, settings, listens, **where)


async def _require_token(team: Team, host: str) -> None:
    """Raise Mistake if the store has no valid token, so that no caller could use a server on this address."""
    now = team.clock.now()
    tokens = await team.log.tokens.all()
    if all(each.lapse(now) for each in tokens):
        raise Mistake(
            f"{host} can be reached by others, so the server needs a token: make one with `changeover tokens add`,"
            " give --token, or listen on 127.0.0.1"
        )


def _require_extra() -> None:
    from importlib.util import find_spec

    if missing := [
        name for name in ("fastapi", "jinja2", "lucide", "uvicorn", "websockets") if find_spec(name) is None
    ]:
        raise Mistake(f"the server needs {', '.join(missing)}; install it with: pip install 'changeover[server]'")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _strong(tokens: list[str]) -> tuple[str, ...]:
    if any(len(each) < 20 for each in tokens):
        raise Mistake("a token or secret needs 20 characters or more; `changeover tokens add` makes one")
    return tuple(tokens)


def _served(address: str | None, store: str | None, demo: bool, engine: str | None) -> tuple[Team, str]:
    """The team, and its store as it is shown."""
    from changeover.cli.options import VARIABLE, store_to_make
    from changeover.cli.teams import STORE, working_team
    from changeover.engines.address import engine_at
    from changeover.stores.store import database_of

    factory = engine_at(engine) if engine else None
    if demo:
        from changeover.cli.demo.seeds import demo_team

        chosen = store_to_make(store) if store or os.environ.get(VARIABLE) else None
        shown = database_of(chosen).shown if chosen else "a store in memory"
        return (demo_team(chosen).on(chosen, engine=factory) if factory else demo_team(chosen)), shown
    if address is None:
        address = STORE
    team, where = working_team(address, store, engine=factory)
    return team, database_of(where).shown if where else "a store in memory"
