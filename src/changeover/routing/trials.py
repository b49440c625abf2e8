"""The experiments of a team: what is wrong with them among its members, and what decisions read of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations

from changeover.agent.agent import Agent, Member
from changeover.agent.trial import Trial, Trials
from changeover.routing.experiment import Experiment, variant_of


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
