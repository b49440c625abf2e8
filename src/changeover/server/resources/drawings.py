"""Drawings: who can hand to whom, as JSON, text, Mermaid or SVG; conversations are drawn the same way."""

from __future__ import annotations

from typing import Literal

from fastapi.responses import Response

from changeover.observe.diagram import (
    Course,
    Plan,
    course_mermaid,
    course_text,
    plan_of,
    team_mermaid,
    team_text,
)
from changeover.observe.svg import course_svg, team_svg
from changeover.observe.team_map import TeamMap, team_map
from changeover.server.resource import Resource, Served
from changeover.server.wire import JSON, Json

Format = Literal["json", "text", "mermaid", "svg"]
MEDIA = {"text": "text/plain", "mermaid": "text/vnd.mermaid", "svg": "image/svg+xml"}
MEDIA_TYPES = (JSON, *MEDIA.values())

resource = Resource("drawings")


def drawn(what: Plan | Course, format: Format) -> Response:
    """A team or a conversation, drawn."""
    if format == "json":
        return Json(what if isinstance(what, Course) else team_map(what))
    if isinstance(what, Course):
        text = {"text": course_text, "mermaid": course_mermaid, "svg": course_svg}[format](what)
    else:
        text = {"text": team_text, "mermaid": team_mermaid, "svg": team_svg}[format](what)
    return Response(text, media_type=MEDIA[format])


@resource.route("GET /graph", TeamMap, media=MEDIA_TYPES)
async def graph(team: Served, format: Format = "json") -> Response:
    """Who can hand to whom: members with the places of their boxes, and arrows with their routes and labels."""
    return drawn(plan_of(team.roster), format)
