"""The user's own words reach every receiver whole; what does not fit its context window is named and can be fetched."""

from collections.abc import Sequence
from typing import Any

import pytest

from changeover import Agent, Full, Recent, Team, delegate, specialist
from changeover.messages import Message, ToolResult
from changeover.protocol import Context, HandoffPackage, Metadata, Task
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says

LONG = f"BEGIN {'x ' * 3_000} END"
"""A request of 6,000 characters."""
WISH = {"specialist_type": "counting", "task": "count", "reason": "you can"}
CLERK = Agent("clerk", capabilities=["counting"], handoffs=())


def squeezed(text: str) -> str:
    """A text without its line breaks and quotation marks."""
    return " ".join(text.replace("> ", "").split())


def read_by(model: ScriptedModel, agent: str) -> str:
    """All that an agent's model was told last, squeezed."""
    request = [each for each in model.requests if each.agent == agent][-1]
    return squeezed("\n".join([request.instructions, *(message.text for message in request.messages)]))


def has_whole(model: ScriptedModel, agent: str, text: str = LONG) -> bool:
    return squeezed(text) in read_by(model, agent)


@pytest.mark.parametrize("strategy", [None, Full(), Recent(2)], ids=["default", "full", "recent"])
async def test_a_delegate_reads_the_whole_request(strategy: Any):
    model = ScriptedModel({"boss": [delegates("clerk", "count"), says("Done.")], "clerk": [says("Three.")]})
    team = Team([Agent("boss", handoffs=[delegate("clerk", strategy=strategy)]), CLERK], model=model)
    await team.run(LONG)
    assert has_whole(model, "clerk")


async def test_a_specialist_reads_the_whole_request():
    script = {"boss": [calls(("handoff_to_specialist", WISH)), says("Done.")], "clerk": [says("Three.")]}
    model = ScriptedModel(script)
    await Team([Agent("boss", handoffs=[specialist()]), CLERK], model=model).run(LONG)
    assert has_whole(model, "clerk")


@pytest.mark.parametrize("mode", ["delegate", "transfer"])
async def test_the_receiver_of_an_offer_reads_the_whole_request(mode: str):
    model = ScriptedModel({"clerk": [says("Three.")]})
    about = Metadata(receiver="clerk", mode=mode)  # type: ignore[arg-type]
    await Team([CLERK], model=model).offer(HandoffPackage(Task("count"), Context(original_request=LONG), about))
    assert has_whole(model, "clerk")


@pytest.mark.parametrize("strategy", [None, Full(), Recent(2)], ids=["default", "full", "recent"])
async def test_the_receiver_of_a_transfer_reads_the_whole_request(strategy: Any):
    model = ScriptedModel({"boss": [hands_off("clerk", "count")], "clerk": [says("Three.")]})
    await Team([Agent("boss", strategy=None), Agent("clerk", strategy=strategy)], model=model).run(LONG)
    assert has_whole(model, "clerk")


async def test_recent_messages_are_passed_on_whole():
    def look() -> str:
        """Look at the shelf."""
        return f"SHELF {'y ' * 3_000} DONE"

    script = {"boss": [calls(("look", {})), delegates("clerk", "count"), says("Done.")], "clerk": [says("Three.")]}
    model = ScriptedModel(script)
    await Team([Agent("boss", tools=[look], handoffs=[delegate("clerk")]), CLERK], model=model).run("How many?")
    assert has_whole(model, "clerk", look())


def narrow(script: Any, window: int) -> ScriptedModel:
    """A model that reads so many tokens at most: a model says so by its attribute `context_window`."""
    return ScriptedModel(script, context_window=window)


async def test_a_briefing_that_does_not_fit_names_what_it_left_out_and_offers_to_fetch_it():
    def play(agent: str, messages: Sequence[Message], tools: Any) -> Any:
        return (
            says("Three.") if agent == "clerk" else delegates("clerk", "count") if len(messages) == 1 else says("Done.")
        )

    model = narrow(play, 1_000)
    await Team([Agent("boss", handoffs=[delegate("clerk")]), CLERK], model=model).run(LONG)
    request = next(each for each in model.requests if each.agent == "clerk")
    told = read_by(model, "clerk")
    assert ("BEGIN" in told, "END" in told) == (True, False)
    assert ("left out" in told, "original request" in told) == (True, True)
    assert "fetch_context" in [tool.name for tool in request.tools]


async def test_what_a_briefing_left_out_can_be_fetched():
    fetched: list[str] = []

    def play(agent: str, messages: Sequence[Message], tools: Any) -> Any:
        if agent == "boss":
            return delegates("clerk", "count") if len(messages) == 1 else says("Done.")
        if not isinstance(messages[-1], ToolResult):
            words = [word for message in messages for word in message.text.split()]
            reference = next(word for word in words if word.startswith("context://"))
            return calls(("fetch_context", {"ref": reference}))
        fetched.append(messages[-1].text)
        return says("Three.")

    await Team([Agent("boss", handoffs=[delegate("clerk")]), CLERK], model=narrow(play, 1_000)).run(LONG)
    assert ["END" in text for text in fetched] == [True]
