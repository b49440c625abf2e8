"""Drawings: who can hand to whom, as JSON, text, Mermaid or SVG; conversations are drawn the same way."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Literal

from fastapi.responses import Response
from msgspec import Struct

from changeover.guards.rules import Rule
from changeover.observe.drawing.course import Course
from changeover.observe.drawing.diagram import Plan, described, plan_of
from changeover.observe.drawing.svg import drawn as drawing
from changeover.observe.drawing.team_map import TeamMap, team_map
from changeover.server.resource import Resource, Served
from changeover.server.wire import JSON, Json, Page

Format = Literal["json", "text", "mermaid", "svg"]
MEDIA = {"text": "text/plain", "mermaid": "text/vnd.mermaid", "svg": "image/svg+xml"}
MEDIA_TYPES = (JSON, *MEDIA.values())

resource = Resource("drawings")


class RuleView(Struct, frozen=True, kw_only=True):
    """A rule of the team."""

    name: str
    condition: str
    """In words."""
    agents: list[str]
    """The active agents for which it holds; empty for all."""
    goto: str
    """Who gets the conversation."""
    deny: str
    """Why handoffs are refused."""
    end: str
    """The answer with which the run ends."""
    approval: bool
    """True if a person has to approve."""


placed = lru_cache(maxsize=4)(team_map)
"""The map of a plan; a team of hundreds takes seconds to place, and is asked for often."""


def drawn(what: Plan | Course, format: Format) -> Response:
    """A team or a conversation, drawn."""
    if format == "json":
        return Json(what if isinstance(what, Course) else placed(what, brief=True))
    return Response(drawing(what, format), media_type=MEDIA[format])


@resource.route("GET /graph", TeamMap, media=MEDIA_TYPES)
async def graph(team: Served, format: Format = "json") -> Response:
    """Who can hand to whom: members with the places of their boxes, and arrows with their routes and labels."""
    return await asyncio.to_thread(drawn, plan_of(team.roster), format)


@resource.route("GET /rules", Page[RuleView])
async def list_rules(team: Served) -> Json:
    """The rules of the team, which move conversations or judge handoffs beside what models decide."""
    roster = (await team.engine.world()).roster
    return Json(Page([_rule(each) for each in (*roster.leads, *roster.judges)]))


def _rule(rule: Rule) -> RuleView:
    return RuleView(
        name=rule.name,
        condition=described(rule.if_),
        agents=list(rule.agents),
        goto=rule.goto,
        deny=rule.deny,
        end=rule.end,
        approval=bool(rule.approval),
    )
