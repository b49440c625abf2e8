"""Results of a team's experiments: verdicts so far, and the measures that users record."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from changeover.agent.agent import SLUG
from changeover.errors import MisconfiguredError
from changeover.relay.tables import Trials, Tried
from changeover.routing.experiment import Experiment
from changeover.routing.statistics import Outcomes, counted
from changeover.routing.verdict import Arm, Verdict, verdict

COUNTED = ("success", "tokens", "cost", "seconds")
"""What is measured of every conversation anyway."""
CONFIDENCE = 0.95


async def verdicts(tried: Tried, experiments: Iterable[Experiment], measure: str = "success") -> list[Verdict]:
    """What can be said of each of these experiments, by this measure."""
    return [said_of(each, counted(await tried.measured(each.name)), measure) for each in experiments]


def said_of(experiment: Experiment, outcomes: Outcomes, measure: str) -> Verdict:
    """What can be said of an experiment; also of one of which only one variant is known."""
    if len(experiment.variants) > 1:
        return verdict(experiment, outcomes, measure)
    [only] = experiment.variants
    tally = outcomes.get(only, {}).get(measure)
    arm = Arm(only, tally.n, tally.mean) if tally else Arm(only, 0)
    return Verdict(experiment.name, measure, CONFIDENCE, (arm,), (), f"there is only {only} so far")


async def found(tried: Tried) -> list[Experiment]:
    """All experiments that conversations took part in, as far as can be told by that: the first variant is the one
    whose name comes first."""
    return [Experiment(name, dict.fromkeys(variants)) for name, variants in (await tried.variants()).items()]


async def keep(trials: Trials, conversation: str, measure: tuple[str, float], at: float) -> None:
    """Keep what somebody measured, if that can be; raise MisconfiguredError if it cannot, ConversationNotFound if there
    is no such root."""
    name, value = measure
    if faults := [*_name_faults(name), *_value_faults(value)]:
        raise MisconfiguredError(*faults)
    await trials.measure(conversation, name, float(value), at)


def _name_faults(name: object) -> list[str]:
    if not isinstance(name, str) or not SLUG.fullmatch(name):
        return [f"a measure is called {name!r}; use letters, digits, '-' and '_', at most 64"]
    return [f"{name!r} is measured of every conversation anyway; give yours another name"] if name in COUNTED else []


def _value_faults(value: object) -> list[str]:
    # What cannot be squared is left out of every count, and nobody would know why.
    if isinstance(value, int | float) and abs(value) < 1e150 and isfinite(value):
        return []
    return [f"the value {value!r} is no number that can be counted with"]
