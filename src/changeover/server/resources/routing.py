"""Routing: the agents that fit a task and why, what the router has learned, and the experiments of the team."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from msgspec import Meta, Struct
from msgspec.structs import asdict

from changeover.observe.experiment_results import verdicts_by_measure
from changeover.routing.broker import Recommendation
from changeover.routing.experience import Standing
from changeover.routing.experiment import Experiment
from changeover.routing.verdict import Verdict
from changeover.server.problems import Problem
from changeover.server.resource import Id, Resource, Served, Who, audited
from changeover.server.wire import Json, Page, body, price
from changeover.team import Team

resource = Resource("routing")

Name = Annotated[str | None, Query(max_length=200)]


class TaskQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A task for which agents are looked for."""

    task: str
    n: Annotated[int, Meta(ge=1, le=50)] = 3
    """How many agents to recommend at most."""
    required: Annotated[list[str], Meta(max_length=20)] = []
    """Capabilities that the agents must have."""


class Capability(Struct, frozen=True):
    """A capability, and the agents that have it and take handoffs now."""

    name: str
    agents: list[str]


class Forgotten(Struct, frozen=True):
    """How many records were removed."""

    forgotten: int


@resource.route("POST /router/recommend", Page[Recommendation], body=TaskQuery)
async def recommend(team: Served, query: Annotated[TaskQuery, body(TaskQuery)]) -> Json:
    """The best agents for a task by their profiles, with reasons. No model is asked, and nothing is run."""
    return Json(Page(await team.router.recommend(query.task, query.n, query.required)))


@resource.route("GET /router/capabilities", Page[Capability])
async def list_capabilities(team: Served) -> Json:
    """The capabilities of all agents that take handoffs now."""
    found = await team.router.capabilities()
    return Json(Page([Capability(name, agents) for name, agents in found.items()]))


@resource.route("GET /router/learned", Page[Standing])
async def list_learned(team: Served, capability: Name = None, agent: Name = None) -> Json:
    """How well agents did at the tasks for which they were found, by capability, the best first."""
    return Json(Page(await team.router.learned(capability, agent)))


@resource.route("DELETE /router/learned", Forgotten)
async def forget_learned(team: Served, who: Who, capability: Name = None, agent: Name = None) -> Json:
    """Forget how well agents did, at one capability or by one agent if named; conversations are kept."""
    await audited(team, who, "experience.reset", agent or "", {"capability": capability, "agent": agent})
    return Json(Forgotten(await team.router.reset_learning(capability, agent)))


@resource.route("GET /experiments", Page[Verdict])
async def list_experiments(
    team: Served, measure: Annotated[str, Query(min_length=1, max_length=64)] = "success"
) -> Json:
    """What the experiments of the team show so far, by one measure, with intervals and a sentence."""
    return Json(Page(await team.experiments(measure)))


class PriceSpan(Struct, frozen=True):
    """A mean cost and its confidence interval, as people read them."""

    mean: str
    low: str
    high: str


class ExperimentView(Struct, frozen=True, kw_only=True):
    """An experiment as it is declared, and what it shows by each measure."""

    name: str
    on: str
    """What its variants change."""
    agents: tuple[str, ...]
    """The agents that take part; empty for all."""
    shares: dict[str, float]
    """The share of conversations of each variant; the first is the control."""
    verdicts: list[Verdict]
    prices: dict[str, PriceSpan]
    """What a conversation of each variant costs, as people read it."""


@resource.route("GET /experiments/{id}", ExperimentView, refusals={404: "There is no such experiment"})
async def read_experiment(id: Id, team: Served) -> Json:
    """An experiment with its variants, and what it shows by every measure."""
    found = next((each for each in team.declared.experiments if each.name == id), None)
    if found is None:
        known = ", ".join(each.name for each in team.declared.experiments) or "none"
        raise Problem(404, f"no experiment is called {id!r}; this team has: {known}", kind="experiment-not-found")
    return Json(await _view(team, found))


class LearnedView(Standing, frozen=True):
    """An agent's record at a capability, with its usual price."""

    price: str
    """The average cost as people read it; "unknown" if it is."""


class RouterView(Struct, frozen=True):
    """What the router has learned, and the experiments of the team."""

    learned: list[LearnedView]
    experiments: list[ExperimentView]


@resource.route("GET /router", RouterView)
async def read_router(team: Served) -> Json:
    """How well agents did at the tasks for which they were found, and all experiments by every measure."""
    learned = [LearnedView(**asdict(each), price=price(each.cost)) for each in await team.router.learned()]
    return Json(RouterView(learned, [await _view(team, each) for each in team.declared.experiments]))


async def _view(team: Team, experiment: Experiment) -> ExperimentView:
    shown = {name: getattr(experiment, name) for name in ("name", "on", "agents", "shares")}
    verdicts = await verdicts_by_measure(team.log.trials, experiment)
    arms = [arm for verdict in verdicts if verdict.measure == "cost" for arm in verdict.arms]
    prices = {arm.variant: PriceSpan(price(arm.mean), price(arm.low), price(arm.high)) for arm in arms}
    return ExperimentView(**shown, verdicts=verdicts, prices=prices)
