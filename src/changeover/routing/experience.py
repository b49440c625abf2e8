"""Learning: outcomes of earlier tasks move successful agents to the front, and leave the others a chance.

The success of an agent at a capability is a Beta distribution. To order candidates, one value is drawn from each
(Thompson sampling): an agent known to be good wins nearly always, an unknown one now and then, and is better known
after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite

from msgspec import Struct
from msgspec.structs import replace

from changeover.routing.load import C, because, comparable
from changeover.routing.statistics import Draws, beta_quantile


class Outcome(Struct, frozen=True, gc=False):
    """What became of one task."""

    capability: str
    agent: str
    success: bool
    seconds: float | None = None
    cost: float | None = None
    """In US dollars; None, as with seconds, means that nobody knows."""

    @property
    def known_seconds(self) -> float | None:
        return _known(self.seconds)

    @property
    def known_cost(self) -> float | None:
        return _known(self.cost)


class Learning(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How outcomes are weighed, and how long they count."""

    half_life: float = 200.0
    """After so many outcomes of a capability, whoever worked, an outcome counts half. Shorter, and the best is lost
    sight of because the others, forgotten, have to be tried again and again; longer, and it takes too many tasks to
    notice that the best has turned bad."""
    margin: float = 0.1
    """Experience orders those who fit worse than the best by at most this share. How wordy two one-line profiles are
    moves a text match by so much; whoever is further apart is there for something else."""
    speed: float = 0.1
    thrift: float = 0.1
    """What a success can lose by being slow, and by being dear."""
    usual_seconds: float = 60.0
    usual_cost: float = 0.1
    """Where half of that is lost."""

    def worth(self, outcome: Outcome) -> float:
        """A failure is worth nothing; a success 1, less what it loses by its time and its cost."""
        if not outcome.success:
            return 0.0
        slow = _share(outcome.known_seconds, self.usual_seconds)
        dear = _share(outcome.known_cost, self.usual_cost)
        return 1 - self.speed * slow - self.thrift * dear

    def faults(self) -> list[str]:
        """What is wrong with it as it was declared."""
        found = [
            f"{name}={value!r}; give a number above 0"
            for name in ("half_life", "usual_seconds", "usual_cost")
            if not _is_number(value := getattr(self, name), above=0)
        ]
        found += [
            f"{name}={value!r}; give a share from 0 to 1"
            for name in ("margin", "speed", "thrift")
            if not _is_number(value := getattr(self, name), most=1)
        ]
        if not found and self.speed + self.thrift > 1:
            found.append(f"speed={self.speed!r} and thrift={self.thrift!r} are more than 1 together")
        return found


DEFAULT = Learning()


def _known(amount: float | None) -> float | None:
    """An amount that can be reckoned with; a clock that was set back gives less than nothing."""
    return max(0.0, amount) if amount is not None and isfinite(amount) else None


def _share(amount: float | None, usual: float) -> float:
    """From 0 to 1, half at what is usual; what nobody knows is held against nobody."""
    return 0.0 if amount is None else amount / (amount + usual)


def _is_number(value: object, above: float = -inf, most: float = inf) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return isfinite(value) and above < value <= most and value >= 0


class Experience(Struct, frozen=True, gc=False):
    """What is known of one agent at one capability: a row, if a store keeps it."""

    capability: str
    agent: str
    tasks: int = 0
    successes: int = 0
    good: float = 0.0
    bad: float = 0.0
    """What the outcomes were worth and what they lacked, as far as it was remembered at `at`."""
    at: int = 0
    """The how-manieth outcome of this capability, whoever worked, was the last that is counted here."""
    seconds: float = 0.0
    timed: int = 0
    cost: float = 0.0
    priced: int = 0
    """Sums, and how many tasks they are of: not every task says how long it took and what it cost."""

    def remembered(self, now: int, half_life: float) -> Experience:
        """The same after more outcomes of this capability: it counts less."""
        kept = 0.5 ** ((now - self.at) / half_life)
        return replace(self, good=self.good * kept, bad=self.bad * kept, at=now)

    @property
    def belief(self) -> tuple[float, float]:
        """The two parameters of the Beta distribution; before anything is known, every worth is as likely."""
        return 1 + self.good, 1 + self.bad

    @property
    def worth(self) -> float:
        """What is to be expected of one more task, between 0 and 1."""
        a, b = self.belief
        return a / (a + b)


