"""What a model was sent can be rebuilt from the log, and the log says when calls began."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from changeover import Agent, Limits, Team, delegate, handoff, tool
from changeover.errors import ConversationNotFound
from changeover.events import ModelFailed, ModelReplied, ToolFinished
from changeover.messages import File
from changeover.relay.ports.world import Request
from changeover.relay.prompt import Prompt
from changeover.relay.stream import Recorded
from changeover.routing.experiment import Experiment
from changeover.testing import ManualClock, Reply, ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.tools.run_context import RunContext
from changeover.tools.variable import Variable


@tool
def look(thing: str) -> str:
    """Look."""
    return f"{thing} is there"


def by_order(context: RunContext) -> str:
    return f"You answer about {context.context.get('order', 'anything')}."


class Witnessed(ScriptedModel):
    """A scripted model that keeps what it was sent, as it was at that time."""

    def __init__(self, script: Any) -> None:
        super().__init__(script)
        self.sent: list[bytes] = []

    async def reply(self, request: Request) -> Reply:
        self.sent.append(content(request.agent, request.instructions, request.messages, request.tools))
        return await super().reply(request)


def content(agent: str, instructions: str, messages: Sequence[Any], tools: Sequence[Any]) -> bytes:
    return msgspec.json.encode((agent, instructions, list(messages), tools))


async def replies(team: Team, conversation: str = "c") -> list[Recorded]:
    found = await team.history(conversation)
    return [each for each in found if isinstance(each.event, ModelReplied | ModelFailed)]


async def prompts(team: Team) -> list[Prompt]:
    found = [await team.prompt(each.conversation, each.seq) for each in await replies(team)]
    return [each for each in found if each is not None]


def sent(prompt: Prompt) -> bytes:
    return content(prompt.agent, prompt.instructions, prompt.messages, prompt.tools)


SCRIPT = {
    "triage": [
        calls(("look", {"thing": "order 7"}), delegates("research", "All about order 7")),
        hands_off("billing", "Charged twice.", order="7"),
        says("You are welcome."),
    ],
    "research": [calls(("look", {"thing": "the shelf"})), says("It is on the shelf.")],
    "billing": [fails("busy"), calls(("look", {"thing": "the payment"})), says("Sent back.")],
}


def a_team(model: Any, **options: Any) -> Team:
    ways: list[Any] = [handoff("billing", variables=[Variable("order")]), delegate("research")]
    triage = Agent("triage", instructions="You sort.", tools=[look], handoffs=ways)
    billing = Agent("billing", instructions=by_order, tools=[look], handoffs=())
    return Team([triage, billing, Agent("research", instructions="You read.", tools=[look])], model=model, **options)


async def test_what_models_were_sent_is_rebuilt_for_every_reply():
    model = Witnessed(SCRIPT)
    team = a_team(model, clock=ManualClock(auto=True))
    await team.run("I was charged twice", conversation="c", context={"order": "7"})
    await team.run("Thank you", conversation="c", agent="triage")
    found = await prompts(team)
    assert len(found) == len(model.sent) == 8
    for prompt, given in zip(found, model.sent, strict=True):
        assert "its text was not recorded" in str(prompt.gaps) or sent(prompt) == given
    assert [each.attempt for each in found if each.agent == "billing"] == [1, 2, 1]
    assert [bool(each.gaps) for each in found if each.agent == "billing"] == [True, False, False]


async def test_the_last_reply_that_limits_allow_is_rebuilt_without_tools():
    model = Witnessed(lambda request: calls(("look", {"thing": "it"})) if request.tools else says("Enough."))
    team = Team([Agent("solo", tools=[look])], model=model, limits=Limits(max_turns=2, on_limit="tell"))
    await team.run("Look", conversation="c")
    assert [sent(each) for each in await prompts(team)] == model.sent
    assert [len(each.tools) for each in await prompts(team)] == [1, 0]


async def test_instructions_under_an_experiment_are_rebuilt():
    model = Witnessed({"solo": [says("Hello.")]})
    trial = Experiment("tone", {"short": "Be short.", "kind": "Be kind."}, on="instructions")
    team = Team([Agent("solo", instructions="Be.")], model=model, experiments=[trial])
    await team.run("Hello", conversation="c")
    [prompt] = await prompts(team)
    assert sent(prompt) == model.sent[0]
    assert prompt.instructions in ("Be short.", "Be kind.")


async def test_a_text_that_a_function_writes_is_recorded_once():
    words = iter("abab")
    model = ScriptedModel({"solo": [says("Yes.")] * 4})
    team = Team([Agent("solo", instructions=lambda context: f"You are {next(words)}.")], model=model)
    for _ in range(4):
        await team.run("Hello", conversation="c")
    events: list[Any] = [each.event for each in await replies(team)]
    assert [each.instructions for each in events] == ["You are a.", "You are b.", "", ""]
    assert [each.instructions for each in await prompts(team)] == [f"You are {each}." for each in "abab"]


async def test_declared_instructions_are_not_recorded():
    team = a_team(ScriptedModel(SCRIPT), clock=ManualClock(auto=True))
    await team.run("I was charged twice", conversation="c")
    assert not any(getattr(each.event, "instructions", "") for each in await replies(team) if each.agent == "triage")


async def test_a_prompt_has_no_bytes_of_files():
    team = Team([Agent("solo")], model=ScriptedModel({"solo": [says("Seen.")]}))
    await team.run("Look", conversation="c", files=[File(b"1042", "text/plain", "order.txt")])
    [prompt] = await prompts(team)
    assert "order.txt" in str(prompt.messages)
    assert b"1042" not in msgspec.json.encode(prompt)


async def test_other_events_have_no_prompt():
    team = Team([Agent("solo")], model=ScriptedModel({"solo": [says("Seen.")]}))
    await team.run("Look", conversation="c")
    assert await team.prompt("c", 1) is None
    with pytest.raises(ConversationNotFound):
        await team.prompt("nowhere", 1)


async def test_an_agent_that_code_no_longer_declares_leaves_a_gap(tmp_path):
    store = f"sqlite:///{tmp_path / 'store.db'}"
    async with Team([Agent("solo")], model=ScriptedModel({"solo": [says("Seen.")]}), store=store) as team:
        await team.run("Look", conversation="c")
        [reply] = await replies(team)
    async with Team([Agent("other")], model=ScriptedModel({}), store=store) as team:
        prompt = await team.prompt("c", reply.seq)
    assert prompt is not None
    assert (prompt.agent, prompt.messages) == ("solo", ())
    assert "cannot be rebuilt" in prompt.gaps[0]


async def test_the_log_says_when_calls_of_models_and_tools_began():
    clock = ManualClock(1000.0)

    @tool
    async def wait() -> str:
        """Wait."""
        await clock.advance(5)
        return "done"

    class Slow(ScriptedModel):
        async def reply(self, request: Request) -> Reply:
            await clock.advance(2)
            return await super().reply(request)

    model = Slow({"solo": [calls(("wait", {})), says("Done.")]})
    team = Team([Agent("solo", tools=[wait])], model=model, clock=clock)
    await team.run("Go", conversation="c")
    timed = [each for each in await team.history("c") if isinstance(each.event, ModelReplied | ToolFinished)]
    assert [(each.event.began, each.at) for each in timed] == [(1000, 1002), (1002, 1007), (1007, 1009)]  # type: ignore[union-attr]
