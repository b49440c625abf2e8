"""The OpenAPI document: what it says is true, and nothing that fits it makes the server fail."""

import json
import os
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from changeover.server import create_app, resources
from changeover.server.access import ROUTES
from changeover.server.examples import EXAMPLES
from changeover.server.resources import routing
from tests.server.desk import team
from tests.server.process import ADMIN, Server, serving

SEED = 20_260
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
MOST = 100 if os.environ.get("CHANGEOVER_STRESS") else 3
"""Requests for each operation that fit it, and as many that do not."""


def document() -> dict[str, Any]:
    return create_app(team).openapi()


def test_the_document_is_openapi_3_1_and_tells_the_role_of_every_route():
    found = document()
    assert str(found["openapi"]).startswith("3.1")
    operations = [each for path in found["paths"].values() for each in path.values()]
    assert len(operations) == sum(not route.startswith("WS") for route in ROUTES)
    assert all(each["x-role"] and each["summary"] and each["description"] for each in operations)
    assert len({each["operationId"] for each in operations}) == len(operations)


def test_every_reference_leads_to_a_schema():
    found = document()
    names = set(found["components"]["schemas"])
    text = json.dumps(found)
    referred = {each.split('"')[0] for each in text.split("#/components/schemas/")[1:]}
    assert referred <= names


def test_every_body_has_an_example():
    found = document()
    bodies = [
        (path, each["requestBody"]["content"]["application/json"])
        for path, operations in found["paths"].items()
        for each in operations.values()
        if "requestBody" in each
    ]
    assert len(bodies) > 20
    schemas = found["components"]["schemas"]
    assert [path for path, body in bodies if "example" not in body and "examples" not in schemas[_name(body)]] == []


def _name(body: dict[str, Any]) -> str:
    return str(body["schema"].get("$ref", "")).rpartition("/")[2]


def test_every_example_fits_its_struct():
    modules = [*resources.MODULES, routing]
    structs = {name: kind for each in modules for name, kind in vars(each).items() if isinstance(kind, type)}
    schemas = document()["components"]["schemas"]
    for name, example in EXAMPLES.items():
        if " " in name:
            continue  # of a route
        assert schemas[name]["examples"] == [example]
        if (kind := structs.get(name)) is not None:
            assert msgspec.convert(example, kind) is not None


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own: what is called here changes the team."""
    with serving(
        f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'store.db'}", "--token", ADMIN, "--rate", "0"
    ) as server:
        yield server


@pytest.fixture(scope="module")
def api(alone: Server) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{alone.url}/api/v1/openapi.json")


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_no_request_that_fits_the_document_makes_the_server_fail(alone: Server, api: schemathesis.BaseSchema):
    found = [each.ok() for each in api.get_all_operations() if isinstance(each, Ok)]
    assert len(found) == sum(not route.startswith("WS") for route in ROUTES) - 1  # schemathesis leaves out the document
    for operation in found:
        for mode in GenerationMode:
            _try(operation, mode)
    assert alone.process.poll() is None


def _try(operation: Any, mode: GenerationMode) -> None:
    """Send random requests that fit an operation, or that do not, and check the answers."""

    @seed(SEED)
    @settings(
        max_examples=MOST,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        answer = case.call(headers={"Authorization": f"Bearer {ADMIN}"}, timeout=20)
        case.validate_response(answer, checks=CHECKS)

    # Nothing is wrong for an operation without parameters.
    with suppress(Unsatisfiable) if mode is GenerationMode.NEGATIVE else nullcontext():
        call()