class Learned(Struct, frozen=True):
    """All that was learnt: by capability, and by agent in it."""

    experiences: dict[str, dict[str, Experience]] = {}

    @staticmethod
    def of(rows: Iterable[Experience]) -> Learned:
        """What these rows say together."""
        found: dict[str, dict[str, Experience]] = {}
        for row in rows:
            found.setdefault(row.capability, {})[row.agent] = row
        return Learned(found)

    def rows(self) -> list[Experience]:
        """All experiences, as they are kept."""
        return [row for agents in self.experiences.values() for row in agents.values()]

    def now(self, capability: str, learning: Learning = DEFAULT) -> dict[str, Experience]:
        """What is still remembered of each agent at this capability."""
        rows = self.experiences.get(capability, {})
        now = max((row.at for row in rows.values()), default=0)
        return {agent: row.remembered(now, learning.half_life) for agent, row in rows.items()}


class Standing(Struct, frozen=True, gc=False):
    """How an agent stands at a capability, for people."""

    capability: str
    agent: str
    tasks: int
    successes: int
    worth: float
    low: float
    high: float
    """Between these two its worth lies with a likelihood of 90 %."""
    seconds: float | None
    cost: float | None
    """On average, where known."""


def update(learned: Learned, outcome: Outcome, learning: Learning = DEFAULT) -> Learned:
    """What is known after this outcome."""
    rows = learned.experiences.get(outcome.capability, {})
    row = rows.get(outcome.agent) or Experience(outcome.capability, outcome.agent)
    now = 1 + max((each.at for each in rows.values()), default=0)
    after = _counted(row.remembered(now, learning.half_life), outcome, learning)
    return Learned({**learned.experiences, outcome.capability: {**rows, outcome.agent: after}})


def reorder(
    learned: Learned, candidates: Sequence[C], capability: str, draws: Draws, learning: Learning = DEFAULT
) -> list[C]:
    """The same candidates, those of comparable fit ordered by experience; where there is none, as they were."""
    known = learned.now(capability, learning)
    ordered: list[C] = []
    for group in comparable(candidates, learning.margin):
        told = len(group) > 1 and any(each.agent in known for each in group)
        ordered += _sampled(group, known, draws) if told else group
    return ordered


def forget(learned: Learned, capability: str | None = None, agent: str | None = None) -> Learned:
    """What is left without a capability, an agent, or an agent at a capability; nothing if neither is named."""
    return Learned.of(
        row
        for row in learned.rows()
        if (capability is not None and row.capability != capability) or (agent is not None and row.agent != agent)
    )


def summary(learned: Learned, learning: Learning = DEFAULT) -> list[Standing]:
    """How everybody stands, by capability, the best first."""
    rows = [row for capability in learned.experiences for row in learned.now(capability, learning).values()]
    return [_standing(row) for row in sorted(rows, key=lambda row: (row.capability, -row.worth, row.agent))]


def _counted(row: Experience, outcome: Outcome, learning: Learning) -> Experience:
    worth = learning.worth(outcome)
    seconds, cost = outcome.known_seconds, outcome.known_cost
    return replace(
        row,
        tasks=row.tasks + 1,
        successes=row.successes + outcome.success,
        good=row.good + worth,
        bad=row.bad + 1 - worth,
        seconds=row.seconds + (seconds or 0.0),
        timed=row.timed + (seconds is not None),
        cost=row.cost + (cost or 0.0),
        priced=row.priced + (cost is not None),
    )


def _sampled(group: Sequence[C], known: dict[str, Experience], draws: Draws) -> list[C]:
    beliefs = {each.agent: known.get(each.agent) or Experience("", each.agent) for each in group}
    samples = {agent: beta_quantile(*row.belief, next(draws)) for agent, row in beliefs.items()}
    first, *rest = sorted(group, key=lambda each: -samples[each.agent])
    best = max(beliefs.values(), key=lambda row: row.worth)
    told = [because(each, _told(beliefs[each.agent])) for each in (first, *rest)]
    if beliefs[first.agent].worth < best.worth:
        told[0] = because(told[0], f"tried to learn more, though {best.agent} did better so far")
    return told


def _told(row: Experience) -> str:
    if not row.tasks:
        return "has not done this yet"
    return f"{row.successes} of {row.tasks} such tasks succeeded, worth {row.worth:.2f} lately"


def _standing(row: Experience) -> Standing:
    low, high = (beta_quantile(*row.belief, p) for p in (0.05, 0.95))
    seconds = row.seconds / row.timed if row.timed else None
    cost = row.cost / row.priced if row.priced else None
    return Standing(row.capability, row.agent, row.tasks, row.successes, row.worth, low, high, seconds, cost)
