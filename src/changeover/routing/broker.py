"""The broker: finds agents for a task by capabilities, else by text match, else by asking a model; and says why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from changeover.routing.judge import judged
from changeover.routing.match import shared
from changeover.routing.profile import Profile, abilities, key, parts_of, text_of
from changeover.routing.registry import Registry
from changeover.routing.words import families, stem, telling

MOST_WORDS = 5
"""So many words are named."""
SEVERAL = {"capabilities", "examples"}
"""The parts of a profile that are plural."""


def listed(names: Sequence[str]) -> str:
    """Names as one says them: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def has(profile: Profile, capabilities: Iterable[str]) -> str:
    """That it has what is asked for, in the words of its profile."""
    own, named = abilities(profile), dict.fromkeys(map(key, capabilities))
    declared = {key(each) for each in profile.capabilities}
    held = [own[each] for each in named if each in declared]
    special = [own[each] for each in named if each not in declared]
    clauses = [f"has the capabilit{'ies' if len(held) > 1 else 'y'} {listed(held)}"] if held else []
    return " and ".join([*clauses, *(f"is specialised in {each}" for each in special)])


def speaks(profile: Profile, task: str) -> str:
    """What of the task its profile speaks of; nothing if they have no word in common, nor one that is close."""
    common = shared(task, text_of(profile))
    return _same(profile, common) or _close(profile, task, common)


def _same(profile: Profile, common: set[str]) -> str:
    parts, words = _where(profile, lambda word: stem(word) in common)
    return f"{parts} {words}" if words else ""


def _close(profile: Profile, task: str, common: set[str]) -> str:
    def belongs(word: str) -> bool:
        return not common.isdisjoint(families(stem(word)))

    parts, words = _where(profile, belongs)
    near = dict.fromkeys(word for word in telling(task) if belongs(word))
    return f"{parts} {words}, close to {listed(list(near)[:MOST_WORDS])}" if words else ""


def _where(profile: Profile, fits: Callable[[str], bool]) -> tuple[str, str]:
    """The parts of a profile that have such words, and the words as they stand there."""
    read = {part: [word for word in telling(text) if fits(word)] for part, text in parts_of(profile)}
    found = {part: words for part, words in read.items() if words}
    alike: dict[str, str] = {}
    for word in chain.from_iterable(found.values()):
        alike.setdefault(stem(word), word)
    verb = "speaks of" if len(found) == 1 and not SEVERAL & found.keys() else "speak of"
    return f"its {listed(list(found))} {verb}", ", ".join(list(alike.values())[:MOST_WORDS])


ENOUGH = 0.3
"""How well a profile must fit by its text alone. Below, one word that happens to be the same would do: a law of physics
is not for whoever knows contract law."""
CLEARLY = 2.0
"""How much better it must fit than the next."""
MOST = 100
"""So many profiles are put before a model; with more, it reads none with care."""

Step: TypeAlias = Literal["exact", "text", "judge"]


class Recommendation(Struct, frozen=True):
    """An agent for a task."""

    agent: str
    score: float
    """From 0 to 1, to be compared within one answer."""
    why: str
    step: Step
    """What spoke for it: what it has to be able to do, its text, or a model."""


class Found(Struct, frozen=True):
    """Somebody fits."""

    best: Recommendation
    equals: tuple[Recommendation, ...] = ()
    """Who fits as well: whoever knows more, such as their load, may take one of them."""


class Undecided(Struct, frozen=True):
    """Nobody fits clearly: a model is to be asked (`judge_prompt`), and its answer read (`decided`)."""

    task: str
    candidates: tuple[Profile, ...]
    """Those whose texts have something in common with the task come first."""


class Nobody(Struct, frozen=True):
    """Nobody can do it, and there is nothing to ask a model."""

    why: str


class Fit(NamedTuple):
    """How well the text of a profile fits."""

    profile: Profile
    text: float


def recommend(registry: Registry, task: str, required: Sequence[str] = (), n: int = 3) -> tuple[Recommendation, ...]:
    """The best for a task, best first; where something is required, only those who have all of it."""
    needed = _needed(registry, task, required)
    fits = _fits(registry, task, needed)
    best = max((fit.text for fit in fits), default=0.0)
    telling = fits if needed else [fit for fit in fits if fit.text]
    return tuple(_recommended(fit, task, needed, best) for fit in nsmallest(max(0, n), telling, key=_order))


def find_for_task(registry: Registry, task: str, required: Sequence[str] = ()) -> Found | Undecided | Nobody:
    """Who should do a task, or among whom a model is to choose."""
    needed = _needed(registry, task, required)
    fits = sorted(_fits(registry, task, needed), key=_order)
    if not fits:
        return Nobody(f"nobody is there who has {listed(needed)}" if needed else "nobody is there who takes handoffs")
    if not needed and not task.strip():
        return Nobody("the task says nothing")
    if not needed and not _is_clear(fits):
        return Undecided(task, tuple(fit.profile for fit in fits[:MOST]))
    first, *others = fits
    alike = [fit for fit in others if fit.text == first.text]
    best, *equals = (_recommended(fit, task, needed, first.text) for fit in (first, *alike))
    return Found(best, tuple(equals))


def decided(undecided: Undecided, answer: str) -> Found | Nobody:
    """What a model chose that was asked."""
    candidates = undecided.candidates
    chosen = judged(answer, candidates)
    if chosen is None:
        return Nobody(f"the model found nobody among {len(candidates)} who fits")
    reason = speaks(chosen, undecided.task)
    why = f"the model chose it among {len(candidates)}{f'; {reason}' if reason else ''}"
    return Found(Recommendation(chosen.id, 1.0, why, "judge"))


def _needed(registry: Registry, task: str, required: Sequence[str]) -> tuple[str, ...]:
    """What is required; a task that is the name of a capability, and no more, requires that."""
    return tuple(required) or ((task,) if registry.holding(task) else ())


def _fits(registry: Registry, task: str, needed: Sequence[str]) -> list[Fit]:
    fits = map(Fit, registry.available, registry.match.scores(task))
    if not needed:
        return list(fits)
    holders = {profile.id for profile in registry.holding(*needed)}
    return [fit for fit in fits if fit.profile.id in holders]


def _order(fit: Fit) -> tuple[float, str]:
    return -fit.text, fit.profile.id


def _is_clear(fits: Sequence[Fit]) -> bool:
    """Whether the first fits well, and much better than the next that is not of the same kind."""
    first = fits[0]
    second = next((fit.text for fit in fits[1:] if not _are_twins(fit, first)), 0.0)
    return first.text >= ENOUGH and first.text >= CLEARLY * second


def _are_twins(one: Fit, other: Fit) -> bool:
    """Whether their profiles say the same but for who they are."""

    def kind(profile: Profile) -> Profile:
        return replace(profile, id="", name="", max_concurrency=None)

    return kind(one.profile) == kind(other.profile)


def _recommended(fit: Fit, task: str, needed: Sequence[str], best: float) -> Recommendation:
    """Whoever has all that is needed fits; how far behind the best its text is takes a little from that."""
    reason = speaks(fit.profile, task) if fit.text and task not in needed else ""
    if not needed:
        return Recommendation(fit.profile.id, fit.text, reason or "its profile is close to the task in meaning", "text")
    why = f"{has(fit.profile, needed)}{f', and {reason}' if reason else ''}"
    return Recommendation(fit.profile.id, 1.0 - (best - fit.text) / 2, why, "exact")
