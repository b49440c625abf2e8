"""What tests of users need: scripts that read the whole request, messages to compare with, ids of calls, a constant."""

from typing import Any

import pytest

from changeover import Agent, Team, testing
from changeover.testing import ManualClock, ScriptedModel, says
from tests.public_api import public


async def test_the_function_of_a_script_may_take_the_request():
    script: Any = lambda request: says(f"{request.agent}, turn {request.turn}")  # noqa: E731
    assert (
        await Team([Agent("desk")], model=ScriptedModel(script), clock=ManualClock(auto=True)).run("hello")
    ).output == "desk, turn 0"


async def test_the_async_function_of_a_script_may_take_the_request():
    async def script(request: Any) -> Any:
        return says(request.instructions)

    play: Any = script
    team = Team([Agent("desk", instructions="Be kind.")], model=ScriptedModel(play), clock=ManualClock(auto=True))
    assert "Be kind." in (await team.run("hello")).output


async def test_the_function_of_a_script_may_take_agent_messages_and_tools():
    model = ScriptedModel(lambda agent, messages, tools: says(f"{agent}: {messages[-1].text}"))
    assert (await Team([Agent("desk")], model=model).run("hello")).output == "desk: hello"


@pytest.mark.parametrize("fn", [lambda: None, lambda one, two: None], ids=["no argument", "two arguments"])
def test_a_function_of_another_arity_is_refused_at_once(fn: Any):
    with pytest.raises(TypeError, match="request"):
        ScriptedModel(fn)


@pytest.mark.parametrize("name", ["User", "Assistant", "ToolResult", "Call", "Note", "crash"])
def test_what_tests_compare_with_is_public(name: str):
    assert public(testing, name) is not None


async def test_a_call_may_have_an_id():
    def look() -> str:
        """Look."""
        return "nothing"

    items: Any = (("look", {}, "first"), ("look", {}, "second"))
    model = ScriptedModel({"desk": [testing.calls(*items), says("Done.")]})
    await Team([Agent("desk", tools=[look])], model=model).run("hello")
    assert [each.call for each in model.requests[1].messages[2:]] == ["first", "second"]  # type: ignore[union-attr]


async def test_the_name_of_the_generic_tool_is_a_constant():
    model = ScriptedModel({"a": [says("Hello.")]})
    await Team([Agent("a"), Agent("b")], model=model).run("hello")
    assert [tool.name for tool in model.requests[0].tools] == [testing.GENERIC_TOOL]
