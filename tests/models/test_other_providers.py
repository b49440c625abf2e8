"""Models of Ollama and Bedrock."""

from collections.abc import Callable, Iterator

import pytest

from changeover import Agent, Team
from changeover.errors import ModelError
from tests.models.aimock import Server
from tests.models.provider_script import scene
from tests.models.team_talk import talk
from tests.models.wire import Wire, wired

Opened = Callable[..., Team]
NAMES = {"ollama": "ollama:llama3.2", "bedrock": "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0"}
EVERY = pytest.mark.parametrize(("api", "way"), [(api, way) for api in NAMES for way in ("plain", "streamed")])


@pytest.fixture(scope="module")
def wire(server: Server) -> Iterator[Wire]:
    with wired(server.url) as wire:
        yield wire


@pytest.fixture(autouse=True)
def addresses(server: Server, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", wire.url)
    for name, value in {"DEFAULT_REGION": "us-east-1", "ACCESS_KEY_ID": "any", "SECRET_ACCESS_KEY": "any"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)


def look(n: int) -> str:
    """Look up a number."""
    return str(n * 3)


@EVERY
async def test_a_tool_is_called_and_its_result_read(server: Server, opened: Opened, api: str, way: str):
    said = await talk(opened([Agent("a", model=NAMES[api], tools=[look])]), scene("tool", api, way), way)
    assert said.result.output == "It is 21."
    assert [(call.name, call.args) for call in said.replies[0].calls] == [("look", {"n": 7})]
    last = server.requests(scene("tool", api, way))[-1]
    assert [message["content"] for message in last["messages"] if message["role"] == "tool"] == ["21"]
    if way == "streamed":
        assert "".join(piece.text for piece in said.text).endswith("It is 21.")


@EVERY
async def test_a_handoff_between_agents(opened: Opened, api: str, way: str):
    agents = [Agent(id, instructions=f"You are {id}.", model=NAMES[api]) for id in ("triage", "billing")]
    said = await talk(opened(agents), scene("handoff", api, way), way)
    assert (said.result.output, said.result.final_agent) == ("Refunded.", "billing")


@EVERY
async def test_a_provider_that_fails_is_asked_again_by_us_and_not_by_its_client(
    server: Server, opened: Opened, api: str, way: str
):
    said = await talk(opened([Agent("a", model=NAMES[api])]), scene("failing", api, way), way)
    assert said.result.ledger.retries == 1
    assert "answered 500: " in said.failures[0].reason
    assert len(server.requests(scene("failing", api, way))) == 2, "the client has retried by itself"


@EVERY
async def test_a_wrong_key_is_told_at_once(server: Server, opened: Opened, api: str, way: str):
    with pytest.raises(ModelError, match=r"answered 401: (who are you\?|401) \(check the API key"):
        await talk(opened([Agent("a", model=NAMES[api])]), scene("locked", api, way), way)
    assert len(server.requests(scene("locked", api, way))) == 1
