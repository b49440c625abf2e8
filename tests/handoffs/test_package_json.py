"""A package that somebody else wrote: read strictly, and given back with everything that was in it."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given

from changeover.errors import PackageError
from changeover.handoffs.package import HandoffPackage, fingerprint
from changeover.handoffs.package_schema import package_schema
from tests.handoffs.sample_packages import Way, by_hand, parts, places

PACKAGES = parts(HandoffPackage)
PLACES = list(places(package_schema()))
KINDS: list[Any] = [None, True, 7, "tomorrow", [[]], {"a": {}}]
"""One value of each kind that JSON has."""
NULLABLE = {"timestamp", "deadline", "max_iterations", "estimated_tokens", "timeout"}


def kind_of(value: object) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def put(package: dict[str, Any], way: Way, value: object) -> dict[str, Any]:
    """The package with another value at the end of the way."""
    changed: Any = deepcopy(package)
    inner = changed
    for step in way[:-1]:
        inner = inner[step]
    inner[way[-1]] = value
    return dict(changed)


def at(package: Any, way: Way) -> Any:
    for step in way:
        package = package[step]
    return package


def spelt(way: Way) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in way)


@given(PACKAGES)
def test_a_package_comes_back_from_json_as_it_was(package: HandoffPackage):
    assert HandoffPackage.from_json(package.to_json()) == package
    assert HandoffPackage.from_json(package.to_json(indent=2).encode()) == package
    assert HandoffPackage.from_dict(package.to_dict()) == package


@given(PACKAGES)
def test_a_package_survives_a_program_that_sorts_its_fields_and_writes_ascii(package: HandoffPackage):
    back = HandoffPackage.from_json(json.dumps(json.loads(package.to_json()), sort_keys=True))
    assert back == package
    assert fingerprint(back) == fingerprint(package)


@given(PACKAGES)
def test_what_is_written_can_be_read_and_written_again_without_a_change(package: HandoffPackage):
    text = package.to_json()
    assert HandoffPackage.from_json(text).to_json() == text


def test_every_field_of_a_hand_written_package_survives_also_unknown_ones():
    given = by_hand()
    package = HandoffPackage.from_json(json.dumps(given))
    assert package.to_dict() == given
    assert HandoffPackage.from_json(package.to_json()) == package
    assert package.unknown == {"checksum": "added by a later version"}
    assert package.context.history[0].calls[0].unknown == {"cached": False}


def test_a_field_named_unknown_is_kept_like_any_other():
    text = '{"protocol": "1.0", "task": {"description": "x", "unknown": {"unknown": 1}}, "unknown": 5}'
    assert HandoffPackage.from_json(text).to_json() == text


@pytest.mark.parametrize("way", PLACES, ids=spelt)
def test_a_value_of_another_type_is_refused_with_its_path(way: Way):
    right = at(by_hand(), way)
    wrong = [value for value in KINDS if kind_of(value) is not kind_of(right)]
    refused = [value for value in wrong if not (value is None and way[-1] in NULLABLE)]
    assert len(refused) >= 4
    for value in refused:
        with pytest.raises(PackageError) as caught:
            HandoffPackage.from_dict(put(by_hand(), way, value))
        assert caught.value.path == spelt(way), value
        assert caught.value.problem


@pytest.mark.parametrize("way", [(*way, 0) for way in PLACES if isinstance(at(by_hand(), way), list)], ids=spelt)
def test_an_item_of_another_type_is_refused_with_its_index(way: Way):
    right = at(by_hand(), way)
    for value in [value for value in KINDS if kind_of(value) is not kind_of(right)]:
        with pytest.raises(PackageError) as caught:
            HandoffPackage.from_dict(put(by_hand(), way, value))
        assert caught.value.path == spelt(way), value


@pytest.mark.parametrize("way", [way for way in PLACES if way[-1] in ("timestamp", "deadline")], ids=spelt)
@pytest.mark.parametrize("value", ["tomorrow", "2026-03-01", "2026-03-01T12:00:00", "12:00Z", "", 1772366400])
def test_a_timestamp_needs_an_offset_from_utc(way: Way, value: object):
    with pytest.raises(PackageError) as caught:
        HandoffPackage.from_dict(put(by_hand(), way, value))
    assert caught.value.path == spelt(way)


@pytest.mark.parametrize("way", PLACES, ids=spelt)
def test_a_missing_field_gets_its_default_unless_it_is_required(way: Way):
    rest = by_hand()
    at(rest, way[:-1]).pop(way[-1])
    needed = {"protocol", "description", "decision", "path", "author", "name"} | ({"task"} if len(way) == 1 else set())
    if way[-1] in needed:
        with pytest.raises(PackageError, match="is missing") as caught:
            HandoffPackage.from_dict(rest)
        assert caught.value.path == spelt(way)
    else:
        assert HandoffPackage.from_dict(rest).to_dict() == rest


def test_a_priority_can_be_written_as_a_name():
    assert HandoffPackage.from_dict(put(by_hand(), ("metadata", "priority"), "urgent")).metadata.priority == 20


def test_an_integer_may_be_written_as_2_point_0():
    read = HandoffPackage.from_dict(put(by_hand(), ("metadata", "attempt"), 2.0))
    assert type(read.metadata.attempt) is int
    with pytest.raises(PackageError, match=r"^\$\.metadata\.attempt: expected `int`, got `float`"):
        HandoffPackage.from_dict(put(by_hand(), ("metadata", "attempt"), 2.5))


def test_free_values_keep_numbers_of_any_size():
    given = put(by_hand(), ("context", "variables"), {"big": 2**70, "small": 5e-324, "whole": 1.0})
    back = HandoffPackage.from_json(json.dumps(given)).context.variables
    assert back == {"big": 2**70, "small": 5e-324, "whole": 1.0}
    assert type(back["whole"]) is float
