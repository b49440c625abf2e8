"""The check for JSON values: what it copies, and the path of what it refuses."""

from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given

from changeover.errors import PackageError
from changeover.handoffs.json_value import at, json_copy
from tests.handoffs.sample_packages import JSON


@given(JSON)
def test_a_json_value_is_copied_unchanged(value: Any):
    assert json_copy(value) == value


def test_a_copy_shares_no_containers_with_its_original():
    original: dict[str, Any] = {"list": [1, {"a": 2}]}
    copied = json_copy(original)
    original["list"][1]["a"] = 3
    assert copied == {"list": [1, {"a": 2}]}


def test_tuples_and_mappings_become_lists_and_dicts():
    copied = json_copy(OrderedDict(pair=(1, 2)))
    assert copied == {"pair": [1, 2]}
    assert type(copied) is dict


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({1, 2}, "$"),
        ([0, {"a b": float("nan")}], "$[1]['a b']"),
        ({"a": {"b": [b"x"]}}, "$.a.b[0]"),
        ({"a": {7: "x"}}, "$.a"),
    ],
)
def test_a_value_that_is_not_json_is_refused_with_its_path(value: object, path: str):
    with pytest.raises(PackageError) as caught:
        json_copy(value)
    assert caught.value.path == path


def test_the_path_of_an_error_begins_with_the_key_of_the_value():
    with pytest.raises(PackageError) as caught:
        at("task", json_copy, {"size": object()})
    assert str(caught.value) == "$.task.size: is of type `object`, which JSON cannot hold"
