"""StepMetrics: outcomes, durations and costs of the steps of workflows, over many runs."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict

from msgspec import Struct

from changeover.observe.sums import Times, times_of
from changeover.relay.ports.tables import Measures, StepCourse

Place = tuple[str, str]
"""Workflow and step."""


class StepMetrics(Struct, frozen=True, kw_only=True):
    """Counts and durations of one step of a workflow in runs that have ended."""

    count: int = 0
    """Runs in which it began or was skipped; each is counted in exactly one of the next five fields."""
    done: int = 0
    failed: int = 0
    skipped: int = 0
    compensated: int = 0
    """Done, and undone because a later step failed."""
    cancelled: int = 0
    success_rate: float | None = None
    """Share of `done` and `compensated` in these and `failed`; None if there are none."""
    retries: int = 0
    """Attempts after the first."""
    elapsed: Times = Times()
    """From the first attempt to the end, with pauses and waits for people."""
    input_tokens: int = 0
    output_tokens: int = 0
    tokens: int = 0
    cost: float | None = 0.0
    """US dollars, also of the attempts that failed; None if the price of any call is unknown."""


async def step_metrics(measures: Measures, since: float, until: float, workflow: str = "") -> dict[Place, StepMetrics]:
    """The metrics of each step of all workflows, or of this one, in the runs that ended in a window, by workflow and
    step."""
    sums: defaultdict[Place, StepSum] = defaultdict(StepSum)
    async for page in measures.steps(since, until, workflow):
        for course in page:
            sums[course.workflow, course.step].add(course)
    return {place: sums[place].metrics() for place in sorted(sums)}


class StepSum:
    """Accumulates the runs of one step."""

    def __init__(self) -> None:
        self._ends: Counter[str] = Counter()
        self._elapsed = array("d")
        self._retries = self._input = self._output = 0
        self._cost: float | None = 0.0

    def add(self, course: StepCourse) -> None:
        """Add one run of the step."""
        self._ends[course.status] += 1
        self._retries += course.retries
        self._input += course.input_tokens
        self._output += course.output_tokens
        self._cost = None if self._cost is None or course.cost is None else self._cost + course.cost
        if course.elapsed is not None:
            self._elapsed.append(course.elapsed)

    def metrics(self) -> StepMetrics:
        """The metrics of all runs that were added."""
        well = self._ends["done"] + self._ends["compensated"]
        judged = well + self._ends["failed"]
        return StepMetrics(
            count=self._ends.total(),
            **self._ends,
            success_rate=well / judged if judged else None,
            retries=self._retries,
            elapsed=times_of(self._elapsed),
            input_tokens=self._input,
            output_tokens=self._output,
            tokens=self._input + self._output,
            cost=self._cost,
        )
