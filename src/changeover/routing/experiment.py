"""Experiment: variants of a strategy, instructions, a model or a receiver, and which conversation gets which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from math import isfinite, log1p
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from changeover.agent.agent import SLUG, Agent, Member
from changeover.agent.roster import Trial, Trials
from changeover.handoffs.strategies import strategy_faults
from changeover.routing.statistics import draw

Subject: TypeAlias = Literal["strategy", "instructions", "model", "receiver"]
"""What the variants are variants of."""
SUBJECTS: tuple[str, ...] = get_args(Subject)


class Experiment(Struct, frozen=True):
    """Variants of one thing, each tried in its share of the conversations; the first is what the others are compared
    with."""

    name: str
    variants: dict[str, Any]
    split: dict[str, float] | None = None
    """The weight of each variant, such as {"full": 9, "summary": 1}; all alike if there is none."""
    on: Subject = "strategy"
    agents: tuple[str, ...] = ()
    """Whom it is about; all, if nobody is named."""
    lower_is_better: tuple[str, ...] = ()
    """Measures of your own of which less is better."""

    def __post_init__(self) -> None:
        # What the caller passed stays the caller's: later changes to it must not reach the declaration.
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if isinstance(value, Mapping):
                force_setattr(self, field, dict(value))
            elif isinstance(value, list):
                force_setattr(self, field, tuple(value))

    @property
    def shares(self) -> dict[str, float]:
        """Which part of the conversations each variant gets."""
        weights = self.split or dict.fromkeys(self.variants, 1.0)
        total = sum(weights.values())
        return {variant: weights[variant] / total for variant in self.variants}

    def concerns(self, agent: str) -> bool:
        """Whether this agent takes part."""
        return not self.agents or agent in self.agents

    def faults(self) -> list[str]:
        """What is wrong with it as it was declared."""
        if not isinstance(self.name, str) or not SLUG.fullmatch(self.name):
            return [f"an experiment is called {self.name!r}; use letters, digits, '-' and '_', at most 64"]
        found = [*_variant_faults(self), *_split_faults(self)]
        if self.on not in SUBJECTS:
            found.append(f"is on={self.on!r}; give one of {', '.join(map(repr, SUBJECTS))}")
        for field in ("agents", "lower_is_better"):
            names = getattr(self, field)
            if not isinstance(names, tuple) or not all(isinstance(each, str) for each in names):
                found.append(f"has {field}={names!r}; give a list of names")
        return [f"experiment {self.name!r} {fault}" for fault in found]


def variant_of(experiment: Experiment, conversation: str) -> str:
    """The variant that a conversation gets: the same each time and in every process, whatever other experiments say.
    When the split changes, or a variant joins, only those conversations move that have to. Delegates go with the
    conversation that they work for: name that one."""
    shares = experiment.shares

    def arrival(variant: str) -> float:
        # Each variant comes after a time of its own, the sooner the larger its share; the first to come has it.
        return -log1p(-draw(experiment.name, variant, conversation)) / shares[variant]

    return min((variant for variant in shares if shares[variant]), key=arrival)


def _variant_faults(experiment: Experiment) -> Iterator[str]:
    variants = experiment.variants
    if not isinstance(variants, dict) or len(variants) < 2:
        yield f"has variants={variants!r}; give two or more, by name"
        return
    for name in variants:
        if not isinstance(name, str) or not SLUG.fullmatch(name):
            yield f"has a variant called {name!r}; use letters, digits, '-' and '_', at most 64"
    faults_of = LOOKS.get(experiment.on, lambda _: [])
    for name, value in variants.items():
        yield from (f"variant {name!r} {fault}" for fault in faults_of(value))


def _split_faults(experiment: Experiment) -> Iterator[str]:
    split, variants = experiment.split, experiment.variants
    if split is None:
        return
    if not isinstance(split, dict) or not isinstance(variants, dict) or set(split) != set(variants):
        yield f"has split={split!r}; give one weight for each variant: {', '.join(map(str, variants))}"
        return
    wrong = [name for name, weight in split.items() if not _is_weight(weight)]
    yield from (f"gives {name!r} the weight {split[name]!r}; give 0 or more" for name in wrong)
    if not wrong and sum(split.values()) <= 0:
        yield "gives no variant any weight; give at least one more than 0"


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0


def _instruction_faults(value: object) -> list[str]:
    return [] if isinstance(value, str) or callable(value) else [f"is {value!r}; give a text, or a function of the run"]


def _receiver_faults(value: object) -> list[str]:
    return [] if isinstance(value, str) and value else [f"is {value!r}; give the id of an agent"]


LOOKS: dict[str, Callable[[Any], list[str]]] = {
    "strategy": strategy_faults,
    "instructions": _instruction_faults,
    "receiver": _receiver_faults,
}
"""What can be said of a variant by looking at it; what a model can be, only whoever opens it knows."""


def experiment_faults(experiments: object, members: Sequence[Member]) -> list[str]:
    """All faults of these experiments in a team of these members."""
    if not isinstance(experiments, Sequence) or isinstance(experiments, str):
        return [f"Team(experiments={experiments!r}) is no list of experiments"]
    strangers = [each for each in experiments if not isinstance(each, Experiment)]
    found = [f"{each!r} is no experiment; give Experiment(…)" for each in strangers]
    known = [each for each in experiments if isinstance(each, Experiment)]
    found += [fault for each in known for fault in each.faults()]
    sound = sound_of(known)
    for each in sound:
        found += [f"experiment {each.name!r} {fault}" for fault in _misfits(each, members)]
    for one, other in combinations(sound, 2):
        found += _clashes(one, other, members)
    return found


def sound_of(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Those of which more can be asked, because they are declared as they should be."""
    return [each for each in experiments if isinstance(each, Experiment) and not each.faults()]


def concerned(experiment: Experiment, members: Sequence[Member]) -> list[str]:
    """Everybody whom an experiment is about; for all but receivers, that can only be agents."""
    return [each.id for each in members if _can_be(experiment, each) and experiment.concerns(each.id)]


def trials_of(experiments: Sequence[Experiment], members: Sequence[Member]) -> Trials:
    """What decisions read of these."""
    found: Trials = {}
    for each in experiments:
        trial = Trial(each.name, each.variants, partial(variant_of, each))
        found |= {(each.on, agent): trial for agent in concerned(each, members)}
    return found


def _can_be(experiment: Experiment, member: Member) -> bool:
    return experiment.on == "receiver" or isinstance(member, Agent)


def _misfits(experiment: Experiment, members: Sequence[Member]) -> Iterator[str]:
    team = {member.id: member for member in members}
    listed = ", ".join(team)
    for name in experiment.agents:
        if name not in team:
            yield f"is about {name!r}, who is not in the team; choose among {listed}"
        elif not _can_be(experiment, team[name]):
            yield f"is about the {experiment.on} of {name!r}, who is no Agent"
    if experiment.on != "receiver":
        return
    if not experiment.agents:
        yield "names nobody whom its receivers stand in for; give agents=[…]"
    for variant, receiver in experiment.variants.items():
        if receiver not in team:
            yield f"variant {variant!r} hands over to {receiver!r}, who is not in the team; choose among {listed}"


def _clashes(one: Experiment, other: Experiment, members: Sequence[Member]) -> Iterator[str]:
    if one.name == other.name:
        yield f"two experiments are called {one.name!r}; give each a name of its own"
    elif one.on == other.on:
        both = [agent for agent in concerned(one, members) if agent in concerned(other, members)]
        if both:
            shared = ", ".join(both)
            yield f"experiments {one.name!r} and {other.name!r} both try the {one.on} of {shared}; leave it to one"
