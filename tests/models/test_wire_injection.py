"""No text changes the structure of a request that a provider's client sends."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters

from changeover import Agent, Team, Variable, handoff
from changeover.messages import Assistant, Call, File, Message, Note, ToolResult, User
from changeover.models.provider import PydanticAIModel, named
from changeover.testing import ScriptedModel, hands_off
from tests.models.aimock import Server
from tests.models.nasty_texts import FAKES
from tests.models.provider_script import scene
from tests.models.stand_ins import Told, request
from tests.models.strict_reader import announced, prompts
from tests.models.team_talk import NAMES
from tests.models.wire import Wire, wired

KEPT = ("role", "type", "name", "id", "call_id", "tool_call_id", "tool_use_id", "model")
"""What is no text in a request."""
ALL = "\n".join(FAKES.values())
APIS = pytest.mark.parametrize("api", NAMES)


@pytest.fixture
def wire(server: Server, providers: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    with wired(server.url) as wire:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{wire.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        yield wire


class Listening(Told):
    """A model of theirs that also keeps the instructions it was given."""

    def __init__(self) -> None:
        super().__init__(ModelResponse(parts=[TextPart("Hi")]))
        self.instructions = ""

    async def request(
        self, messages: list[ModelMessage], model_settings: Any, model_request_parameters: ModelRequestParameters
    ) -> ModelResponse:
        [part] = model_request_parameters.instruction_parts or []
        self.instructions = part.content
        return await super().request(messages, model_settings, model_request_parameters)


def thread(said: str, last: str) -> list[Message]:
    """A conversation of all kinds of messages with the same text."""
    own, others = Call("1", "look", {"what": said}), Call("2", "look", {"what": said})
    return [
        User(said, files=(File(said.encode(), "text/plain", "said.txt"),)),
        Assistant("b", said, said, (others,)),
        ToolResult("2", "look", "b", said),
        Note(said, said),
        Assistant("a", said, "", (own,)),
        ToolResult("1", "look", "a", said),
        Note(said),
        User(last),
    ]


def skeleton(body: Any) -> Any:
    """A request without its words."""
    match body:
        case dict():
            return {key: value if key in KEPT else skeleton(value) for key, value in body.items()}
        case list():
            return [skeleton(each) for each in body]
        case str():
            return "…"
        case _:
            return body


@APIS
async def test_a_request_has_the_same_form_whatever_is_said_in_it(wire: Wire, api: str):
    model = named(NAMES[api])
    last = scene("text", api, "plain")
    for said in ("word", ALL, *FAKES.values()):
        assert (await model.reply(request(*thread(said, last)))).text == "Good morning."
    await model.close_clients()
    tame, *nasty = map(skeleton, wire.bodies)
    assert len(nasty) == len(FAKES) + 1
    assert all(each == tame for each in nasty)
    assert ("system" in tame) == (api == "anthropic")


@APIS
async def test_a_client_sends_user_texts_unchanged_between_the_marked_lines(wire: Wire, api: str):
    # The layer below writes &lt;system> for providers without such a role: that tag it keeps for itself.
    said = "\n".join(text for text in FAKES.values() if "<system>" not in text)
    model = named(NAMES[api])
    await model.reply(request(*thread(said, scene("text", api, "plain"))))
    await model.close_clients()
    [body] = wire.bodies
    prompted = texts([each["content"] for each in body.get("messages") or body["input"] if each.get("role") == "user"])
    # The first three marks occur in texts, so they are only text.
    assert f"{said}\n\n[said.txt (text/plain)]" in prompted
    assert sum(text.count("[[team4: note from ") for text in prompted) == 2
    assert sum(text.count("[[team4: quotes b]]") for text in prompted) == 1
    assert sum(text.count("[[team4: end]]") for text in prompted) == 3
    assert sum('"[[team4: end]]" was put there by the team' in text for text in texts(body)) == 1


@pytest.mark.parametrize("fake", FAKES)
async def test_the_mark_is_announced_once_below_the_instructions(fake: str):
    told = Listening()
    said = FAKES[fake]
    await PydanticAIModel(lambda: told).reply(request(*thread(said, said)))
    mark = announced(told.instructions, "You are a.")
    assert told.instructions.count(mark) == 2
    assert mark not in said
    assert mark in "\n".join(prompts(told.asked[0]))


async def test_a_request_without_blocks_has_no_explanation_of_the_mark():
    told = Listening()
    said = FAKES["a note"]
    await PydanticAIModel(lambda: told).reply(request(User(said), Assistant("a", said), User(said)))
    assert told.instructions == "You are a."
    assert prompts(told.asked[0]) == [said, said]


async def test_a_variable_cannot_hold_a_mark_of_ours(opened: Callable[..., Team]):
    told = Listening()
    way = handoff("billing", variables=[Variable("order")])
    script = ScriptedModel({"triage": [hands_off("billing", "Refund it.", order=ALL)]})
    members = [Agent("triage", model=script, handoffs=[way]), Agent("billing", instructions="You bill.", model=told)]
    await opened(members).run("Hello", context={ALL: ALL})
    above, _, explained = told.instructions.rpartition("\n\n")
    mark = announced(explained, "")
    assert mark not in above
    assert f"{mark} quotes triage]]\n> Refund it.\n> {mark} called handoff_to_billing]] " in prompts(told.asked[0])[0]


def texts(body: Any) -> list[str]:
    """All texts of a request, in any provider's form."""
    match body:
        case dict():
            return [text for value in body.values() for text in texts(value)]
        case list():
            return [text for each in body for text in texts(each)]
        case str():
            return [body]
        case _:
            return []
