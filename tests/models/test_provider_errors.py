"""Provider errors: temporary ones are retried, others are reported, and the conversation can go on."""

from collections.abc import Callable
from typing import Any

import pytest

from changeover import Agent, Team
from changeover.errors import ModelError
from changeover.relay.events import ModelFailed
from tests.models.aimock import Server
from tests.models.provider_script import LONG_TEXT, scene
from tests.models.team_talk import talk

Opened = Callable[..., Team]
ModelOf = Callable[[str], Any]
BOTH = [(api, way) for api in ("chat", "responses", "anthropic") for way in ("plain", "streamed")]
EVERY = pytest.mark.parametrize(("api", "way"), [*BOTH, ("google", "plain")])
STREAMED = pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])


@EVERY
async def test_a_provider_that_asks_to_wait_is_waited_for(
    server: Server, opened: Opened, model_of: ModelOf, api: str, way: str
):
    team = opened([Agent("a", model=model_of(api))])
    said = await talk(team, scene("limited", api, way), way)
    assert said.result.output == LONG_TEXT
    [failure] = said.failures
    assert "answered 429: slow down (it is asked too often" in failure.reason
    assert len(server.requests(scene("limited", api, way))) == 2, "the client has retried by itself"
    events = await team.history(said.result.conversation_id)
    at = next(recorded.at for recorded in events if isinstance(recorded.event, ModelFailed))
    assert failure.retry_at is not None
    assert failure.retry_at - at > 0.9, "the first retry of its own accord would come after half a second"


@EVERY
async def test_a_provider_that_fails_is_asked_again(
    server: Server, opened: Opened, model_of: ModelOf, api: str, way: str
):
    said = await talk(opened([Agent("a", model=model_of(api))]), scene("failing", api, way), way)
    assert (said.result.output, said.result.ledger.retries) == (LONG_TEXT, 1)
    assert "answered 500: oh no (the provider has failed)" in said.failures[0].reason
    assert len(server.requests(scene("failing", api, way))) == 2, "the client has retried by itself"


@STREAMED
async def test_a_stream_that_breaks_off_begins_anew(opened: Opened, model_of: ModelOf, api: str):
    said = await talk(opened([Agent("a", model=model_of(api))]), scene("broken", api, "streamed"), "streamed")
    assert said.result.output == LONG_TEXT
    assert len(said.failures) == 1
    assert "".join(piece.text for piece in said.text if piece.attempt == 2) == LONG_TEXT
    assert "".join(piece.text for piece in said.text if piece.attempt == 1) != LONG_TEXT


@EVERY
async def test_a_provider_that_takes_too_long_is_asked_again(opened: Opened, model_of: ModelOf, api: str, way: str):
    team = opened([Agent("a", model=model_of(api), settings={"timeout": 0.5})])
    said = await talk(team, scene("slow", api, way), way)
    assert said.result.output == LONG_TEXT
    assert "it took too long; give it more time" in said.failures[0].reason


@pytest.mark.parametrize("way", ["plain", "streamed"])
async def test_a_request_has_a_deadline_of_its_own(opened: Opened, model_of: ModelOf, way: str):
    team = opened([Agent("a", model=model_of("chat"), settings={"request_timeout": 0.001})])
    with pytest.raises(ModelError, match=r"TimeoutError.*request_timeout"):
        await talk(team, scene("text", "chat", way), way)


@EVERY
async def test_a_conversation_that_is_too_long_ends_in_a_clear_error_and_can_go_on(
    server: Server, opened: Opened, model_of: ModelOf, api: str, way: str
):
    team = opened([Agent("a", model=model_of(api))])
    with pytest.raises(ModelError, match="too long for this model; begin a new one, hand off with less") as caught:
        await talk(team, scene("long", api, way), way, conversation=f"long-{api}-{way}")
    assert caught.value.agent == "a"
    assert len(server.requests(scene("long", api, way))) == 1, "what cannot help was tried again"
    again = await talk(team, scene("after", api, way), way, conversation=f"long-{api}-{way}")
    assert again.result.output == "We go on."


@EVERY
async def test_a_wrong_key_is_told_at_once(server: Server, opened: Opened, model_of: ModelOf, api: str, way: str):
    team = opened([Agent("a", model=model_of(api))])
    with pytest.raises(ModelError, match=r"answered 401: who are you\? \(check the API key"):
        await talk(team, scene("locked", api, way), way)
    assert len(server.requests(scene("locked", api, way))) == 1


async def test_a_provider_that_cannot_be_reached_is_told_by_name(opened: Opened, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(ModelError, match=r"openai:gpt-5: .*the connection failed") as caught:
        await opened([Agent("a", model="openai:gpt-5")]).run("Hello")
    assert caught.value.result is not None
    assert caught.value.result.ledger.retries == 2
