"""Results of a team's experiments: verdicts, and the measures that users record."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from changeover.errors import MisconfiguredError
from changeover.ids import SLUG
from changeover.relay.ports.tables import Trials, Tried
from changeover.routing.experiment import Experiment
from changeover.routing.statistics import Outcomes, counted
from changeover.routing.verdict import Arm, Verdict, verdict

COUNTED = ("success", "tokens", "cost", "seconds")
"""Measures that Changeover records for every conversation."""
CONFIDENCE = 0.95


async def verdicts(tried: Tried, experiments: Iterable[Experiment], measure: str = "success") -> list[Verdict]:
    """The verdict on each of these experiments by this measure."""
    return [verdict_on(each, counted(await tried.measured(each.name)), measure) for each in experiments]


async def verdicts_by_measure(tried: Tried, experiment: Experiment) -> list[Verdict]:
    """The verdict on an experiment by each measure: those of every conversation first, then those of users."""
    outcomes = counted(await tried.measured(experiment.name))
    own = sorted({name for measures in outcomes.values() for name in measures} - set(COUNTED))
    return [verdict_on(experiment, outcomes, measure) for measure in (*COUNTED, *own)]


def verdict_on(experiment: Experiment, outcomes: Outcomes, measure: str) -> Verdict:
    """The verdict on an experiment, even if only one of its variants is known."""
    if len(experiment.variants) > 1:
        return verdict(experiment, outcomes, measure)
    [only] = experiment.variants
    tally = outcomes.get(only, {}).get(measure)
    arm = Arm(only, tally.n, tally.mean) if tally else Arm(only, 0)
    return Verdict(experiment.name, measure, CONFIDENCE, (arm,), (), f"there is only {only} so far")


async def found(tried: Tried) -> list[Experiment]:
    """The experiments that conversations took part in, reconstructed from the store: the first variant is the first by
    name."""
    return [Experiment(name, dict.fromkeys(variants)) for name, variants in (await tried.variants()).items()]


async def keep(trials: Trials, conversation: str, measure: tuple[str, float], at: float) -> None:
    """Store a measure of a root conversation; raises MisconfiguredError if its name or value is wrong, and
    ConversationNotFound."""
    name, value = measure
    if faults := [*_name_faults(name), *_value_faults(value)]:
        raise MisconfiguredError(*faults)
    await trials.measure(conversation, name, float(value), at)


def _name_faults(name: object) -> list[str]:
    if not isinstance(name, str) or not SLUG.fullmatch(name):
        return [f"a measure is called {name!r}; use letters, digits, '-' and '_', at most 64"]
    return [f"{name!r} is measured for every conversation anyway; choose another name"] if name in COUNTED else []


def _value_faults(value: object) -> list[str]:
    # A value that cannot be squared would be left out of every statistic without notice.
    if isinstance(value, int | float) and abs(value) < 1e150 and isfinite(value):
        return []
    return [f"the value {value!r} is not a number that can be counted with"]
