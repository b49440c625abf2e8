"""Experiment: variants of a strategy, instructions, a model or a receiver, and the variant of each conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import isfinite, log1p
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from changeover.agent.agent import Agent, Member
from changeover.agent.roster import Trial, Trials
from changeover.handoffs.strategies import strategy_faults
from changeover.ids import SLUG
from changeover.routing.statistics import draw

Subject: TypeAlias = Literal["strategy", "instructions", "model", "receiver"]
"""The option whose variants an experiment tries."""
SUBJECTS: tuple[str, ...] = get_args(Subject)


class Experiment(Struct, frozen=True):
    """Variants of one option, each tried in its share of the conversations; the first is the control."""

    name: str
    """Letters, digits, '-' and '_', at most 64."""
    variants: dict[str, Any]
    """Two or more values of the option, by name."""
    split: dict[str, float] | None = None
    """The weight of each variant, such as {"full": 9, "summary": 1}; None for equal weights."""
    on: Subject = "strategy"
    """The option: "strategy", "instructions", "model" or "receiver"."""
    agents: tuple[str, ...] = ()
    """The ids of the agents that take part; empty for all."""
    lower_is_better: tuple[str, ...] = ()
    """Names of your own measures for which a lower value is better."""

    def __post_init__(self) -> None:
        # Copied: later changes of the caller's lists and dicts must not reach the declaration.
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if isinstance(value, Mapping):
                force_setattr(self, field, dict(value))
            elif isinstance(value, list):
                force_setattr(self, field, tuple(value))

    @property
    def shares(self) -> dict[str, float]:
        """The share of conversations of each variant, from 0 to 1."""
        weights = self.split or dict.fromkeys(self.variants, 1.0)
        total = sum(weights.values())
        return {variant: weights[variant] / total for variant in self.variants}

    def concerns(self, agent: str) -> bool:
        """True if this agent takes part."""
        return not self.agents or agent in self.agents

    def variant_of(self, conversation: str) -> str:
        """The variant of a root conversation, by its id: the same in every process, and independent of other
        experiments.

        When the split changes or a variant is added, as few conversations as possible change their variant.
        """
        shares = self.shares

        def arrival(variant: str) -> float:
            # An exponential arrival time for each variant, with its share as the rate; the first to arrive is chosen.
            return -log1p(-draw(self.name, variant, conversation)) / shares[variant]

        return min((variant for variant in shares if shares[variant]), key=arrival)

    def faults(self) -> list[str]:
        """The faults of this declaration, one text each."""
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


def _variant_faults(experiment: Experiment) -> Iterator[str]:
    variants = experiment.variants
    if not isinstance(variants, dict) or len(variants) < 2:
        yield f"has variants={variants!r}; give two or more, by name"
        return
    for name in variants:
        if not isinstance(name, str) or not SLUG.fullmatch(name):
            yield f"has a variant called {name!r}; use letters, digits, '-' and '_', at most 64"
    faults_of = CHECKS.get(experiment.on, lambda _: [])
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


CHECKS: dict[str, Callable[[Any], list[str]]] = {
    "strategy": strategy_faults,
    "instructions": _instruction_faults,
    "receiver": _receiver_faults,
}
"""The check of a variant, by subject; models are checked when they are opened."""


def experiment_faults(experiments: object, members: Sequence[Member]) -> list[str]:
    """The faults of these experiments in a team of these members, one text each."""
    if not isinstance(experiments, Sequence) or isinstance(experiments, str):
        return [f"Team(experiments={experiments!r}) is not a list of Experiment(…)s"]
    others = [each for each in experiments if not isinstance(each, Experiment)]
    found = [f"{each!r} is not an Experiment(…)" for each in others]
    known = [each for each in experiments if isinstance(each, Experiment)]
    found += [fault for each in known for fault in each.faults()]
    sound = sound_of(known)
    for each in sound:
        found += [f"experiment {each.name!r} {fault}" for fault in _misfits(each, members)]
    for one, other in combinations(sound, 2):
        found += _clashes(one, other, members)
    return found


def sound_of(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The experiments whose declarations have no faults."""
    return [each for each in experiments if isinstance(each, Experiment) and not each.faults()]


def concerned(experiment: Experiment, members: Sequence[Member]) -> list[str]:
    """The ids of the members that take part; only agents can, unless it is about receivers."""
    return [each.id for each in members if _can_be(experiment, each) and experiment.concerns(each.id)]


def trials_of(experiments: Sequence[Experiment], members: Sequence[Member]) -> Trials:
    """The experiments as a Roster holds them."""
    found: Trials = {}
    for each in experiments:
        trial = Trial(each.name, each.variants, each.variant_of)
        found |= {(each.on, agent): trial for agent in concerned(each, members)}
    return found


def _can_be(experiment: Experiment, member: Member) -> bool:
    return experiment.on == "receiver" or isinstance(member, Agent)


def _misfits(experiment: Experiment, members: Sequence[Member]) -> Iterator[str]:
    team = {member.id: member for member in members}
    listed = ", ".join(team)
    for name in experiment.agents:
        if name not in team:
            yield f"is about {name!r}, which is not in the team; choose among {listed}"
        elif not _can_be(experiment, team[name]):
            yield f"is about the {experiment.on} of {name!r}, which is not an Agent"
    if experiment.on != "receiver":
        return
    if not experiment.agents:
        yield "names no agents for which its receivers stand in; give agents=[…]"
    for variant, receiver in experiment.variants.items():
        if receiver not in team:
            yield f"variant {variant!r} hands over to {receiver!r}, which is not in the team; choose among {listed}"


def _clashes(one: Experiment, other: Experiment, members: Sequence[Member]) -> Iterator[str]:
    if one.name == other.name:
        yield f"two experiments are called {one.name!r}; give each a name of its own"
    elif one.on == other.on:
        both = [agent for agent in concerned(one, members) if agent in concerned(other, members)]
        if both:
            shared = ", ".join(both)
            yield f"experiments {one.name!r} and {other.name!r} both try the {one.on} of {shared}; keep one of them"
