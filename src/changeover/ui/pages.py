"""Pages: the HTML shell of each page, and the static files behind it.

A shell holds no data: its script asks the API, so a shell needs no token, and what a person sees follows the role.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates

from changeover.ui.icons import sprite

HERE = Path(__file__).parent


class Page(NamedTuple):
    """A page in the sidebar."""

    name: str
    label: str
    icon: str
    group: str = ""
    """The heading above it in the sidebar, Build or Learn; "foot" for its end. The daily pages have none: on a phone
    they stay in view."""
    item: str = ""
    """The template and script of `/<name>/<id>`, if there is such a page."""


PAGES = (
    Page("chat", "Chat", "messages-square", item="chat"),
    Page("runs", "Runs", "workflow", item="run"),
    Page("approvals", "Approvals", "inbox", item="approvals"),
    Page("queue", "Queue", "layers"),
    Page("agents", "Agents", "bot", "Build", item="agent"),
    Page("tools", "Tools", "wrench", "Build", item="tools"),
    Page("workflows", "Workflows", "git-fork", "Build", item="workflows"),
    Page("metrics", "Metrics", "chart-column", "Learn"),
    Page("router", "Router", "flask-conical", "Learn"),
    Page("bus", "Bus", "radio", "Learn", item="bus"),
    Page("schedules", "Schedules", "calendar-clock", "Learn", item="schedules"),
    Page("settings", "Settings", "settings", "foot"),
)
"""The pages in the order of the sidebar; each has a template and a script of its name."""
CACHE = {"Cache-Control": "no-cache"}
"""A browser keeps a file and asks whether it has changed."""


class Assets(StaticFiles):
    """The styles and scripts of the pages."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers.update(CACHE)
        return response


TEMPLATES = Jinja2Templates(HERE / "templates")
TEMPLATES.env.trim_blocks = TEMPLATES.env.lstrip_blocks = True
router = APIRouter(include_in_schema=False)


def mount_ui(app: FastAPI) -> None:
    """Serve the pages at the root of `app`, beside its API."""
    app.include_router(router)
    app.mount("/static", Assets(directory=HERE / "static"), name="static")


def _shell(name: str, title: str, section: str = "") -> Callable[[Request], Response]:
    """The route of a page, which belongs to this section of the sidebar."""

    def show(request: Request) -> Response:
        known = {"page": name, "title": title, "section": section, "pages": PAGES, "root": _root(request)}
        known["version"] = version("changeover")
        return TEMPLATES.TemplateResponse(request, f"{name}.html", known)

    return show


for each in PAGES:
    router.add_api_route(f"/{each.name}", _shell(each.name, each.label, each.name), methods=["GET"])
    if each.item:
        shell = _shell(each.item, each.label, each.name)
        router.add_api_route(f"/{each.name}/{{id:path}}", shell, methods=["GET"])
router.add_api_route("/sign-in", _shell("signin", "Sign in"), methods=["GET"])


@router.get("/")
def start(request: Request) -> Response:
    """The first page."""
    return RedirectResponse(f"{_root(request)}/chat")


@router.get("/icons.svg")
def icons() -> Response:
    """The icons of all pages."""
    return Response(sprite(), media_type="image/svg+xml", headers=CACHE)


def _root(request: Request) -> str:
    """The prefix under which the server is mounted, without a slash at its end."""
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")
