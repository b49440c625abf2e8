"""Occurrences: the conversations that a figure of the metrics counts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query
from msgspec import Struct

from changeover.ids import root_of
from changeover.observe.metrics import window_of
from changeover.observe.sums import ENDINGS, ending_of
from changeover.relay.ports.lists import ConversationRow, HandoffRow
from changeover.relay.ports.tables import Course, Occurrence, OccurrenceKind
from changeover.server.access import Caller
from changeover.server.problems import Problem
from changeover.server.resource import Resource, Served, Who
from changeover.server.resources.figures import Window
from changeover.server.wire import Json, Page
from changeover.team import Team

resource = Resource("figures")

COUNTED: dict[str, OccurrenceKind] = {
    "refused": "refused",
    "deadlocks": "deadlock",
    "limits": "limit",
    "runs": "spent",
    "depths": "depth",
    "latency": "waited",
    "work_time": "worked",
}
"""Figures whose occurrences the store lists; all others are figures of handoffs."""
HANDOFFS = ("count", *dict.fromkeys(ENDINGS.values()))
SOUGHT = 20
"""Pages of handoffs that are looked through at most."""


class Sought(Struct, frozen=True):
    """The figure whose conversations are listed."""

    figure: str
    name: str
    sender: str
    receiver: str
    most: int


class FigureRun(Struct, frozen=True, kw_only=True):
    """A conversation that a figure counts, and what it counts there."""

    conversation: str
    root: str
    title: str
    status: str
    at: float
    agent: str
    """The sender of the handoff, or the agent that the figure is about."""
    receiver: str
    words: str
    """The state of the handoff with its reason, or which limit it was."""
    amount: float | None
    """Tokens, the number of handoffs, or the seconds until the handoff was accepted, or of the work."""


Text = Annotated[str, Query(max_length=200)]


async def _sought(
    figure: Annotated[str, Query(max_length=40, description=f"One of {', '.join((*HANDOFFS, *COUNTED))}.")],
    name: Annotated[str, Query(max_length=200, description="The agent, the limit, or the number of handoffs.")] = "",
    sender: Text = "",
    receiver: Text = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Sought:
    if figure not in (*HANDOFFS, *COUNTED):
        possible = ", ".join((*HANDOFFS, *COUNTED))
        raise Problem(422, f"{figure!r} is no figure whose runs can be listed; there are: {possible}", kind="no-figure")
    return Sought(figure, name, sender, receiver, limit)


@resource.route("GET /metrics/runs", Page[FigureRun])
async def list_figure_runs(
    team: Served, who: Who, sought: Annotated[Sought, Depends(_sought)], window: Window = None
) -> Json:
    """The newest conversations that a figure counts, or the slowest of `latency` and `work_time`, with the amount."""
    span = window_of(window, team.clock.now())
    find = _counted if sought.figure in COUNTED else _handoffs
    found = await find(team, sought, span)
    return Json(Page([run for each in found if (run := await _run(team, who, each)) is not None]))


async def _counted(team: Team, sought: Sought, span: tuple[float, float]) -> list[Occurrence]:
    kind, measures = COUNTED[sought.figure], team.log.lists.measures
    of = sought.receiver if kind in ("waited", "worked") else sought.sender
    return await measures.occurrences(kind, *span, sought.name or of, sought.most)


async def _handoffs(team: Team, sought: Sought, span: tuple[float, float]) -> list[Occurrence]:
    """The newest handoffs that ended as the figure says; handoffs are read page by page until there are enough."""
    wanted: dict[str, str] = {"team": team.name}
    wanted |= {name: value for name in ("sender", "receiver") if (value := getattr(sought, name))}
    found: list[Occurrence] = []
    for state in [each for each, ending in ENDINGS.items() if _may_be(sought.figure, ending)]:
        found += await _of_state(team, sought, {**wanted, "state": state}, span)
    return sorted(found, key=lambda each: -each.at)[: sought.most]


def _may_be(figure: str, ending: str) -> bool:
    """True if a figure may count handoffs with this ending. A delegate that returned its result is done, although its
    state is that of withdrawn handoffs."""
    return figure in ("count", ending) or (figure == "done" and ending == "withdrawn")


async def _of_state(team: Team, sought: Sought, wanted: dict[str, str], span: tuple[float, float]) -> list[Occurrence]:
    found: list[Occurrence] = []
    cursor: str | None = None
    for _ in range(SOUGHT):
        page = await team.log.lists.listed(HandoffRow, wanted, limit=sought.most, cursor=cursor)
        inside = [row for row in page if span[0] < row.offered_at <= span[1]]
        found += [_case(row) for row in inside if sought.figure in ("count", ending_of(_course(row)))]
        cursor = page.next
        if cursor is None or len(found) >= sought.most or (page and page[-1].offered_at <= span[0]):
            break
    return found


def _course(row: HandoffRow) -> Course:
    values: dict[str, Any] = {name: getattr(row, name, None) for name in Course.__struct_fields__}
    return Course(**(values | {"explained": row.reason is not None}))


def _case(row: HandoffRow) -> Occurrence:
    words = f"{row.state}: {row.reason}" if row.reason else row.state
    waited = None if row.accepted_at is None else row.accepted_at - row.offered_at
    return Occurrence(
        conversation=row.conversation,
        at=row.offered_at,
        agent=row.sender,
        receiver=row.receiver,
        words=words,
        amount=waited,
    )


async def _run(team: Team, who: Caller, case: Occurrence) -> FigureRun | None:
    """A case with its conversation; None if the caller may not see it."""
    row = await team.log.lists.one(ConversationRow, root_of(case.conversation))
    if row is None or row.team != team.name or not who.sees(row.user):
        return None
    known = {name: getattr(case, name) for name in Occurrence.__struct_fields__}
    return FigureRun(**known, root=row.id, title=row.title, status=row.status)
