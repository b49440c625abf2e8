"""How often the router finds the right agent for a task, and the cost of a recommendation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TypeAlias

from bench.measure import Figure, alternated, ratio
from changeover.routing.broker import Found, Undecided, decided, find_for_task, recommend
from changeover.routing.profile import Profile
from changeover.routing.registry import Registry
from changeover.routing.vectors import load_wordllama
from tests.routing.sample_profiles import PROFILES
from tests.routing.sample_tasks import TASKS, Task
from tests.routing.table_judge import answer

FEW, MANY = 100, 1_000
EXTRA = "wordllama"
SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "su", "ta", "ve", "wi", "xo", "zu")

Names: TypeAlias = Callable[[Task], Sequence[str]]
"""Returns the ids of agents for a task, best first."""


def by_capability(task: Task) -> Sequence[str]:
    """Match by capability."""
    return [each.agent for each in recommend(Registry(PROFILES), task.text, task.required) if each.step == "exact"]


def by_text(registry: Registry) -> Names:
    """Match by text only."""
    return lambda task: [each.agent for each in recommend(registry, task.text) if each.step == "text"]


def by_all_steps(task: Task) -> Sequence[str]:
    """Match as the router does: the chosen agent first, then the other candidates."""
    registry = Registry(PROFILES)
    found = find_for_task(registry, task.text, task.required)
    if isinstance(found, Undecided):
        found = decided(found, answer(task.text, found.candidates))
    if not isinstance(found, Found):
        return []
    others = [each.agent for each in recommend(registry, task.text, task.required)]
    return [found.best.agent, *(agent for agent in others if agent != found.best.agent)]


def hits(names: Names, tasks: Sequence[Task], within: int = 1) -> float:
    """The percentage of tasks whose agent is among the first results, or that rightly have no result."""
    right = [bool(set(names(task)[:within]) & set(task.right)) if task.right else not names(task) for task in tasks]
    return 100 * sum(right) / len(right)


SOMEBODYS = [task for task in TASKS if task.right]
NOBODYS = [task for task in TASKS if not task.right]


async def routing() -> list[Figure]:
    """The accuracy of each step alone and of all of them, then the cost."""
    matchers: dict[str, Names] = {"capability": by_capability, "words": by_text(Registry(PROFILES))}
    if find_spec(EXTRA):
        matchers["meaning"] = by_text(Registry(PROFILES, load_wordllama()))
    else:
        print(f"not measured: matching by meaning, for {EXTRA} is not installed")
    figures = [figure for name, names in matchers.items() for figure in _hits(name, names)]
    return [*figures, *_hits("all steps", by_all_steps, 95, 90), *_settled(), *await _cost()]


def settled() -> list[tuple[Task, str]]:
    """The tasks that need no model, and the agent found for each, if any."""
    registry = Registry(PROFILES)
    found = [(task, find_for_task(registry, task.text, task.required)) for task in TASKS]
    return [
        (task, each.best.agent if isinstance(each, Found) else "")
        for task, each in found
        if not isinstance(each, Undecided)
    ]


def _settled() -> list[Figure]:
    without = settled()
    right = [agent in task.right if task.right else not agent for task, agent in without]
    share, hit = 100 * len(without) / len(TASKS), 100 * sum(right) / len(right)
    return [
        Figure("settled without a model", share, None, f"{len(TASKS)} tasks", " %"),
        Figure("… and rightly", hit, 95, f"{len(without)} tasks", " %", least=True),
    ]


def _hits(name: str, names: Names, bound: float | None = None, nobodys: float | None = None) -> list[Figure]:
    return [
        Figure(f"{name}: hit at 1", hits(names, SOMEBODYS), bound, f"{len(SOMEBODYS)} tasks", " %", least=True),
        Figure(f"{name}: hit at 2", hits(names, SOMEBODYS, 2), bound, f"{len(SOMEBODYS)} tasks", " %", least=True),
        Figure(f"{name}: nobody's task", hits(names, NOBODYS), nobodys, f"{len(NOBODYS)} tasks", " %", least=True),
    ]


async def _cost() -> list[Figure]:
    """The cost of a recommendation among few and among many profiles, and of adding one profile."""
    small, large = (Registry(map(made_up, range(count))) for count in (FEW, MANY))
    asked = [task.text for task in TASKS]

    async def recommends(registry: Registry) -> None:
        for text in asked:
            recommend(registry, text)

    async def begins() -> None:
        recommend(Registry(large), asked[0])

    async def adds() -> None:
        recommend(large.with_profile(made_up(MANY)), asked[0])

    for registry in (small, large):
        recommend(registry, asked[0])
    taken = await alternated(
        {
            "few": (lambda: recommends(small), 1),
            "many": (lambda: recommends(large), 1),
            "begin": (begins, 1),
            "add": (adds, 1),
        }
    )
    few, many = taken["few"], taken["many"]
    add, begin = taken["add"], taken["begin"]
    each, beside = many.least / len(asked) * 1e3, few.least / len(asked) * 1e3
    growth = f"{each:.2f} ms among {MANY:,}, {beside:.2f} ms among {FEW}"
    anew = f"{add.least * 1e3:.1f} ms beside {begin.least * 1e3:.1f} ms"
    return [
        ratio(f"recommend among {MANY:,} / {FEW}", many, few, MANY / FEW, growth),
        ratio("one more profile / all anew", add, begin, 1 / 2, anew),
    ]


def made_up(number: int) -> Profile:
    """A generated profile of invented and real words."""
    real = PROFILES[number % len(PROFILES)]
    words = [_word(number * 31 + place * 17) for place in range(8)]
    return Profile(
        f"agent-{number}",
        description=f"{real.description} {' '.join(words[:5])}",
        capabilities=(*real.capabilities[: number % 2], *words[5:7]),
        examples=(f"Please {' '.join(words[2:])}",),
    )


def _word(number: int) -> str:
    """One of about three thousand words."""
    size = len(SYLLABLES)
    return "".join(SYLLABLES[number // size**place % size] for place in range(3))
