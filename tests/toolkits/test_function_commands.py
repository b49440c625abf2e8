"""Function tools that return a Command: what the core is told, what the model reads, and that nothing is done twice."""

from typing import Any

import pytest

from changeover.relay.ports.world import ToolOutcome
from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools.command import END, BadCommand, Command, Directive, Errand, Send
from changeover.tools.run_context import RunContext
from changeover.tools.tool import tool
from tests.toolkits.function_call import CONTEXT, outcome_of, returning


async def test_a_command_that_only_updates_the_context_is_done():
    command = Command(update={"context": {"lead": 7}})
    assert await outcome_of(returning(command)) == ToolOutcome("done", directive=Directive(context={"lead": 7}))


@pytest.mark.parametrize(
    ("command", "directive"),
    [
        (Command("writer", message="Write it."), Directive(goto="writer", message="Write it.")),
        (Command([Send("a", {"n": 1}), "b"]), Directive(sends=(Errand("a", {"n": 1}), Errand("b")))),
        (Command(END, {"output": "That is all."}), Directive(end=True, output="That is all.")),
    ],
)
async def test_a_command_with_a_destination_has_no_text(command: Command, directive: Directive):
    assert await outcome_of(returning(command)) == ToolOutcome("", directive=directive)


@pytest.mark.parametrize(
    "options", [{}, {"at_most_once": True}, {"read_only": True}, {"retries": 2}, {"max_result": 1}]
)
async def test_every_tool_may_return_a_command(options: dict[str, Any]):
    @tool(**options)
    async def route(ctx: RunContext, to: str) -> Command:
        return Command(to, {"context": {"from": ctx.agent}})

    assert await outcome_of(route, to="writer") == ToolOutcome(
        "", directive=Directive(goto="writer", context={"from": "billing"})
    )


async def test_an_invalid_command_fails_with_the_tool_and_what_is_wrong():
    assert await outcome_of(returning(Command(update={"artifacts": 7}))) == ToolOutcome(
        "give ran, but the Command that it returned cannot be carried out: update['artifacts'] is 7; "
        "give a dict of names to values",
        ok=False,
    )


@pytest.mark.parametrize("command", [Command(""), Command([]), Command(update={"context": {"bad": object()}})])
async def test_an_invalid_command_is_not_retried(command: Command):
    calls = []

    @tool(retries=3)
    def pay() -> Command:
        calls.append(1)
        return command

    outcome = await outcome_of(pay)
    assert (outcome.ok, outcome.directive, calls) == (False, None, [1])
    assert outcome.text.startswith("pay ran, but ")


async def test_the_text_about_an_invalid_command_is_short():
    outcome = await outcome_of(returning(Command(update={"x" * 1_000_000: 1})))
    assert len(outcome.text) < 2_200


async def test_a_bad_command_that_the_function_itself_raised_is_a_failure_like_any_other():
    @tool(retries=1)
    def check() -> str:
        raise BadCommand("nobody is there")

    assert (await outcome_of(check)).text == "check failed: BadCommand: nobody is there (tried 2 times)"


async def test_later_changes_of_a_command_have_no_effect():
    context = {"tags": ["new"]}
    toolkit = AgentToolkit([tool(name="note")(returning(Command(update={"context": context})))])
    first = await toolkit.call("note", {}, CONTEXT)
    context["tags"].append("old")
    second = await toolkit.call("note", {}, CONTEXT)
    assert [outcome.directive for outcome in (first, second)] == [
        Directive(context={"tags": ["new"]}),
        Directive(context={"tags": ["new", "old"]}),
    ]
