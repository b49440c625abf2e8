"""Figures: metrics of handoffs, circuit breakers of receivers, and measures of conversations."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Annotated, Literal

from fastapi import Query
from fastapi.responses import Response
from msgspec import Struct
from msgspec.structs import asdict

from changeover.faults import Circuit
from changeover.observe.metrics import AgentMetrics, Metrics, PairMetrics
from changeover.observe.periods import Period
from changeover.observe.prometheus import Scrape, exposition
from changeover.observe.readings import snapshot
from changeover.observe.step_metrics import Place, StepMetrics
from changeover.server.resource import Id, Resource, Served, Who, audited, seen
from changeover.server.resources.agents import known_agent
from changeover.server.resources.conversations import NOT_FOUND
from changeover.server.wire import JSON, Json, Page, body, price
from changeover.team import Team

resource = Resource("figures")

Window = Annotated[
    float | None,
    Query(gt=0, le=10 * 366 * 86_400, description="The window in seconds, up to now; by default everything."),
]


class FromTo(PairMetrics, frozen=True, kw_only=True):
    """The handoffs from one agent to another."""

    sender: str
    receiver: str


class StepFigures(StepMetrics, frozen=True, kw_only=True):
    """The metrics of one step of a workflow in the runs that ended."""

    workflow: str
    step: str
    price: str
    """What it cost, as people read it."""


class Figures(Struct, frozen=True, kw_only=True):
    """Metrics of handoffs after `since`, up to and including `until`."""

    since: float | None
    until: float
    totals: AgentMetrics
    agents: dict[str, AgentMetrics]
    pairs: list[FromTo]
    depths: dict[int, int]
    """The number of runs, by the number of their handoffs."""
    limits: dict[str, int]
    """How many conversations reached a limit, by its name."""
    steps: list[StepFigures]
    periods: tuple[Period, ...]
    """The handoffs in equal periods of time."""
    price: str
    """What all agents spent, as people read it."""
    prices: dict[str, str]
    """What each agent spent, as people read it."""


class Breaker(Struct, frozen=True, kw_only=True):
    """The circuit breaker of a receiver."""

    receiver: str
    state: str
    """closed, open, or half-open while a probe is under way."""
    failures: int
    """Failures in a row."""
    openings: int
    opened_at: float | None
    until: float | None
    """When the next probe is let through."""
    forced: bool
    """True if a person opened it; then a person has to reset it."""


class Measure(Struct, frozen=True, forbid_unknown_fields=True):
    """A measure of your own, such as the satisfaction of a user."""

    name: str
    value: float


Format = Annotated[
    Literal["json", "prometheus"],
    Query(description="`prometheus` gives counters, histograms and gauges for a scraper; they count everything."),
]
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@resource.route("GET /metrics", Figures, media=(JSON, "text/plain"))
async def read_metrics(team: Served, window: Window = None, format: Format = "json") -> Response:
    """Figures of handoffs by agent and by pair."""
    if format == "prometheus":
        return Response(exposition(await _scrape(team)), media_type=TEXT)
    found = await team.metrics(window)
    pairs = [FromTo(**asdict(each), sender=sender, receiver=to) for (sender, to), each in found.pairs.items()]
    named = {name: getattr(found, name) for name in Metrics.__struct_fields__}
    prices = {name: price(each.cost) for name, each in found.agents.items()}
    steps = step_figures(found.steps)
    return Json(
        Figures(**(named | {"pairs": pairs, "steps": steps, "price": price(found.totals.cost), "prices": prices}))
    )


def step_figures(found: Mapping[Place, StepMetrics]) -> list[StepFigures]:
    """Metrics of steps, as clients read them."""
    return [
        StepFigures(**asdict(each), workflow=workflow, step=step, price=price(each.cost))
        for (workflow, step), each in found.items()
    ]


async def _scrape(team: Team) -> Scrape:
    now = team.clock.now()
    courses = [course async for page in team.log.lists.measures.courses(-inf, now) for course in page]
    return Scrape(
        await team.metrics(),
        courses,
        await team.log.approvals(team.name),
        await snapshot(team.log, await team.engine.world(), now),
    )


@resource.route("POST /conversations/{id:path}/measures", {204: None}, body=Measure, refusals=NOT_FOUND)
async def measure_conversation(id: Id, team: Served, who: Who, given: Annotated[Measure, body(Measure)]) -> Json:
    """Store a measure of a conversation; it replaces an earlier one of this name. Experiments count it."""
    await seen(team, who, id)
    await team.measure(id, given.name, given.value)
    return Json(None, 204)


@resource.route("GET /breakers", Page[Breaker])
async def list_breakers(team: Served) -> Json:
    """The circuit breakers of all receivers that ever failed."""
    return Json(Page([_shown(each) for each in await team.breakers()]))


@resource.route("POST /breakers/{id}/force", {204: None}, refusals={404: "There is no such agent"})
async def force_breaker(id: Id, team: Served, who: Who) -> Json:
    """Open a circuit breaker: this receiver gets no handoffs until it is reset."""
    await known_agent(team, id)
    await audited(team, who, "breakers.force", id)
    await team.force_breaker(id)
    return Json(None, 204)


@resource.route("POST /breakers/{id}/reset", {204: None})
async def reset_breaker(id: Id, team: Served, who: Who) -> Json:
    """Close a circuit breaker and forget its failures."""
    await audited(team, who, "breakers.reset", id)
    await team.reset_breaker(id)
    return Json(None, 204)


def _shown(circuit: Circuit) -> Breaker:
    return Breaker(
        receiver=circuit.receiver,
        state=circuit.state,
        failures=circuit.failures,
        openings=circuit.openings,
        opened_at=circuit.opened_at,
        until=circuit.until,
        forced=circuit.forced,
    )
