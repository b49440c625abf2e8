"""Packages for the tests: one written by hand from the schema alone, and random ones."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, get_args, get_origin

from hypothesis import strategies as st

from changeover.facts import Mode
from changeover.handoffs.package import Count, Moment
from changeover.handoffs.part import Part, defaults, kinds

Way = tuple[Any, ...]
"""Names of fields, and numbers in lists."""

BY_HAND: str = Path(__file__).with_name("written_by_hand.json").read_text()
"""Every field of the schema, and one that is unknown in every object."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
OLDEST = datetime(1850, 1, 1)  # noqa: DTZ001
"""The time zone is added to it."""
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON,
    str: st.text(),
    str | None: st.none() | st.text(),
    Mode: st.sampled_from(Mode),
    Count: st.integers(1, 2**31 - 1),
    Count | None: st.none() | st.integers(1, 2**31 - 1),
    # With time zones of all sorts: also such as were some seconds away from UTC.
    Moment | None: st.none() | st.datetimes(OLDEST, timezones=st.timezones()),
}


def parts(part: type[Part]) -> st.SearchStrategy[Any]:
    """Records of this kind, with and without each field, and with fields that nobody knows."""
    fields = {name: values(kind, name) for name, kind in kinds(part).items() if name != "protocol"}
    required = {name: fields.pop(name) for name in list(fields) if name not in defaults(part)}
    strangers = st.dictionaries(st.text().filter(lambda name: name not in kinds(part)), JSON, max_size=2)
    given = st.fixed_dictionaries({**required, "unknown": strangers}, optional=fields)
    return given.map(lambda kwargs: part(**kwargs))


def values(kind: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Values that fit a field."""
    if kind in SIMPLE:
        return SIMPLE[kind]
    if isinstance(kind, type) and issubclass(kind, Part):
        return parts(kind)
    inner = get_args(kind)
    if get_origin(kind) is tuple:
        return st.lists(values(inner[0]), max_size=3)
    if get_origin(kind) is dict:
        return st.dictionaries(st.text(), values(inner[1]), max_size=3)
    return LIMITED[name]


LIMITED: dict[str, st.SearchStrategy[Any]] = {
    "description": st.text(min_size=1),
    "path": st.text(min_size=1),
    "role": st.sampled_from(["user", "agent", "tool", "note"]),
    "priority": st.integers(-(2**31), 2**31 - 1) | st.sampled_from(["low", "normal", "high", "urgent"]),
    "timeout": st.none() | st.floats(0, exclude_min=True, allow_infinity=False) | st.integers(1, 10**9),
}
"""Fields whose type does not say all that may stand in them."""


def by_hand() -> dict[str, Any]:
    """A fresh copy of the package that was written by hand."""
    given: dict[str, Any] = json.loads(BY_HAND)
    return given


def places(schema: dict[str, Any], name: str = "HandoffPackage", way: Way = ()) -> Iterator[Way]:
    """Every field that the schema knows, as the way that leads to it; where there are several of a kind, the first."""
    for field, about in schema["$defs"][name]["properties"].items():
        yield (*way, field)
        array = about.get("items", {})
        step: Way = (field, 0) if array else (field,)
        inner = (array or about).get("$ref", "").rpartition("/")[2]
        if "properties" in schema["$defs"].get(inner, {}):
            yield from places(schema, inner, (*way, *step))
