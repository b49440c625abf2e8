"""Stories of checks on content: what an agent's model reads, and what the agent answers."""

from typing import Any

import changeover
from changeover import Agent, Team
from changeover.guards import Content, Deny, Replace
from changeover.testing import delegates, hands_off, says
from tests.public_api import recorded
from tests.stories.answers import tries
from tests.stories.delegates import came_back, cast
from tests.stories.stage import Stage, story


def hides_cards(content: Content) -> Deny | Replace | None:
    """A check: what it returns decides about the text, before a model reads it and before an answer leaves."""
    if "1234" in content.text:
        return Replace(content.text.replace("1234", "****"))
    if content.direction == "input" and "attack" in content.text:
        return Deny("We do not do that.")
    return Deny("I cannot say.") if content.direction == "output" and "secret" in content.text else None


def checking(stage: Stage, answer: Any) -> Team:
    return stage.team([Agent("desk", checks=[hides_cards])], cast(desk=answer))


@story
async def a_check_replaces_what_a_model_reads_and_what_it_answers(stage: Stage) -> None:
    team = checking(stage, lambda messages: says(f"{messages[-1].text} and 1234"))
    assert (await stage.say(team, "card 1234")).output == "card **** and ****"


@story
async def a_check_that_denies_answers_in_the_place_of_the_model(stage: Stage) -> None:
    team = checking(stage, says("Done."))
    result = await stage.say(team, "an attack")
    assert (result.output, result.usage.requests) == ("We do not do that.", 0)


@story
async def a_check_that_denies_an_answer_answers_in_its_place(stage: Stage) -> None:
    team = checking(stage, says("the secret"))
    result = await stage.say(team, "hello")
    assert (result.output, result.usage.requests) == ("I cannot say.", 1)


@story
async def what_a_check_held_back_is_in_no_record_that_a_model_reads(stage: Stage) -> None:
    team = checking(stage, lambda messages: says("the secret" if len(messages) == 1 else repr(messages)))
    await stage.say(team, "hello")
    await stage.say(team, "an attack")
    result = await stage.say(team, "card 1234")
    held_back = ("secret", "attack", "1234")
    assert [word for word in held_back if word in result.output] == []
    assert ("I cannot say." in result.output, "[withheld]" in result.output) == (True, True)


@story
async def what_a_sender_writes_is_checked_before_the_receivers_model_reads_it(stage: Stage) -> None:
    members = [Agent("triage"), Agent("desk", checks=[hides_cards], handoffs=())]
    parts: dict[str, Any] = {"triage": hands_off("desk", "it is 1234"), "desk": lambda messages: says(repr(messages))}
    team = stage.team(members, cast(**parts))
    result = await stage.say(team, "card 1234")
    shown = [text in result.output for text in ("1234", "card ****", "it is ****")]
    assert shown == [False, True, True]
    for request in stage.requests("desk"):
        assert "1234" not in request.instructions


@story
async def what_a_delegate_is_asked_is_checked_before_its_model_reads_it(stage: Stage) -> None:
    members = [Agent("boss", handoffs=[changeover.delegate("desk")]), Agent("desk", checks=[hides_cards])]
    parts: dict[str, Any] = {"boss": tries(delegates("desk", "an attack")), "desk": says("Done.")}
    [back] = came_back(await stage.say(stage.team(members, cast(**parts)), "go"))
    assert (back.success, back.response) == (True, "We do not do that.")
    assert [request for request in stage.seen if request.agent == "desk"] == []


@story
async def a_check_that_fails_denies(stage: Stage) -> None:
    async def fails(content: Content) -> None:
        raise OSError("the line is busy")

    team = stage.team([Agent("desk", checks=[fails])], cast(desk=says("Done.")))
    result = await stage.say(team, "hello")
    assert (result.output, result.usage.requests) == ("This could not be checked, so it is withheld.", 0)


@story
async def every_check_that_changes_something_is_recorded(stage: Stage) -> None:
    team = checking(stage, says("the secret"))
    await stage.say(team, "card 1234")
    found = await recorded(team, "ContentChecked")
    assert [(each.agent, each.direction, each.verdict) for each in found] == [
        *(("desk", "input", "replace"), ("desk", "output", "deny")),
    ]
