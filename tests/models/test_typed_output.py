"""Answers of a declared type."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from changeover import Agent, Team
from changeover.errors import MisconfiguredError, ModelError
from changeover.models import LimitedModel
from changeover.testing import ScriptedModel, hands_off, says
from tests.models.aimock import Server
from tests.models.provider_script import scene
from tests.models.team_talk import talk

Opened = Callable[..., Team]
ModelOf = Callable[[str], Any]
BOTH = [(api, way) for api in ("chat", "responses", "anthropic") for way in ("plain", "streamed")]
EVERY = pytest.mark.parametrize(("api", "way"), [*BOTH, ("google", "plain")])


class Weather(BaseModel):
    """The weather somewhere."""

    city: str
    degrees: int


@EVERY
async def test_an_answer_is_json_of_the_declared_type(
    server: Server, opened: Opened, model_of: ModelOf, api: str, way: str
):
    team = opened([Agent("a", model=LimitedModel(model_of(api), at_once=1), output=Weather)])
    said = await talk(team, scene("shape", api, way), way)
    assert Weather.model_validate_json(said.result.text) == Weather(city="Oslo", degrees=7)


async def test_the_provider_is_told_the_schema(server: Server, opened: Opened, model_of: ModelOf):
    await talk(opened([Agent("a", model=[model_of("chat")], output=Weather)]), scene("shape", "chat", "plain"), "plain")
    asked = server.requests(scene("shape", "chat", "plain"))[-1]
    assert "degrees" in json.dumps(asked["response_format"])


async def test_an_answer_of_another_shape_is_asked_for_again(opened: Opened, model_of: ModelOf):
    team = opened([Agent("a", model=model_of("chat"), output=Weather)])
    said = await talk(team, scene("shapeless", "chat", "plain"), "plain")
    assert json.loads(said.result.text) == {"city": "Rome", "degrees": 21}
    assert "its answer does not fit Weather: it: Invalid JSON" in said.failures[0].reason


FENCED = ["```json\n[1, 2]\n```", "\n``` \n[1, 2]\n ```\n", "```json\n[1, 2]```", "~~~\n[1, 2]\n~~~"]


@pytest.mark.parametrize("answer", ["[1, 2]", *FENCED])
async def test_the_answers_of_any_model_are_checked_and_a_fence_around_the_json_is_removed(answer: str):
    model = ScriptedModel({"a": [hands_off("b", "do it")], "b": [says(answer)]})
    result = await Team([Agent("a", output=Weather), Agent("b", output=list[int])], model=model).run("Hello")
    assert (result.output, result.text) == ([1, 2], "[1, 2]")


async def test_a_model_that_never_gets_it_right_ends_the_run():
    model = ScriptedModel({"a": [says('{"city": "Oslo"}')] * 3})
    with pytest.raises(ModelError, match="does not fit Weather: degrees: Field required"):
        await Team([Agent("a", output=Weather)], model=model).run("Hello")


def test_a_type_without_a_schema_is_a_fault():
    with pytest.raises(MisconfiguredError, match="agent 'a' has output=object, which has no JSON schema"):
        Team([Agent("a", output=type("object", (), {}))], model=ScriptedModel({}))
