"""What an outcome is worth: success first, then time and money; and how all of that is declared."""

from __future__ import annotations

from math import inf, isfinite

from msgspec import Struct


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
