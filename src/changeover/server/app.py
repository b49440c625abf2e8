"""The app: all routes under /api/v1, the middleware around them, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response

from changeover.server.access import CSRF_HEADER, Doorkeeper
from changeover.server.live import Live
from changeover.server.middleware import CallerTrace, Envelope, Gate
from changeover.server.problems import problem_of
from changeover.server.resources import RESOURCES
from changeover.server.resources.runs import outcome_in
from changeover.server.resources.watches import Watches
from changeover.server.settings import API, Settings
from changeover.server.wire import SCHEMAS
from changeover.team import Team
from changeover.ui.pages import mount_ui

ABOUT = """Agents hand work to one another. Times are seconds since the epoch; ids of delegates contain slashes.

Errors are problem details (RFC 9457): `type` names the kind of problem, `detail` says what is possible."""


def create_app(team: Team, settings: Settings | None = None) -> FastAPI:
    """An ASGI app that serves a team under /api/v1, by itself or mounted in another app.

    The app opens the team when it starts and closes it when it stops, unless the team is open already. A mounted app
    is not started: open the team in the lifespan of your own app. `settings` say what clients may do; by default every
    call needs a token.
    """
    chosen = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if team.is_open:
            yield
            return
        async with team:
            yield

    app = FastAPI(
        title="Changeover",
        version=version("changeover"),
        description=ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        middleware=_middleware(chosen, traced=bool(team.declared.telemetry)),
        exception_handlers={HTTPException: _refuse, RequestValidationError: _refuse},
        separate_input_output_schemas=False,
    )
    app.state.team, app.state.settings, app.state.doorkeeper = team, chosen, Doorkeeper(chosen, lambda: team.log.tokens)
    app.state.live, app.state.watches = Live(lambda: team.log, outcome_in), Watches(team)
    for resource in RESOURCES:
        app.include_router(resource.router, prefix=API)
    mount_ui(app)
    _describe(app)
    return app


def _middleware(settings: Settings, traced: bool) -> list[Middleware]:
    found = [Middleware(Envelope), Middleware(Gate, settings=settings)]
    if traced:
        found.append(Middleware(CallerTrace))
    if settings.origins:
        allowed = [
            "Authorization",
            "Content-Type",
            "Idempotency-Key",
            "If-Match",
            "If-None-Match",
            "Last-Event-ID",
            "Prefer",
            CSRF_HEADER,
        ]
        shown = ["ETag", "Location", "Retry-After", "X-Request-ID"]
        found.append(
            Middleware(
                CORSMiddleware,
                allow_origins=settings.origins,
                allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
                allow_headers=allowed,
                expose_headers=shown,
            )
        )
    # Streams of events are not compressed: the middleware leaves their media type out.
    return [*found, Middleware(GZipMiddleware, minimum_size=1_000, compresslevel=5)]


async def _refuse(request: Request, error: Exception) -> Response:
    """The answer to an error that FastAPI itself raises."""
    return problem_of(error, request.state.request_id)


def _describe(app: FastAPI) -> None:
    """Complete the OpenAPI document by the schemas of bodies and answers, and by the ways to show a token."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = make()
            parts = document.setdefault("components", {})
            parts["schemas"] = {**parts.get("schemas", {}), **SCHEMAS.components}
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
