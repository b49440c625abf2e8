"""`Command(update=…)`: context, artifacts, workflow_state and output have a meaning, any other key is a variable."""

from typing import Any

import pytest

from changeover import END, Agent, Command, Function, RunContext, Send, Team
from changeover.testing import ScriptedModel, calls, says

MORE = {"next_task": "write", "reason": "enough facts", "validated": True}


def team_of(update: dict[str, Any], store: str | None = None) -> Team:
    """A function that goes on to a writer with this update, who says which variables it has."""

    def goes(ctx: RunContext) -> Command:
        return Command(goto="writer", update=update)

    def says_which(ctx: RunContext) -> str:
        return repr({name: value for name, value in ctx.context.items() if not name.startswith("_handoff_")})

    return Team([Function("plan", goes), Function("writer", says_which)], store=store)


async def test_other_keys_of_an_update_are_context_variables(any_store: str | None):
    async with team_of(MORE, any_store) as team:
        result = await team.run("go")
    assert (result.variables, result.output) == (MORE, repr(MORE))


async def test_they_are_merged_with_the_context_and_the_context_wins():
    result = await team_of({**MORE, "context": {"reason": "said twice"}}).run("go", context={"old": 1})
    assert result.variables == {"old": 1, **MORE, "reason": "said twice"}


async def test_a_tool_may_give_them_without_going_anywhere():
    def notes() -> Command:
        """Note it."""
        return Command(update=MORE)

    script = {"desk": [calls(("notes", {})), says("Noted.")]}
    result = await Team([Agent("desk", tools=[notes])], model=ScriptedModel(script)).run("go")
    assert (result.output, result.variables) == ("Noted.", MORE)


async def test_they_may_stand_beside_the_output_at_the_end():
    team = Team([Function("plan", lambda ctx: Command(goto=END, update={"output": "Done.", **MORE}))])
    result = await team.run("go")
    assert (result.output, result.variables) == ("Done.", MORE)


async def test_branches_get_them_too():
    def plans(ctx: RunContext) -> Any:
        if ctx.returned:
            return " | ".join(each.response for each in ctx.returned)
        return Command(goto=[Send("a"), Send("b")], update=MORE)

    members = [Function("plan", plans), *(Function(id, lambda ctx: str(ctx.context["next_task"])) for id in "ab")]
    assert (await Team(members).run("go")).output == "write | write"


@pytest.mark.parametrize("name", ["_handoff_from", "_handoff_chain"])
async def test_metadata_cannot_be_set_by_an_update(name: str):
    from changeover.errors import FunctionError

    with pytest.raises(FunctionError, match=name):
        await team_of({name: "x"}).run("go")
