"""Command `serve`: serve a team over HTTP."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.exits import Mistake, errors_reported, tell
from changeover.cli.options import TEAM_FORMS, TeamStoreOption

if TYPE_CHECKING:
    from changeover.server import Settings
    from changeover.team import Team

PORT = 8765


def serve(  # noqa: PLR0913 - each is a declared option
    team: Annotated[str | None, typer.Argument(metavar="TEAM", help=TEAM_FORMS, show_default=False)] = None,
    *,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 takes a free one.")] = PORT,
    store: TeamStoreOption = None,
    token: Annotated[
        list[str] | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            envvar="CHANGEOVER_TOKEN",
            help="A token that may do everything, of 20 characters or more. May be repeated.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A name by which clients reach the server. May be repeated.",
            show_default=False,
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="ORIGIN",
            help="Pages of this origin may call the API. May be repeated.",
            show_default=False,
        ),
    ] = None,
    prefix: Annotated[
        str,
        typer.Option("--prefix", metavar="PATH", help="The path under which a proxy serves it.", show_default=False),
    ] = "",
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", min=0, help="Requests a second per client; 0 for no limit.")
    ] = 200.0,
) -> None:
    """Serve a team over HTTP, under /api/v1.

    On loopback no token is needed. On any other address the server refuses to start without one.

    SIGTERM or Ctrl-C: it refuses new work and stops; unfinished work can be taken up again.
    """
    with errors_reported():
        _require_extra()
        from changeover.server import Settings

        local = _is_loopback(host)
        settings = Settings(
            open_access=local and not token,
            tokens=_strong(token or []),
            hosts=tuple(allow_host or ()),
            origins=tuple(allow_origin or ()),
            rate=rate,
        )
        if not local and not token:
            raise Mistake(
                f"{host} can be reached by others, so the server needs a token: give --token, or listen on 127.0.0.1"
            )
        served, shown = _served(team, store)
        _run(served, settings, shown, {"host": host, "port": port, "root_path": prefix.rstrip("/")})


def _require_extra() -> None:
    from importlib.util import find_spec

    if missing := [name for name in ("fastapi", "uvicorn", "websockets") if find_spec(name) is None]:
        raise Mistake(f"the server needs {', '.join(missing)}; install it with: pip install 'changeover[server]'")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _strong(tokens: list[str]) -> tuple[str, ...]:
    if any(len(each) < 20 for each in tokens):
        raise Mistake("a token needs 20 characters or more; `changeover tokens add` makes one")
    return tuple(tokens)


def _served(address: str | None, store: str | None) -> tuple[Team, str]:
    """The team, and its store as it is shown."""
    from changeover.cli.teams import working_team
    from changeover.stores.store import database_of

    if address is None:
        raise typer.BadParameter("which team? Give a file or a module", param_hint="TEAM")
    team, where = working_team(address, store)
    return team, database_of(where).shown if where else "memory"


def _run(team: Team, settings: Settings, store: str, where: dict[str, Any]) -> None:
    import signal
    from collections.abc import Iterator
    from contextlib import contextmanager

    import uvicorn

    from changeover.server import create_app

    class Server(uvicorn.Server):
        """Prints its address as soon as it listens, and exits with code 0 when a signal has stopped it."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for each, handler in before.items():
                    signal.signal(each, handler)

        async def shutdown(self, sockets: Any = None) -> None:
            for each in self.servers:
                each.close()
            await app.state.live.stop(1.0)
            await super().shutdown(sockets)

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                name, port = self.servers[0].sockets[0].getsockname()[:2]
                shown = f"[{name}]" if ":" in name else name
                tell(f"Serving {team.name} on {store}: http://{shown}:{port}{where['root_path']}/api/v1")

    app = create_app(team, settings)
    config = uvicorn.Config(
        app,
        **where,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="websockets-sansio",
        timeout_graceful_shutdown=2,
    )
    Server(config).run()
