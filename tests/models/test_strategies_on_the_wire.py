"""Requests stay valid for four providers after every strategy, with files, tools and turns of other agents."""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google.genai import Client
from google.genai.types import HttpOptions
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider

from changeover import Agent, File, Full, MessageOnly, Recent, Reference, Summary, Team, delegate
from changeover.errors import ModelError
from changeover.handoffs.strategies import Strategy
from changeover.messages import Message, ToolResult
from changeover.models.provider import PydanticAIModel, named
from changeover.relay.ports.world import Request
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.models.nasty_texts import FAKES
from tests.models.team_talk import NAMES

STRATEGIES: dict[str, Strategy] = {
    "full": Full(),
    "without tools": Full(exclude=["tool:*"]),
    "recent": Recent(3),
    "message only": MessageOnly(),
    "summary": Summary(whole_up_to=0),
    "reference": Reference(whole_up_to=0),
    "own text": lambda handover: "In short.",
    "own messages": lambda handover: list(handover.messages)[-3:],
}
ALL = "\n".join(FAKES.values())


@pytest.fixture(scope="module")
def recorder() -> Iterator[tuple[str, list[Any]]]:
    """A server that keeps every body and answers none."""
    bodies: list[Any] = []

    class Deaf(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(400)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Deaf)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", bodies
    server.shutdown()
    thread.join()
    server.server_close()


async def played(strategy: Strategy) -> Sequence[Request]:
    """All requests of a team in which everything occurs: files, calls, a delegate, a transfer, and fetching."""

    def plays(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Any:
        results = [each for each in messages if isinstance(each, ToolResult) and each.agent == agent]
        if agent == "triage":
            steps: list[Any] = [
                calls(("look", {"what": ALL}), ("invented " + ALL, {"x": ALL}), text=ALL),
                delegates("auditor", "Check."),
                hands_off("billing", "Go on."),
            ]
            return steps[len({each.name for each in results} & {"look", "delegate_to_auditor"})]
        if agent in ("helper", "auditor"):
            return says(ALL)
        fetches = any(tool.name == "fetch_context" for tool in tools) and not results
        return calls(("fetch_context", {"query": "look"}), ("fetch_context", {})) if fetches else says("Done.")

    def look(what: str) -> str:
        """Look."""
        return ALL

    model = ScriptedModel(plays)
    members = [
        Agent("triage", tools=[look], handoffs=["billing", delegate("auditor")]),
        Agent("auditor", handoffs=[]),
        Agent("billing", handoffs=[]),
    ]
    team = Team(members, model=model, helper_model=model, strategy=strategy)
    files = [File(b"\x89PNG\r\n\x1a\n" + bytes(16), "image/png", "a.png"), File(b"x,y\n1,2", "text/csv", "a.csv")]
    first = await team.run(ALL, user="ada\nboss: pay", files=files)
    await team.run("And now?", conversation=first.conversation_id)
    return model.requests


def check_chat(body: Any) -> None:
    """OpenAI chat: each call is answered by the tool messages that follow at once, in any order."""
    waiting: set[str] = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    assert not waiting
    assert body["messages"][-1]["role"] in ("user", "tool")


def check_responses(body: Any) -> None:
    """OpenAI responses: each call has one output behind it."""
    called = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"]
    assert (len(set(called)), sorted(called)) == (len(called), sorted(answered))


def check_anthropic(body: Any) -> None:
    """Anthropic: roles alternate, and results stand first in the message behind their calls."""
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    blocks = [each["content"] if isinstance(each["content"], list) else [] for each in body["messages"]]
    for before, after in zip([[], *blocks], [*blocks, []], strict=True):
        called = [block["id"] for block in before if block["type"] == "tool_use"]
        kinds = [block["type"] == "tool_result" for block in after]
        assert [block["tool_use_id"] for block in after if block["type"] == "tool_result"] == called
        assert kinds == sorted(kinds, reverse=True)


def check_google(body: Any) -> None:
    """Google: roles alternate, and calls are answered in the next content, in their order."""
    roles = [content["role"] for content in body["contents"]]
    assert roles == ["user", "model"] * (len(roles) // 2) + ["user"]
    parts = [content["parts"] for content in body["contents"]]
    for before, after in zip([[], *parts], [*parts, []], strict=True):
        called = [part["functionCall"]["name"] for part in before if "functionCall" in part]
        assert [part["functionResponse"]["name"] for part in after if "functionResponse" in part] == called


CHECKS = {"chat": check_chat, "responses": check_responses, "anthropic": check_anthropic, "google": check_google}


def model_of(api: str, url: str, monkeypatch: pytest.MonkeyPatch) -> PydanticAIModel:
    for name, value in {"OPENAI": f"{url}/v1", "ANTHROPIC": url}.items():
        monkeypatch.setenv(f"{name}_BASE_URL", value)
        monkeypatch.setenv(f"{name}_API_KEY", "any")
    if api != "google":
        return named(NAMES[api])
    client = Client(vertexai=False, api_key="any", http_options=HttpOptions(api_version="v1beta", base_url=url))
    return PydanticAIModel(lambda: GoogleModel("gemini-2.5-pro", provider=GoogleProvider(client=client)))


@pytest.mark.parametrize("api", CHECKS)
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
async def test_every_request_is_valid(
    recorder: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch, api: str, strategy: Strategy
):
    url, bodies = recorder
    model = model_of(api, url, monkeypatch)
    bodies.clear()
    requests = await played(strategy)
    for request in requests:
        with pytest.raises(ModelError):
            await model.reply(request)
    await model.close_clients()
    assert len(bodies) == len(requests) > 5
    for body in bodies:
        CHECKS[api](body)
