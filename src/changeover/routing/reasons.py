"""Why an agent fits, in words for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from changeover.routing.kin import families
from changeover.routing.match import shared
from changeover.routing.profile import Profile, abilities, key, parts_of, text_of
from changeover.routing.words import stem, telling

MOST = 5
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
    return f"{parts} {words}, close to {listed(list(near)[:MOST])}" if words else ""


def _where(profile: Profile, fits: Callable[[str], bool]) -> tuple[str, str]:
    """The parts of a profile that have such words, and the words as they stand there."""
    read = {part: [word for word in telling(text) if fits(word)] for part, text in parts_of(profile)}
    found = {part: words for part, words in read.items() if words}
    alike: dict[str, str] = {}
    for word in chain.from_iterable(found.values()):
        alike.setdefault(stem(word), word)
    verb = "speaks of" if len(found) == 1 and not SEVERAL & found.keys() else "speak of"
    return f"its {listed(list(found))} {verb}", ", ".join(list(alike.values())[:MOST])
