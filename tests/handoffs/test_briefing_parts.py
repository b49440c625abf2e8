"""The parts of a briefing: a template may name each of them, for every kind of receiver, and finds it filled."""

from typing import Any

import pytest

from changeover import Agent, Limits, Reference, Team, delegate, handoff, specialist
from changeover.protocol import Context, Expectations, Expects, HandoffPackage, Metadata, Task
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says

WISH = {"specialist_type": "counting", "task": "count the parts", "reason": "you can"}
EXPECTS = Expects(output={"type": "object", "required": ["count"]}, criteria=["it names every part"])
ANSWER = says('{"count": 3}')


def clerk(template: str) -> Agent:
    return Agent("clerk", briefing=template, capabilities=["counting"], handoffs=())


async def told(way: Any, turn: Any, template: str, **options: Any) -> str:
    """What the clerk is told by this template, if the boss goes this way."""
    model = ScriptedModel({"boss": [turn, says("Done.")], "clerk": [ANSWER]})
    team = Team([Agent("boss", handoffs=[way]), clerk(template)], model=model, **options)
    await team.run("How many parts are there?")
    request = next(each for each in model.requests if each.agent == "clerk")
    return "\n".join([request.instructions, *(message.text for message in request.messages)])


@pytest.mark.parametrize(
    ("way", "turn"),
    [
        (delegate("clerk"), delegates("clerk", "count the parts")),
        (specialist(), calls(("handoff_to_specialist", WISH))),
    ],
    ids=["delegate", "specialist"],
)
async def test_a_template_finds_the_task_of_a_delegate(way: Any, turn: Any):
    assert "TASK[  count the parts]" in await told(way, turn, "TASK[{your_task}]")


PARTS = {
    "expected_output": '"count"',
    "success_criteria": "it names every part",
    "time_left": "60",
    "tokens_left": "5000",
}


@pytest.mark.parametrize("part", PARTS)
async def test_a_template_names_what_is_expected_and_what_is_left(part: str):
    way = delegate("clerk", expects=EXPECTS, timeout=60)
    text = await told(way, delegates("clerk", "count"), f"PART[{{{part}}}]", limits=Limits(max_tokens=5_000))
    assert PARTS[part] in text.partition("PART[")[2].partition("]")[0].replace(",", "")


@pytest.mark.parametrize("part", ["expected_output", "success_criteria"])
async def test_a_template_names_what_is_expected_of_a_transfer(part: str):
    # With Full() the receiver reads the messages themselves, and no briefing.
    way = handoff("clerk", expects=EXPECTS, strategy=Reference(whole_up_to=0))
    text = await told(way, hands_off("clerk", "count"), f"PART[{{{part}}}]")
    assert PARTS[part] in text.partition("PART[")[2].partition("]")[0]


async def test_a_template_names_the_escalation_path():
    model = ScriptedModel({"clerk": [ANSWER]})
    team = Team([clerk("PATH[{escalation_path}]"), Agent("elder")], model=model)
    known = Context(escalation_path=("elder",))
    await team.offer(HandoffPackage(Task("count"), known, Metadata(receiver="clerk")))
    assert "PATH[- elder]" in model.requests[0].messages[0].text


async def test_the_default_briefing_has_these_parts_too():
    model = ScriptedModel({"clerk": [ANSWER]})
    about = Metadata(receiver="clerk", max_iterations=4)
    wishes = Expectations(output_schema={"type": "object"}, success_criteria=("it names every part",), timeout=60.0)
    package = HandoffPackage(Task("count"), Context(escalation_path=("elder",)), about, wishes)
    members = [Agent("clerk", handoffs=()), Agent("elder")]
    await Team(members, model=model, limits=Limits(max_tokens=5_000)).offer(package)
    text = "\n".join(message.text for message in model.requests[0].messages)
    for title in ("Expected output:", "Success criteria:", "Whom to turn to:", "Time left:", "Tokens left:"):
        assert title in text


async def test_a_part_that_is_empty_is_left_out():
    text = await told(delegate("clerk"), delegates("clerk", "count"), "Files:\n{files}\n\nAsked:\n{original_request}")
    assert ("Files:" in text, "How many parts" in text) == (False, True)
