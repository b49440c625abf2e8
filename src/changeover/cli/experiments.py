"""Command `experiments`: list experiments, and compare the outcomes of their variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from changeover.cli.exits import Mistake, errors_reported, say
from changeover.cli.options import JsonOption, OpenStore, StoreOption, TeamOption, in_store
from changeover.cli.terminal.help import App

if TYPE_CHECKING:
    from changeover.routing.experiment import Experiment
    from changeover.routing.statistics import Outcomes
    from changeover.routing.verdict import Comparison, Verdict

app = App("List experiments, and compare the outcomes of their variants.")

MeasureOption = Annotated[
    str, typer.Option("--measure", metavar="NAME", help="success, tokens, cost, seconds, or a custom measure.")
]


@app.command("list")
def list_experiments(
    store: StoreOption = None, team: TeamOption = None, measure: MeasureOption = "success", as_json: JsonOption = False
) -> None:
    """List the experiments of a store, each with its current verdict.

    Variants are compared with the first that the team declares; without a team, with the first by name.
    """
    from changeover.cli.terminal.render import print_table

    verdicts = [_verdict(each, outcomes, measure) for each, outcomes in _found(store, team)]
    if as_json:
        _print_json(verdicts)
        return
    rows = [
        {
            "experiment": each.experiment,
            "variants": ", ".join(f"{arm.variant} {arm.n}" for arm in each.arms),
            "verdict": each.sentence,
        }
        for each in verdicts
    ]
    print_table(rows, "no experiments")


@app.command("show")
def show_experiment(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the experiment.")],
    store: StoreOption = None,
    team: TeamOption = None,
    measure: MeasureOption = "success",
    as_json: JsonOption = False,
) -> None:
    """Show the outcome of each variant, and how they differ."""
    with errors_reported():
        found = {each.name: (each, outcomes) for each, outcomes in _found(store, team)}
        if name not in found:
            raise Mistake(f"no experiment is called {name!r}; this store has: {', '.join(found) or 'none'}")
        experiment, outcomes = found[name]
        _check(measure, outcomes)
        verdict = _verdict(experiment, outcomes, measure)
    if as_json:
        _print_json(verdict)
    else:
        _print(verdict)


def _found(store: str | None, team: str | None) -> list[tuple[Experiment, Outcomes]]:
    """The experiments of a store, or that a team declares, with their outcomes."""

    async def find(opened: OpenStore) -> list[tuple[Experiment, Outcomes]]:
        from changeover.observe.experiment_results import found
        from changeover.routing.statistics import counted

        trials = opened.lists.trials
        declared = {each.name: each for each in _declared(team)}
        experiments = declared | {each.name: each for each in await found(trials) if each.name not in declared}
        return [(each, counted(await trials.measured(each.name))) for each in experiments.values()]

    return in_store(store, find)


def _declared(team: str | None) -> tuple[Experiment, ...]:
    if team is None:
        return ()
    from changeover.cli.teams import load_team

    return tuple(load_team(team).declared.experiments)


def _check(measure: str, outcomes: Outcomes) -> None:
    """Raise Mistake if no conversation has this measure."""
    from changeover.observe.experiment_results import COUNTED

    known = dict.fromkeys([*COUNTED, *(name for tallies in outcomes.values() for name in tallies)])
    if measure not in known:
        raise Mistake(f"no conversation has the measure {measure!r}; choose one of {', '.join(known)}")


def _verdict(experiment: Experiment, outcomes: Outcomes, measure: str) -> Verdict:
    from changeover.observe.experiment_results import verdict_on

    return verdict_on(experiment, outcomes, measure)


def _print_json(verdict: Verdict | list[Verdict]) -> None:
    import msgspec

    from changeover.cli.terminal.render import print_json

    print_json(msgspec.to_builtins(verdict))


def _print(verdict: Verdict) -> None:
    from changeover.cli.terminal.render import print_table

    rate = verdict.measure == "success"
    heading = "success" if rate else f"mean {verdict.measure}"
    interval = f"{100 * verdict.confidence:g} % between"
    rows = [
        {
            "variant": arm.variant,
            "conversations": str(arm.n),
            heading: _figure(arm.mean, rate),
            interval: _between(arm.low, arm.high, rate),
        }
        for arm in verdict.arms
    ]
    print_table(rows, "this experiment has no variants")
    for each in verdict.comparisons:
        if line := _compared(each, rate):
            say(line)
    say(verdict.sentence)


def _compared(comparison: Comparison, rate: bool) -> str:
    if comparison.difference is None:
        return ""
    unit = " points" if rate else ""
    sign = "+" if comparison.difference >= 0 else ""
    where = _between(comparison.low, comparison.high, rate, "")
    interval = f", between {where}" if where else ""
    figure = _figure(comparison.difference, rate, "")
    return f"{comparison.variant} against {comparison.against}: {sign}{figure}{unit}{interval}"


def _between(low: float | None, high: float | None, rate: bool, percent: str = " %") -> str:
    if low is None or high is None:
        return ""
    return f"{_figure(low, rate, percent)} and {_figure(high, rate, percent)}"


def _figure(value: float | None, rate: bool, percent: str = " %") -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f}{percent}" if rate else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
