"""The schema that is shipped: it is what the records say, and whoever keeps to it is understood."""

import json
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from changeover.errors import PackageError
from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.package_schema import COMMAND, as_text, package_schema
from tests.handoffs.sample_packages import Way, by_hand, parts, places

SHIPPED = files("changeover.handoffs").joinpath("package.schema.json").read_text(encoding="utf-8")
SCHEMA: dict[str, Any] = json.loads(SHIPPED)
VALIDATOR = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
STRANGE: list[Any] = [None, False, 0, 1, -1, 1.0, 1.5, 2**31, "", "1.0", "high", "agent", [], ["x"], [1], {}, {"x": 1}]


def is_read(package: dict[str, Any]) -> bool:
    try:
        HandoffPackage.from_json(json.dumps(package))
    except PackageError:
        return False
    return True


def test_the_shipped_schema_is_up_to_date():
    assert as_text(package_schema()) == SHIPPED, f"the records have changed: run {COMMAND}"


def test_the_schema_is_valid_and_describes_every_object_and_field():
    Draft202012Validator.check_schema(SCHEMA)
    for name, about in SCHEMA["$defs"].items():
        assert about["description"], name
        for field, said in about.get("properties", {}).items():
            assert said["description"].endswith("."), f"{name}.{field}"


def test_the_hand_written_package_uses_every_field_and_fits_the_schema():
    VALIDATOR.validate(by_hand())
    for way in places(SCHEMA):
        inner: Any = by_hand()
        for step in way:
            inner = inner[step]


@given(parts(HandoffPackage))
def test_every_package_that_we_write_fits_the_schema(package: HandoffPackage):
    VALIDATOR.validate(package.to_dict())


@pytest.mark.parametrize("way", [way for way in places(SCHEMA) if way[-1] not in ("timestamp", "deadline")], ids=str)
def test_schema_and_reader_agree_about_every_value_of_every_field(way: Way):
    for value in STRANGE:
        package = by_hand()
        inner: Any = package
        for step in way[:-1]:
            inner = inner[step]
        inner[way[-1]] = value
        assert is_read(package) == VALIDATOR.is_valid(package), value
