"""The page about the protocol says what the code does."""

import json
import re

from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.protocol import TRANSITIONS
from tests.docs.protocol_page import COMMAND, PAGE, TABLE, TABLES, rewritten

TEXT = PAGE.read_text()


def test_the_tables_are_those_of_the_code():
    assert [found["name"] for found in TABLE.finditer(TEXT)] == list(TABLES)
    assert rewritten(TEXT) == TEXT, f"the code has changed: run {COMMAND}"


def test_each_state_is_explained():
    explained = re.findall(r"^- `([A-Z]+)`: \S", TEXT, re.M)
    assert sorted(explained) == sorted(TRANSITIONS)


def test_the_package_that_it_shows_can_be_read_and_holds_nothing_unknown():
    (example,) = re.findall(r"^```json\n(.*?)^```$", TEXT, re.M | re.S)
    package = HandoffPackage.from_json(example)
    assert package.to_dict() == {**json.loads(example), "metadata": package.metadata.to_dict()}
    assert not any(part.unknown for part in (package, package.task, package.context, package.metadata))
