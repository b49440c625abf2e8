"""Expects: the form and the criteria that a handoff demands of its result, and the check of a result against them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, cast

from changeover.handoffs.package import Expectations
from changeover.handoffs.structured_output import Form, form_of, found, takes_text, trouble

SHOWN_SCHEMA = 2_000
"""Of a schema, more is not repeated."""

Judgement = bool | str
"""Whether a result is good; or, if it is not, in words why. An empty text is a yes."""
Criterion = str | Callable[[Any], Judgement] | Callable[[Any], Awaitable[Judgement]]


@dataclass(frozen=True, kw_only=True)
class Expects:
    """A form for the result, what makes it a good one, and how many seconds it may take.

    `output` is a JSON schema or a Python type. A criterion in words is for the receiver to read; one that is a function
    judges the result: the text, or with an `output` what the text says in that form. Without a timeout, that of the
    handoff holds.
    """

    output: Any = None
    criteria: Sequence[Criterion] = ()
    timeout: float | None = None


def expected(expects: Any) -> Expects:
    """What was given as `expects`, as an Expects."""
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
    """What is wrong with this declaration; empty if nothing is."""
    whole = expected(expects)
    if isinstance(whole.criteria, str) or not isinstance(whole.criteria, Sequence):
        return f"expects criteria {whole.criteria!r}; give a list"
    for criterion in whole.criteria:
        if not callable(criterion) and not (isinstance(criterion, str) and criterion.strip()):
            return f"expects the criterion {criterion!r}; give a sentence or a function of the result"
    if wrong := _timeout_fault(whole.timeout):
        return wrong
    return form_of(whole.output).fault() if whole.output is not None else ""


def misfit(expects: Any, text: str) -> str:
    """What is wrong with this result, in words that its author can act on; empty if it fits."""
    whole = expected(expects)
    value, wrong = _read(whole, text)
    if wrong:
        return wrong
    return "; ".join(filter(None, (_ask(judge, value) for judge in _judges(whole, later=False))))


def value_of(expects: Any, text: str) -> Any:
    """What a result that fits says: the value it describes, or the text itself if no form is expected."""
    value, wrong = _read(expected(expects), text)
    if wrong:
        raise ValueError(wrong)
    return value


def judged_later(expects: Any) -> tuple[Callable[[Any], Awaitable[Judgement]], ...]:
    """The criteria that have to be awaited: call each with `value_of` the result, and give `complaint` the outcome."""
    return tuple(cast("Any", judge) for judge in _judges(expected(expects), later=True))


def complaint(criterion: Callable[..., Any], outcome: object) -> str:
    """What the outcome of a criterion says against the result; empty if nothing."""
    match outcome:
        case True | "":
            return ""
        case False:
            return f"the result does not meet this: {words_of(criterion)}"
        case str():
            return outcome
        case _:
            if inspect.iscoroutine(outcome):
                outcome.close()  # nobody will await it
            kind = type(outcome).__name__
            return f"whether it meets this is unknown, for the check gave no bool but {kind}: {words_of(criterion)}"


def expectations_of(expects: Any) -> Expectations:
    """The same, as it travels in a package."""
    whole = expected(expects)
    schema = form_of(whole.output).schema() if whole.output is not None else {}
    told = tuple(map(words_of, whole.criteria))
    if whole.timeout is None:
        return Expectations(output_schema=schema, success_criteria=told)
    return Expectations(output_schema=schema, success_criteria=told, timeout=whole.timeout)


def words_of(criterion: Criterion) -> str:
    """A criterion as a receiver reads it: a function by the first line of its docstring, or by its name."""
    if isinstance(criterion, str):
        return criterion
    about = inspect.getdoc(criterion) if inspect.isroutine(criterion) else None
    name = getattr(criterion, "__name__", type(criterion).__name__)
    if name == "<lambda>":
        return "a check that its sender makes"
    return about.splitlines()[0] if about else name.replace("_", " ").strip()


def _read(expects: Expects, text: str) -> tuple[Any, str]:
    """What the text says in the form that is expected, and what is wrong with it."""
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
    return None, _told(form, complaints[0] if complaints else f"it is not JSON ({trouble(text)})")


def _told(form: Form, wrong: str) -> str:
    schema = json.dumps(form.schema(), ensure_ascii=False)
    shown = schema if len(schema) <= SHOWN_SCHEMA else f"{schema[:SHOWN_SCHEMA]} […]"
    return f"the result does not have the form that is expected: {wrong}. Give all of it again, to fit {shown}"


def _judges(expects: Expects, *, later: bool) -> Iterator[Callable[[Any], Any]]:
    return (each for each in expects.criteria if not isinstance(each, str) and _is_async(each) is later)


def _is_async(judge: Callable[..., Any]) -> bool:
    # The second for an object that is called like a function.
    return inspect.iscoroutinefunction(judge) or inspect.iscoroutinefunction(type(judge).__call__)


def _ask(judge: Callable[[Any], Any], value: Any) -> str:
    try:
        outcome = judge(value)
    except Exception as error:  # the user's code: a result that it stumbles over is no good result
        return f"{words_of(judge)}: checking this broke off with {type(error).__name__}: {error}"
    return complaint(judge, outcome)


def _timeout_fault(timeout: object) -> str:
    if timeout is None or (isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout < inf):
        return ""
    return f"expects timeout={timeout!r}; give a number of seconds above 0, or None"
