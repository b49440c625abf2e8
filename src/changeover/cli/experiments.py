"""Command `experiments`: list experiments, and compare the outcomes of their variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from changeover.cli.conversations import look
from changeover.cli.exits import Mistake, plainly
from changeover.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from changeover.routing.experiment import Experiment
    from changeover.routing.statistics import Outcomes
    from changeover.routing.verdict import Comparison, Verdict
    from changeover.stores.views import Views

app = typer.Typer(help="Experiments: what was tried in several variants, and what came of it.", no_args_is_help=True)

TeamOption = Annotated[
    str | None,
    typer.Option(
        "--team",
        metavar="TEAM",
        help="The team that declares them: its first variant is what others are compared with, else the first by name.",
        show_default=False,
    ),
]
MeasureOption = Annotated[
    str, typer.Option("--measure", help="success, tokens, cost, seconds, or a measure of your own.")
]


@app.command("list")
def list_experiments(
    store: StoreOption = None, team: TeamOption = None, measure: MeasureOption = "success", as_json: JsonOption = False
) -> None:
    """List the experiments in which conversations took part, each with what can be said of it by now."""
    from changeover.cli.terminal.render import print_table

    said = [_said(each, outcomes, measure) for each, outcomes in _found(store, team)]
    if as_json:
        _print_json(said)
        return
    rows = [
        {
            "experiment": each.experiment,
            "variants": ", ".join(f"{arm.variant} {arm.n}" for arm in each.arms),
            "verdict": each.sentence,
        }
        for each in said
    ]
    print_table(rows, "no conversation took part in an experiment")


@app.command("show")
def show_experiment(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which experiment.", show_default=False)],
    store: StoreOption = None,
    team: TeamOption = None,
    measure: MeasureOption = "success",
    as_json: JsonOption = False,
) -> None:
    """Show what came of an experiment: each variant, how they differ, and how sure that is."""
    with plainly():
        found = {each.name: (each, outcomes) for each, outcomes in _found(store, team)}
        if name not in found:
            raise Mistake(f"no experiment is called {name!r}; there is: {', '.join(found) or 'none'}")
        experiment, outcomes = found[name]
        _check(measure, outcomes)
        said = _said(experiment, outcomes, measure)
    if as_json:
        _print_json(said)
    else:
        _print(said)


def _found(store: str | None, team: str | None) -> list[tuple[Experiment, Outcomes]]:
    """The experiments that are in a store, or that a team declares, with what came of them."""

    async def find(views: Views) -> list[tuple[Experiment, Outcomes]]:
        from changeover.observe.experiment_results import found
        from changeover.routing.statistics import counted

        tried = views.trials
        declared = {each.name: each for each in _declared(team)}
        experiments = declared | {each.name: each for each in await found(tried) if each.name not in declared}
        return [(each, counted(await tried.measured(each.name))) for each in experiments.values()]

    return look(store, find)


def _declared(team: str | None) -> tuple[Experiment, ...]:
    if team is None:
        return ()
    from changeover.cli.teams import load_team

    return tuple(load_team(team)._declared.experiments)


def _check(measure: str, outcomes: Outcomes) -> None:
    """Raise Mistake if nobody ever measured this."""
    from changeover.observe.experiment_results import COUNTED

    known = dict.fromkeys([*COUNTED, *(name for tallies in outcomes.values() for name in tallies)])
    if measure not in known:
        raise Mistake(f"nobody measured {measure!r}; choose one of {', '.join(known)}")


def _said(experiment: Experiment, outcomes: Outcomes, measure: str) -> Verdict:
    from changeover.observe.experiment_results import verdict_on

    return verdict_on(experiment, outcomes, measure)


def _print_json(said: Verdict | list[Verdict]) -> None:
    import msgspec

    from changeover.cli.terminal.render import print_json

    print_json(msgspec.to_builtins(said))


def _print(said: Verdict) -> None:
    from changeover.cli.terminal.render import print_table

    rate = said.measure == "success"
    heading = "success" if rate else f"mean {said.measure}"
    sure = f"{100 * said.confidence:g} % between"
    rows = [
        {
            "variant": arm.variant,
            "conversations": str(arm.n),
            heading: _figure(arm.mean, rate),
            sure: _between(arm.low, arm.high, rate),
        }
        for arm in said.arms
    ]
    print_table(rows, "it has no variants")
    for each in said.comparisons:
        if line := _compared(each, rate):
            typer.echo(line)
    typer.echo(said.sentence)


def _compared(comparison: Comparison, rate: bool) -> str:
    if comparison.difference is None:
        return ""
    unit = " points" if rate else ""
    sign = "+" if comparison.difference >= 0 else ""
    where = _between(comparison.low, comparison.high, rate, "")
    told = f", between {where}" if where else ""
    figure = _figure(comparison.difference, rate, "")
    return f"{comparison.variant} against {comparison.against}: {sign}{figure}{unit}{told}"


def _between(low: float | None, high: float | None, rate: bool, percent: str = " %") -> str:
    if low is None or high is None:
        return ""
    return f"{_figure(low, rate, percent)} and {_figure(high, rate, percent)}"


def _figure(value: float | None, rate: bool, percent: str = " %") -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f}{percent}" if rate else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
