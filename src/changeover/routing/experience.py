"""Experience: outcomes of earlier tasks order the candidates, successful agents first, with a chance for the others.

The success of an agent at a capability is a Beta distribution. To order candidates, one value is drawn from each
(Thompson sampling): an agent known to be good wins nearly always, an unknown one now and then, and is better known
after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite

from msgspec import Struct
from msgspec.structs import replace

from changeover.routing.load import C, comparable, with_reason
from changeover.routing.statistics import Draws, beta_quantile


class Outcome(Struct, frozen=True, gc=False):
    """The outcome of one task."""

    capability: str
    agent: str
    success: bool
    seconds: float | None = None
    """How long it took; None if unknown."""
    cost: float | None = None
    """In US dollars; None if unknown."""

    @property
    def known_seconds(self) -> float | None:
        """`seconds`, if it is a finite number; at least 0."""
        return _known(self.seconds)

    @property
    def known_cost(self) -> float | None:
        """`cost`, if it is a finite number; at least 0."""
        return _known(self.cost)


class Learning(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How much outcomes count for the choice of agents, and for how long."""

    half_life: float = 200.0
    """After how many outcomes of a capability, of all agents, an outcome counts half. If it is short, forgotten agents
    are tried again too often; if it is long, it takes too many tasks to notice that the best agent has got worse."""
    margin: float = 0.1
    """Experience orders only candidates whose score is below the best by at most this share. The length of a profile
    can move a text score by as much; a larger distance means that the agent is for something else."""
    speed: float = 0.1
    """How much a success can lose by being slow, from 0 to 1."""
    thrift: float = 0.1
    """How much a success can lose by being expensive, from 0 to 1."""
    usual_seconds: float = 60.0
    """The time at which half of `speed` is lost."""
    usual_cost: float = 0.1
    """The cost, in US dollars, at which half of `thrift` is lost."""

    def worth(self, outcome: Outcome) -> float:
        """The value of an outcome: 0 for a failure, 1 for a success, less what it loses by its time and its cost."""
        if not outcome.success:
            return 0.0
        slow = _share(outcome.known_seconds, self.usual_seconds)
        expensive = _share(outcome.known_cost, self.usual_cost)
        return 1 - self.speed * slow - self.thrift * expensive

    def faults(self) -> list[str]:
        """The faults of these settings, one text each."""
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
    # At least 0: a clock that was set back gives negative times.
    return max(0.0, amount) if amount is not None and isfinite(amount) else None


def _share(amount: float | None, usual: float) -> float:
    """From 0 to 1, and 0.5 at the usual amount; 0 if the amount is unknown."""
    return 0.0 if amount is None else amount / (amount + usual)


def _is_number(value: object, above: float = -inf, most: float = inf) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return isfinite(value) and above < value <= most and value >= 0


class Experience(Struct, frozen=True, gc=False):
    """The experience with one agent at one capability."""

    capability: str
    agent: str
    tasks: int = 0
    successes: int = 0
    good: float = 0.0
    bad: float = 0.0
    """The sums of the worth of the outcomes, and of what they lack to 1, discounted up to `at`."""
    at: int = 0
    """The number, among all outcomes of this capability, of the last one that counts here."""
    seconds: float = 0.0
    timed: int = 0
    cost: float = 0.0
    priced: int = 0
    """Sums of time and cost, and the numbers of tasks for which these are known."""

    def remembered(self, now: int, half_life: float) -> Experience:
        """The same experience, discounted up to the outcome number `now`."""
        kept = 0.5 ** ((now - self.at) / half_life)
        return replace(self, good=self.good * kept, bad=self.bad * kept, at=now)

    @property
    def belief(self) -> tuple[float, float]:
        """The two parameters of the Beta distribution of the worth; uniform without outcomes."""
        return 1 + self.good, 1 + self.bad

    @property
    def worth(self) -> float:
        """The expected worth of the next task, from 0 to 1."""
        a, b = self.belief
        return a / (a + b)


class Learned(Struct, frozen=True):
    """All experience, by capability and agent."""

    experiences: dict[str, dict[str, Experience]] = {}

    @staticmethod
    def of(rows: Iterable[Experience]) -> Learned:
        """The experience of these rows."""
        found: dict[str, dict[str, Experience]] = {}
        for row in rows:
            found.setdefault(row.capability, {})[row.agent] = row
        return Learned(found)

    def rows(self) -> list[Experience]:
        """All experience as a list."""
        return [row for agents in self.experiences.values() for row in agents.values()]

    def now(self, capability: str, learning: Learning = DEFAULT) -> dict[str, Experience]:
        """The experience with each agent at this capability, discounted up to its last outcome."""
        rows = self.experiences.get(capability, {})
        now = max((row.at for row in rows.values()), default=0)
        return {agent: row.remembered(now, learning.half_life) for agent, row in rows.items()}


class Standing(Struct, frozen=True, gc=False):
    """An agent's record at a capability, for display."""

    capability: str
    agent: str
    tasks: int
    successes: int
    worth: float
    """The expected worth of the next task, from 0 to 1."""
    low: float
    high: float
    """The 90 % interval of the worth."""
    seconds: float | None
    cost: float | None
    """Averages of the tasks for which they are known."""


def update(learned: Learned, outcome: Outcome, learning: Learning = DEFAULT) -> Learned:
    """The experience after this outcome."""
    rows = learned.experiences.get(outcome.capability, {})
    row = rows.get(outcome.agent) or Experience(outcome.capability, outcome.agent)
    now = 1 + max((each.at for each in rows.values()), default=0)
    after = _counted(row.remembered(now, learning.half_life), outcome, learning)
    return Learned({**learned.experiences, outcome.capability: {**rows, outcome.agent: after}})


def reorder(
    learned: Learned, candidates: Sequence[C], capability: str, draws: Draws, learning: Learning = DEFAULT
) -> list[C]:
    """The candidates, with those of comparable score ordered by experience; without experience the order stays."""
    known = learned.now(capability, learning)
    ordered: list[C] = []
    for group in comparable(candidates, learning.margin):
        has_experience = len(group) > 1 and any(each.agent in known for each in group)
        ordered += _sampled(group, known, draws) if has_experience else group
    return ordered


def forget(learned: Learned, capability: str | None = None, agent: str | None = None) -> Learned:
    """The experience without a capability, an agent, or an agent at a capability; empty if neither is given."""
    return Learned.of(
        row
        for row in learned.rows()
        if (capability is not None and row.capability != capability) or (agent is not None and row.agent != agent)
    )


def summary(learned: Learned, learning: Learning = DEFAULT) -> list[Standing]:
    """The records of all agents, by capability, the best first."""
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
    explained = [with_reason(each, _record(beliefs[each.agent])) for each in (first, *rest)]
    if beliefs[first.agent].worth < best.worth:
        explained[0] = with_reason(explained[0], f"tried to learn more, though {best.agent} did better so far")
    return explained


def _record(row: Experience) -> str:
    if not row.tasks:
        return "has not done this yet"
    return f"{row.successes} of {row.tasks} such tasks succeeded, worth {row.worth:.2f} lately"


def _standing(row: Experience) -> Standing:
    low, high = (beta_quantile(*row.belief, p) for p in (0.05, 0.95))
    seconds = row.seconds / row.timed if row.timed else None
    cost = row.cost / row.priced if row.priced else None
    return Standing(row.capability, row.agent, row.tasks, row.successes, row.worth, low, high, seconds, cost)
