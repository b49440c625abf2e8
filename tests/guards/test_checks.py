"""Checks of content: what an agent's model reads, and what the agent answers."""

from typing import Any

import pytest

from changeover import Agent, Team, events
from changeover.errors import MisconfiguredError
from changeover.guards import Allow, Content, Deny, Replace
from changeover.stream import RunFinished, TextDelta
from changeover.testing import ScriptedModel, calls, says


def desk(*checks: Any, script: Any = None, **options: Any) -> Team:
    agent = Agent("desk", checks=list(checks), **options)
    return Team([agent], model=ScriptedModel({"desk": script or [says("Good day.")] * 3}))


def shouts(content: Content) -> Replace:
    return Replace(content.text.upper())


async def allows(content: Content) -> Allow:
    return Allow()


async def test_every_check_judges_what_the_one_before_it_left():
    seen: list[tuple[str, str]] = []

    def notes(content: Content) -> None:
        seen.append((content.direction, content.text))

    result = await desk(shouts, allows, notes).run("hello")
    assert (result.output, seen) == ("GOOD DAY.", [("input", "HELLO"), ("output", "GOOD DAY.")])


async def test_a_check_reads_the_context_of_the_run():
    def only_gold(content: Content) -> Deny | None:
        return None if content.ctx.context.get("plan") == "gold" else Deny("Not for you.")

    assert (await desk(only_gold).run("hello", context={"plan": "gold"})).output == "Good day."
    assert (await desk(only_gold).run("hello", context={"plan": "tin"})).output == "Not for you."


async def test_an_answer_that_is_held_back_is_neither_streamed_nor_recorded():
    def keeps_secrets(content: Content) -> Deny | None:
        return Deny("I cannot say.") if "secret" in content.text else None

    team = desk(keeps_secrets, script=[says("It is the secret.", thinking="the secret")])
    items = [item async for item in team.stream("hello", conversation="story")]
    assert not [item for item in items if isinstance(item, TextDelta)]
    assert "secret" not in repr(items)
    assert isinstance(items[-1], RunFinished)
    assert items[-1].result.output == "I cannot say."
    [checked] = [each.event for each in await team.history("story") if isinstance(each.event, events.ContentChecked)]
    assert (checked.direction, checked.verdict, checked.reason) == ("output", "deny", "I cannot say.")


async def test_a_message_is_checked_once_in_a_task():
    seen: list[str] = []

    def look() -> str:
        """Look."""
        return "nothing"

    def notes(content: Content) -> None:
        seen.append(content.direction)

    await desk(notes, script=[calls(("look", {})), says("Done.")], tools=[look]).run("hello")
    assert seen == ["input", "output"]


async def test_the_same_key_is_the_same_message_though_a_check_replaced_it():
    team = desk(shouts)
    first = await team.run("hello", conversation="story", key="k")
    assert (await team.run("hello", conversation="story", key="k")).run_id == first.run_id


@pytest.mark.parametrize("answer", [True, "no", Deny(7), Replace(None)])  # type: ignore[arg-type]
async def test_a_check_that_answers_something_else_denies(answer: Any):
    assert (await desk(lambda content: answer).run("hello")).output == "This could not be checked, so it is withheld."


@pytest.mark.parametrize(
    ("checks", "fault"),
    [
        ("shouts", "has checks='shouts'; give a list of functions"),
        ([7], "has the check 7; give a function of the content"),
        ([lambda: None], "has a check=.*it is called with 1 argument"),
    ],
)
def test_checks_that_cannot_be_asked_are_faults_of_the_team(checks: Any, fault: str):
    with pytest.raises(MisconfiguredError, match=fault):
        Team([Agent("desk", checks=checks)], model=ScriptedModel({}))
