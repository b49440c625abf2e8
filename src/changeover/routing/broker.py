"""The broker: finds agents for a task by capabilities, else by text match, else by a model, with a reason for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from changeover.routing.judge import judged
from changeover.routing.match import shared
from changeover.routing.profile import Profile, abilities, key, parts_of, text_of
from changeover.routing.registry import Registry
from changeover.routing.words import content_words, families, stem

MOST_WORDS = 5
"""How many words a reason names."""
PLURAL = {"capabilities", "examples"}
"""The parts of a profile whose name is plural."""


def listed(names: Sequence[str]) -> str:
    """Names as an enumeration: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def capability_reason(profile: Profile, capabilities: Iterable[str]) -> str:
    """A reason: the required capabilities, in the words of the profile."""
    own, named = abilities(profile), dict.fromkeys(map(key, capabilities))
    declared = {key(each) for each in profile.capabilities}
    held = [own[each] for each in named if each in declared]
    special = [own[each] for each in named if each not in declared]
    clauses = [f"has the capabilit{'ies' if len(held) > 1 else 'y'} {listed(held)}"] if held else []
    return " and ".join([*clauses, *(f"is specialised in {each}" for each in special)])


def text_reason(profile: Profile, task: str) -> str:
    """A reason: the words, or else the synonyms, that the profile shares with the task; empty if there are none."""
    common = shared(task, text_of(profile))
    return _same(profile, common) or _close(profile, task, common)


def _same(profile: Profile, common: set[str]) -> str:
    parts, words = _where(profile, lambda word: stem(word) in common)
    return f"{parts} {words}" if words else ""


def _close(profile: Profile, task: str, common: set[str]) -> str:
    def belongs(word: str) -> bool:
        return not common.isdisjoint(families(stem(word)))

    parts, words = _where(profile, belongs)
    near = dict.fromkeys(word for word in content_words(task) if belongs(word))
    return f"{parts} {words}, close to {listed(list(near)[:MOST_WORDS])}" if words else ""


def _where(profile: Profile, fits: Callable[[str], bool]) -> tuple[str, str]:
    """The parts of a profile that have matching words, and these words as the profile writes them."""
    read = {part: [word for word in content_words(text) if fits(word)] for part, text in parts_of(profile)}
    found = {part: words for part, words in read.items() if words}
    by_stem: dict[str, str] = {}
    for word in chain.from_iterable(found.values()):
        by_stem.setdefault(stem(word), word)
    verb = "mentions" if len(found) == 1 and not PLURAL & found.keys() else "mention"
    return f"its {listed(list(found))} {verb}", ", ".join(list(by_stem.values())[:MOST_WORDS])


ENOUGH = 0.3
"""The least text score of a clear match. Below it, one common word would suffice: a law of physics would match an agent
for contract law."""
CLEARLY = 2.0
"""The least ratio of the best score to the next."""
MOST = 100
"""How many profiles a model chooses from; with more, its choice gets worse."""

Step: TypeAlias = Literal["exact", "text", "judge"]


class Recommendation(Struct, frozen=True):
    """An agent that the router recommends for a task."""

    agent: str
    """The id of the agent."""
    score: float
    """From 0 to 1; comparable only within one list."""
    why: str
    """The reason, in words."""
    step: Step
    """How it was found: by capabilities ("exact"), by its text ("text"), or by a model ("judge")."""

    def __iter__(self) -> Iterator[Any]:
        """The recommendation as it unpacks: agent, score and why."""
        return iter((self.agent, self.score, self.why))


class Found(Struct, frozen=True):
    """One or more agents fit the task."""

    best: Recommendation
    equals: tuple[Recommendation, ...] = ()
    """Agents that fit as well as the best; load and experience can decide between them."""


class Undecided(Struct, frozen=True):
    """No agent fits clearly: a model has to choose (`judge_prompt`, then `decided` with its answer)."""

    task: str
    candidates: tuple[Profile, ...]
    """The profiles, by descending text score."""


class NoMatch(Struct, frozen=True):
    """No agent fits, and a model could not choose one either; `why` says why."""

    why: str


class Fit(NamedTuple):
    """A profile and its text score."""

    profile: Profile
    text: float


def recommend(registry: Registry, task: str, required: Sequence[str] = (), n: int = 3) -> tuple[Recommendation, ...]:
    """The `n` best agents for a task, best first; all of them have all `required` capabilities."""
    needed = _needed(registry, task, required)
    fits = _fits(registry, task, needed)
    best = max((fit.text for fit in fits), default=0.0)
    matches = fits if needed else [fit for fit in fits if fit.text]
    return tuple(_recommended(fit, task, needed, best) for fit in nsmallest(max(0, n), matches, key=_order))


def find_for_task(registry: Registry, task: str, required: Sequence[str] = ()) -> Found | Undecided | NoMatch:
    """The agent for a task, or the candidates from which a model has to choose."""
    needed = _needed(registry, task, required)
    fits = sorted(_fits(registry, task, needed), key=_order)
    if not fits:
        return NoMatch(f"no available agent has {listed(needed)}" if needed else "no agent is available for handoffs")
    if not needed and not task.strip():
        return NoMatch("the task is empty")
    if not needed and not _is_clear(fits):
        return Undecided(task, tuple(fit.profile for fit in fits[:MOST]))
    first, *others = fits
    alike = [fit for fit in others if fit.text == first.text]
    best, *equals = (_recommended(fit, task, needed, first.text) for fit in (first, *alike))
    return Found(best, tuple(equals))


def decided(undecided: Undecided, answer: str) -> Found | NoMatch:
    """The agent that a model chose; `answer` is its reply to `judge_prompt`."""
    candidates = undecided.candidates
    chosen = judged(answer, candidates)
    if chosen is None:
        return NoMatch(f"the model found none of {len(candidates)} agents that fits")
    reason = text_reason(chosen, undecided.task)
    why = f"the model chose it among {len(candidates)}{f'; {reason}' if reason else ''}"
    return Found(Recommendation(chosen.id, 1.0, why, "judge"))


def _needed(registry: Registry, task: str, required: Sequence[str]) -> tuple[str, ...]:
    """The required capabilities; a task that is nothing but the name of a capability requires it."""
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
    """True if the first fits well, and much better than the next that has another profile."""
    first = fits[0]
    second = next((fit.text for fit in fits[1:] if not _are_twins(fit, first)), 0.0)
    return first.text >= ENOUGH and first.text >= CLEARLY * second


def _are_twins(one: Fit, other: Fit) -> bool:
    """True if their profiles differ only in id, name and concurrency."""

    def kind(profile: Profile) -> Profile:
        return replace(profile, id="", name="", max_concurrency=None)

    return kind(one.profile) == kind(other.profile)


def _recommended(fit: Fit, task: str, needed: Sequence[str], best: float) -> Recommendation:
    """The recommendation for a match. With all needed capabilities the score is 1, less half the distance of its text
    score to the best."""
    reason = text_reason(fit.profile, task) if fit.text and task not in needed else ""
    if not needed:
        return Recommendation(fit.profile.id, fit.text, reason or "its profile is close to the task in meaning", "text")
    why = f"{capability_reason(fit.profile, needed)}{f', and {reason}' if reason else ''}"
    return Recommendation(fit.profile.id, 1.0 - (best - fit.text) / 2, why, "exact")
