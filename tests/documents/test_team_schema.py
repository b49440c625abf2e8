"""The published JSON schema accepts what can be read, and refuses what cannot."""

from typing import Any

import jsonschema
import pytest
import yaml

from changeover.documents.team_schema import definitions, team_schema
from tests.documents import test_team_document
from tests.documents.test_golden_document import GOLDEN

SCHEMA = team_schema()
CHECK = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]) == set(definitions())


@pytest.mark.parametrize(
    "text",
    [
        GOLDEN.read_text(encoding="utf-8"),
        test_team_document.TEAM,
        test_team_document.PEOPLE,
        test_team_document.STRATEGIES,
    ],
)
def test_documents_that_can_be_read_fit(text: str):
    CHECK.validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"agents": {}},
        {"agents": {"a": {}}, "stor": "x"},
        {"agents": {"a": {"handofs": []}}},
        {"agents": [{"name": "no id"}]},
        {"agents": {"a": {"handoffs": [{"delegate": True}]}}},
        {"agents": {"a": {"handoffs": [{"to": "a", "final": True}]}}},
        {"agents": {"a": {}}, "tools": {"get": {"url": "https://x.org"}}},
        {"agents": {"a": {}}, "tools": {"get": {"type": "http_api"}}},
        {"agents": {"a": {}}, "tools": {"get": {"type": "http_api", "url": "https://x.org", "method": "SEND"}}},
        {"agents": {"a": {}}, "tools": {"go": {"type": "handoff", "to": "a", "name": "other"}}},
        {"agents": {"a": {}}, "skills": {"s": {"description": "d"}}},
        {"agents": {"a": {}}, "limits": {"max_turns": "many"}},
        {"agents": {"a": {}}, "rules": [{"goto": "a"}]},
    ],
)
def test_documents_that_cannot_be_read_do_not_fit(document: dict[str, Any]):
    assert not CHECK.is_valid(document)
