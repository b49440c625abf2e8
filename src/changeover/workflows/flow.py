"""Flow: the progress of the steps of one workflow run. Only recorded events change it; decisions are made elsewhere.

A step is done in one piece, or in one piece for each item of its list. An event that does not fit changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from changeover.facts import StepReport, StepStatus, Usage
from changeover.faults import Fault
from changeover.workflows.expression import read
from changeover.workflows.plan import Plan, StepPlan

SETTLED: frozenset[StepStatus] = frozenset({"done", "skipped"})
"""Statuses after which the steps that follow can begin."""


class Piece(Struct, eq=False):
    """One piece of a step, with its last attempt."""

    step: str
    index: int
    status: StepStatus = "pending"
    attempt: int = 0
    """Number of attempts in all."""
    tries: int = 0
    """Number of attempts since the run was last resumed."""
    not_before: float = 0.0
    text: str = ""
    error: str = ""
    output: Any = None
    refused: bool = False
    """True if no member worked on it, so that another attempt would be refused as well."""


class Progress(Struct, eq=False):
    """The progress of one step."""

    plan: StepPlan
    status: StepStatus = "pending"
    pieces: list[Piece] = []
    items: list[Any] | None = None
    """The items, if the log has them."""
    todo: list[Piece] = []
    """Pieces that have not begun, the next one last."""
    open: int = 0
    """Number of pieces that are under way."""
    waits: int = 0
    """Number of steps that have to end before this one."""
    began: float = 0.0
    ended: float = 0.0
    error: str = ""
    retries: int = 0
    """Number of attempts after the first one of each piece, without those that undo it."""
    usage: Usage = Usage()
    """What all attempts have spent, also those that undo it."""

    @property
    def is_full(self) -> bool:
        """True if as many items are under way as `concurrency` allows."""
        return 0 < self.plan.concurrency <= self.open

    @property
    def output(self) -> Any:
        """Its output as references read it; None unless it is done."""
        if self.status != "done":
            return None
        outputs = [piece.output for piece in self.pieces]
        return outputs if self.plan.for_each else next(iter(outputs), None)

    @property
    def text(self) -> str:
        """Its answer as it was written; of several items, one after the other."""
        return "\n".join(piece.text for piece in self.pieces) if self.status == "done" else ""

    def view(self) -> dict[str, Any]:
        """What expressions see of it."""
        return {"output": self.output, "text": self.text, "status": self.status}

    def split(self, count: int) -> None:
        """Divide the step into `count` pieces."""
        self.pieces = [Piece(self.plan.id, index) for index in range(count)]
        self.todo = self.pieces[::-1]


class Findings(Struct):
    """A cache of the results of expressions, which can be computed again at any time."""

    scopes: dict[str, dict[str, Any]] = {}
    """What expressions of a step read of the steps before it, which have ended."""
    items: dict[str, list[Any]] = {}
    errands: dict[str, tuple[str, dict[str, Any]]] = {}
    """The task and context variables of an attempt, by its call."""


class Flow:
    """The steps of one run."""

    __slots__ = (
        "again",
        "broken",
        "calls",
        "done",
        "failures",
        "fault",
        "findings",
        "followers",
        "inputs",
        "plan",
        "ready",
        "steps",
    )

    def __init__(self, plan: Plan, inputs: Any) -> None:
        self.plan, self.inputs = plan, inputs
        self.steps = {step.id: Progress(step) for step in plan.steps}
        self.followers: dict[str, list[str]] = {id: [] for id in self.steps}
        for step in plan.steps:
            for before in step.after:
                self.followers.setdefault(before, []).append(step.id)
        self.calls: dict[str, tuple[Piece, bool]] = {}
        """The piece of each open call, and True if the call undoes it."""
        self.ready: dict[str, Progress] = {}
        """Steps that can begin, as a whole or with their next item."""
        self.again: list[Piece] = []
        """Pieces that are to be tried again."""
        self.failures: list[tuple[Piece, bool]] = []
        """The pieces of failed attempts that were not judged yet, and True if the attempt was to undo it."""
        self.broken = ""
        """The step that failed for good."""
        self.done: list[Piece] = []
        """Pieces that are done, in the order of their ends."""
        self.fault: Fault | None = None
        """Why the run fails; set while the steps that are done are undone."""
        self.findings = Findings()
        self._recount()

    # Changes by recorded events

    def spread(self, id: str, count: int, items: list[Any] | None, at: float) -> None:
        """The items of a step are known; `items` if the log has them."""
        step = self.ready.get(id)
        if step is None or step.pieces:
            return
        step.items, step.began, step.status = items, at, "running"
        step.split(count)
        if not count:
            self._finish(step, at)

    def begin(self, id: str, index: int, call: str, not_before: float, undo: bool, at: float) -> bool:
        """An attempt at a piece began, or at undoing it, under this call; False if there is no such piece."""
        step = self.steps.get(id)
        if step is None:
            return False
        if not step.pieces and not undo:
            step.split(1)
            step.began = at
        if index >= len(step.pieces):
            return False
        piece = step.pieces[index]
        if step.todo and step.todo[-1] is piece:
            step.todo.pop()
        elif self.again and self.again[0] is piece:
            self.again.pop(0)
        step.retries += bool(piece.attempt and not undo)
        piece.attempt, piece.tries, piece.not_before = piece.attempt + 1, piece.tries + 1, not_before
        piece.error, piece.refused = "", False
        if not undo:
            piece.status = step.status = "running"
        step.open += 1
        self.calls[call] = piece, undo
        if not step.todo or step.is_full:
            self.ready.pop(id, None)
        return True

    def settle(self, call: str, ok: bool, text: str, refused: bool, at: float) -> None:
        """A call has its answer, which is an error unless `ok`."""
        if (found := self.calls.pop(call, None)) is None:
            return
        piece, undo = found
        step = self.steps[piece.step]
        step.open -= 1
        self.findings.errands.pop(call, None)
        if not ok:
            piece.error, piece.refused = text, refused
            self.failures.append(found)
        elif undo:
            piece.status = step.status = "compensated"
            piece.tries = 0
        else:
            piece.status, piece.text, piece.output, piece.tries = "done", text, read(text), 0
            self.done.append(piece)
            if not (step.open or step.todo) and all(each.status == "done" for each in step.pieces):
                self._finish(step, at)
        if step.todo and not step.is_full:
            self.ready[piece.step] = step

    def charge(self, call: str, usage: Usage) -> None:
        """An attempt has spent this."""
        if (found := self.calls.get(call)) is not None:
            step = self.steps[found[0].step]
            step.usage = step.usage + usage

    def judge(self, reason: str, final: bool, at: float) -> None:
        """The first failure was judged: the piece is tried again, or has failed for good."""
        if not self.failures:
            return
        piece, undo = self.failures.pop(0)
        if not final:
            self.again.append(piece)
        elif undo:
            self.steps[piece.step].error = reason  # what it did is not undone
            self.done = [each for each in self.done if each is not piece]
        else:
            piece.status = "failed"
            self.fail(piece.step, reason, at)

    def fail(self, id: str, reason: str, at: float) -> None:
        """A step failed for good."""
        if (step := self.steps.get(id)) is not None:
            step.status, step.error, step.ended = "failed", reason, at
            self.ready.pop(id, None)
            self.broken = self.broken or id

    def skip(self, id: str, at: float) -> None:
        """A step is skipped."""
        if (step := self.ready.get(id)) is not None and not step.pieces:
            step.status, step.ended = "skipped", at
            self._release_followers(step)

    def stop(self) -> None:
        """Nothing more begins: the run is being cancelled, or fails."""
        self.ready = {}
        self.again = []

    def undo(self, fault: Fault) -> None:
        """All calls have ended; from now on, the pieces that are done are undone, the last first."""
        self.fault = fault
        self.end()

    def end(self) -> None:
        """Cancel the calls and steps that are under way."""
        self.stop()
        self.failures = []
        for piece, undo in self.calls.values():
            if not undo:
                piece.status = "cancelled"
        self.calls = {}
        for step in self.steps.values():
            step.open = 0
            if step.status == "running":
                step.status = "cancelled"

    def resume(self, id: str) -> None:
        """The run goes on with all steps that are not done; the step `id`, if given, and all after it begin again."""
        self.fault, self.broken, self.findings = None, "", Findings()
        for step in self._downstream(id) if id in self.steps else ():
            self.steps[step] = Progress(self.steps[step].plan)
        for progress in self.steps.values():
            if progress.status not in SETTLED:
                _reopen(progress)
        kept = {(piece.step, piece.index) for step in self.steps.values() for piece in step.pieces}
        self.done = [each for each in self.done if each.status == "done" and (each.step, each.index) in kept]
        self._recount()

    # What decisions and reports read

    @property
    def is_over(self) -> bool:
        """True if nothing is left to do."""
        return not (self.calls or self.ready or self.again or self.failures)

    @property
    def undoable(self) -> Piece | None:
        """The piece to undo next: the last that is done and declares how; None if there is none."""
        for piece in reversed(self.done):
            if piece.status == "done" and self.steps[piece.step].plan.undo:
                return piece
        return None

    def report(self) -> list[StepReport]:
        """The progress of each step, in the order of the plan."""
        return [_report(step) for step in self.steps.values()]

    @property
    def last(self) -> list[Progress]:
        """The steps that are done and that no step follows."""
        ends = [step for id, step in self.steps.items() if not self.followers[id]]
        return [step for step in ends if step.status == "done"]

    def scope_of(self, id: str) -> dict[str, Any]:
        """What the expressions of a step read of the steps before it; they have ended, so it stays the same."""
        found = self.findings.scopes.get(id)
        if found is None:
            afters = {each: step.plan.after for each, step in self.steps.items()}
            views = {each: self.steps[each].view() for each in before(afters, id)}
            found = self.findings.scopes[id] = {"inputs": self.inputs, "steps": views}
        return found

    def results(self) -> dict[str, Any]:
        """What the expression of the result reads."""
        return {"inputs": self.inputs, "steps": {id: step.view() for id, step in self.steps.items()}}

    def skips(self, step: Progress) -> bool:
        """True if all steps before this one were skipped."""
        return bool(step.plan.after) and all(self.steps[id].status == "skipped" for id in step.plan.after)

    def _finish(self, step: Progress, at: float) -> None:
        step.status, step.ended = "done", at
        self._release_followers(step)

    def _release_followers(self, step: Progress) -> None:
        """Let the steps begin that waited for this one alone."""
        self.ready.pop(step.plan.id, None)
        for id in self.followers[step.plan.id]:
            following = self.steps[id]
            following.waits -= 1
            if not following.waits and following.status == "pending":
                self.ready[id] = following

    def _downstream(self, id: str) -> list[str]:
        """A step and all that come after it."""
        found = {id: None}
        due = [id]
        while due:
            for each in self.followers[due.pop()]:
                if each not in found:
                    found[each] = None
                    due.append(each)
        return list(found)

    def _recount(self) -> None:
        """Find out which steps wait for how many others, and which can begin."""
        self.ready = {}
        for id, step in self.steps.items():
            step.waits = sum(self.steps[each].status not in SETTLED for each in step.plan.after if each in self.steps)
            if step.status == "pending" and not step.waits:
                self.ready[id] = step


def _report(step: Progress) -> StepReport:
    plan, pieces = step.plan, step.pieces
    return StepReport(
        id=plan.id,
        name=plan.name or plan.id,
        agent=plan.member,
        after=plan.after,
        status=step.status,
        attempts=sum(piece.attempt for piece in pieces),
        retries=step.retries,
        items=len(pieces) if plan.for_each else None,
        items_done=sum(piece.status == "done" for piece in pieces) if plan.for_each else None,
        output=step.output,
        error=step.error or next((piece.error for piece in pieces if piece.error), ""),
        began=step.began or None,
        ended=step.ended or None,
        usage=step.usage,
    )


def _reopen(step: Progress) -> None:
    """Let the pieces of a step that are not done begin again."""
    step.status, step.error, step.open = "pending", "", 0
    for piece in step.pieces:
        if piece.status != "done":
            piece.status, piece.tries = "pending", 0
    step.todo = [piece for piece in reversed(step.pieces) if piece.status == "pending"]


def before(afters: Mapping[str, Sequence[str]], id: str) -> list[str]:
    """The ids of all steps before this one, by the steps that each of them comes after."""
    found, due = dict[str, None](), list(afters[id])
    while due:
        if (each := due.pop()) not in found and each in afters:
            found[each] = None
            due.extend(afters[each])
    return list(found)
