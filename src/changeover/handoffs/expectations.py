"""Expects: the form and the criteria that a handoff demands of its result, and the check of a result against them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, cast

from changeover.handoffs.callback import arity_faults
from changeover.handoffs.package import Expectations
from changeover.handoffs.structured_output import Form, form_of, found, takes_text, trouble

SHOWN_SCHEMA = 2_000
"""How many characters of a schema an error text repeats."""

Judgement = bool | str
"""The verdict of a criterion: True or an empty text if the result is good, False or a text that says why not."""
Criterion = str | Callable[[Any], Judgement] | Callable[[Any], Awaitable[Judgement]]


@dataclass(frozen=True, kw_only=True)
class Expects:
    """What the sender of a handoff expects of its result.

    `output` is a JSON schema or a Python type that the result must fit (default: any text). `criteria` are sentences,
    which the receiver reads, and functions, which judge the result: they get its text or, with an `output`, the value
    in that form, and return True, False or a text that says what is wrong. `timeout` is in seconds (default: that of
    the handoff). A declaration that is wrong is reported by `Team(…)` as a MisconfiguredError.
    """

    output: Any = None
    criteria: Sequence[Criterion] = ()
    timeout: float | None = None

    def misfit(self, text: str) -> str:
        """What is wrong with the result `text`, for its author to correct; empty if it fits. Async criteria are not
        called."""
        value, wrong = _read(self, text)
        if wrong:
            return wrong
        return "; ".join(filter(None, (_ask(judge, value) for judge in _judges(self, later=False))))


def expected(expects: Any) -> Expects:
    """The declaration `expects=…` as an Expects: a schema or a type becomes its `output`."""
    match expects:
        case Expects():
            return expects
        case Expectations():
            return Expects(
                output=expects.output_schema or None, criteria=expects.success_criteria, timeout=expects.timeout
            )
        case _:
            return Expects(output=expects)


def fault(expects: Any) -> str:
    """What is wrong with the declaration `expects=…`; empty if it is valid."""
    whole = expected(expects)
    if isinstance(whole.criteria, str) or not isinstance(whole.criteria, Sequence):
        return f"expects criteria {whole.criteria!r}; give a list"
    for criterion in whole.criteria:
        if not callable(criterion) and not (isinstance(criterion, str) and criterion.strip()):
            return f"expects the criterion {criterion!r}; give a sentence or a function of the result"
        for wrong in arity_faults("a criterion", criterion, "result"):
            return wrong
    if wrong := _timeout_fault(whole.timeout):
        return wrong
    return form_of(whole.output).fault() if whole.output is not None else ""


def value_of(expects: Any, text: str) -> Any:
    """The value that the result describes, or its text if no form is expected; raises ValueError if it does not fit."""
    value, wrong = _read(expected(expects), text)
    if wrong:
        raise ValueError(wrong)
    return value


def judged_later(expects: Any) -> tuple[Callable[[Any], Awaitable[Judgement]], ...]:
    """The async criteria: call each with `value_of` the result, and pass what it returns to `complaint`."""
    return tuple(cast("Any", judge) for judge in _judges(expected(expects), later=True))


def complaint(criterion: Callable[..., Any], outcome: object) -> str:
    """What is wrong with a result for which this criterion returned `outcome`; empty if nothing is."""
    match outcome:
        case True | "":
            return ""
        case False:
            return f"the result does not meet this: {words_of(criterion)}"
        case str():
            return outcome
        case _:
            if inspect.iscoroutine(outcome):
                outcome.close()  # else Python warns that it was never awaited
            kind = type(outcome).__name__
            return f"this could not be checked, because the check returned {kind} and not bool: {words_of(criterion)}"


def expectations_of(expects: Any) -> Expectations:
    """The declaration `expects=…` as a package holds it."""
    whole = expected(expects)
    schema = form_of(whole.output).schema() if whole.output is not None else {}
    criteria = tuple(map(words_of, whole.criteria))
    if whole.timeout is None:
        return Expectations(output_schema=schema, success_criteria=criteria)
    return Expectations(output_schema=schema, success_criteria=criteria, timeout=whole.timeout)


def words_of(criterion: Criterion) -> str:
    """A criterion in words: of a function, the first line of its docstring, or its name."""
    if isinstance(criterion, str):
        return criterion
    about = inspect.getdoc(criterion) if inspect.isroutine(criterion) else None
    name = getattr(criterion, "__name__", type(criterion).__name__)
    if name == "<lambda>":
        return "a check by the sender"
    return about.splitlines()[0] if about else name.replace("_", " ").strip()


def _read(expects: Expects, text: str) -> tuple[Any, str]:
    """The value that the text describes in the expected form, and what is wrong with it."""
    if expects.output is None:
        return text, ""
    form = form_of(expects.output)
    candidates = found(text)
    worded = [text] if takes_text(form.schema()) else []
    complaints = []
    for candidate in [*candidates, *worded]:
        value, wrong = form.fit(candidate)
        if not wrong:
            return value, ""
        complaints.append(wrong)
    return None, _misfit(form, complaints[0] if complaints else f"it is not JSON ({trouble(text)})")


def _misfit(form: Form, wrong: str) -> str:
    schema = json.dumps(form.schema(), ensure_ascii=False)
    shown = schema if len(schema) <= SHOWN_SCHEMA else f"{schema[:SHOWN_SCHEMA]} […]"
    return f"the result does not have the expected form: {wrong}. Give all of it again, to fit {shown}"


def _judges(expects: Expects, *, later: bool) -> Iterator[Callable[[Any], Any]]:
    return (each for each in expects.criteria if not isinstance(each, str) and _is_async(each) is later)


def _is_async(judge: Callable[..., Any]) -> bool:
    # The second is for callable objects.
    return inspect.iscoroutinefunction(judge) or inspect.iscoroutinefunction(type(judge).__call__)


def _ask(judge: Callable[[Any], Any], value: Any) -> str:
    try:
        outcome = judge(value)
    except Exception as error:  # the user's code: a result on which it raises is not a good one
        return f"{words_of(judge)}: the check raised {type(error).__name__}: {error}"
    return complaint(judge, outcome)


def _timeout_fault(timeout: object) -> str:
    if timeout is None or (isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout < inf):
        return ""
    return f"expects timeout={timeout!r}; give a number of seconds above 0, or None"
