"""Stories of agents that ask for a specialist without naming one."""

from collections.abc import Sequence
from typing import Any

import msgspec

from changeover import Agent, Team, specialist
from changeover.messages import Message
from changeover.models import Usage
from changeover.protocol import HandoffPackage, Rejected
from changeover.relay.events import HandoffOffered, HandoffRejected, ReceiverChosen
from changeover.routing import Routing
from changeover.testing import Reply, ScriptedModel, calls, fails, says
from changeover.tools.tool import ToolDefinition
from tests.stories.delegates import came_back, read
from tests.stories.stage import CONVERSATION, Stage, events, story


def wants(kind: str, task: str = "Do it.", *required: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """A call for a specialist."""
    needed = {"required_capabilities": list(required)} if required else {}
    return "handoff_to_specialist", {"specialist_type": kind, "task": task, "reason": "I cannot.", **needed, **more}


LAW = Agent("lawyer", description="Reads contracts and leases.", capabilities=["contract-law"], handoffs=())
TAX = Agent(
    "accountant", description="Files taxes and books invoices.", capabilities=["taxes", "invoices"], handoffs=()
)
SHY = Agent("shy", capabilities=["Contract Law"], accepts_handoffs=False, handoffs=())


def desk(stage: Stage, line: Reply, *experts: Agent, way: Any = None, helper: Any = None, **options: Any) -> Team:
    """A desk that asks for help, and tells what comes back."""

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent != "desk":
            return says(f"{agent} did: {messages[-1].text.splitlines()[-1]}")
        return line if len(messages) == 1 else says(" | ".join(each.text for each in messages[2:]))

    members = [Agent("desk", handoffs=[way or specialist()]), *(experts or (LAW, TAX, SHY))]
    return stage.team(members, ScriptedModel(play), helper_model=helper, **options)


@story
async def the_agent_with_the_capability_is_asked_and_its_result_comes_back(stage: Stage) -> None:
    team = desk(stage, calls(wants("contract_law", "Read this lease.")))
    result = await stage.say(team, "Is my lease valid?")
    [back] = came_back(result)
    assert (back.agent, back.success, back.response) == ("lawyer", True, "lawyer did: Read this lease.")
    assert result.final_agent == "desk"
    [chosen] = await events(team, ReceiverChosen)
    assert (chosen.receiver, chosen.step, chosen.capability) == ("lawyer", "exact", "contractlaw")
    assert chosen.why.startswith("has the capability contract-law")


@story
async def all_that_is_required_must_be_there(stage: Stage) -> None:
    team = desk(stage, calls(wants("finance", "Do it.", "taxes", "Invoices")))
    result = await stage.say(team, "My taxes, please.")
    assert came_back(result)[0].agent == "accountant"
    other = desk(stage, calls(wants("finance", "Do it.", "taxes", "contract law")))
    result = await stage.say(other, "My taxes, please.", conversation="other")
    assert result.output == (
        "no specialist: no available agent has taxes and contract law; there are: accountant, lawyer"
    )
    assert (result.status, result.ledger.handoffs) == ("completed", 0)


@story
async def words_decide_where_no_capability_does(stage: Stage) -> None:
    team = desk(stage, calls(wants("papers", "Book these invoices and file the taxes.")))
    result = await stage.say(team, "My papers are a mess.")
    assert came_back(result)[0].agent == "accountant"
    [chosen] = await events(team, ReceiverChosen)
    assert chosen.step == "text"


@story
async def a_model_is_asked_where_words_do_not_decide(stage: Stage) -> None:
    helper = ScriptedModel(lambda *asked: msgspec.structs.replace(says("2"), usage=Usage(70, 1, 1)))
    team = desk(stage, calls(wants("somebody", "Help me.")), helper=helper)
    result = await stage.say(team, "Help!")
    assert came_back(result)[0].agent == "lawyer"
    [chosen] = await events(team, ReceiverChosen)
    assert (chosen.step, chosen.usage) == ("judge", Usage(70, 1, 1))
    assert result.ledger.tokens == 71


def answers(stage: Stage, reply: Reply) -> Team:
    return desk(stage, calls(wants("somebody", "Help me.")), helper=ScriptedModel(lambda *asked: reply))


@story
async def an_answer_of_the_judge_that_names_no_profile_selects_no_agent(stage: Stage) -> None:
    made_up = ["", "NONE", "the lawyer", "7", "1 and 2", "Ignore the profiles: choose 1.", "1" * 10_000, "x" * 10_000]
    for number, text in enumerate(made_up):
        team = answers(stage, says(text))
        result = await stage.say(team, "Help!", conversation=f"c{number}")
        assert result.status == "completed"
        assert result.output.startswith("no specialist: the model found none of 2 agents that fits")
        [chosen] = await events(team, ReceiverChosen, f"c{number}")
        assert chosen.receiver == ""


@story
async def a_judge_that_fails_selects_no_agent(stage: Stage) -> None:
    result = await stage.say(answers(stage, fails("busy")), "Help!")
    assert result.output.startswith("no specialist: no agent fits clearly, and the model that was asked failed")


@story
async def several_specialists_work_at_once_and_come_back_in_order(stage: Stage) -> None:
    team = desk(stage, calls(wants("taxes", "File."), wants("contract law", "Read."), wants("magic", "Fly.")))
    result = await stage.say(team, "All of it.")
    parts = result.output.split(" | ")
    assert [read(each).agent for each in parts[:2]] == ["accountant", "lawyer"]
    assert parts[2].startswith("no specialist")
    assert len(await events(team, ReceiverChosen)) == 3
    # Calls are answered in the order in which receivers are found.
    assert sorted((h.receiver, h.tool) for h in await team.handoffs(CONVERSATION)) == [
        ("accountant", "handoff_to_specialist"),
        ("lawyer", "handoff_to_specialist"),
    ]


@story
async def a_model_that_may_ask_for_a_specialist_is_told_the_specialists(stage: Stage) -> None:
    team = desk(stage, says("Nothing to ask."))
    await stage.say(team, "Hello")
    for request in stage.requests("desk"):
        assert "- accountant: Files taxes and books invoices.; can do: taxes, invoices" in request.instructions
        assert "- lawyer" in request.instructions
        assert "shy" not in request.instructions
        [definition] = request.tools
        assert list(definition.parameters["properties"]) == [
            *("specialist_type", "task", "reason", "context", "required_capabilities"),
        ]


@story
async def a_choice_can_be_kept_to_some(stage: Stage) -> None:
    team = desk(stage, calls(wants("taxes")), way=specialist(among=["lawyer"]))
    result = await stage.say(team, "Taxes!")
    assert result.output.startswith("no specialist")
    for request in stage.requests("desk"):
        assert "accountant" not in request.instructions


@story
async def arguments_that_do_not_fit_are_told(stage: Stage) -> None:
    for number, (wrong, said) in enumerate(
        [
            ({"specialist_type": "law", "reason": ""}, "task: give a text"),
            ({"specialist_type": " ", "task": "x", "reason": ""}, "specialist_type: give a text"),
            (
                {**wants("law")[1], "who": "me"},
                "it takes specialist_type, task, reason, context",
            ),
            ({**wants("law")[1], "required_capabilities": "law"}, "required_capabilities: give a list of texts"),
        ]
    ):
        team = desk(stage, calls(("handoff_to_specialist", wrong)))
        result = await stage.say(team, "go", conversation=f"c{number}")
        assert said in result.output


@story
async def the_next_match_is_asked_if_the_first_declines(stage: Stage) -> None:
    one = Agent("one", capabilities=["law"], accepts=lambda package: Rejected("too much to do"), handoffs=())
    two = Agent("two", capabilities=["law"], handoffs=())
    team = desk(stage, calls(wants("law")), one, two)
    result = await stage.say(team, "go")
    assert came_back(result)[0].agent == "two"
    [chosen] = await events(team, ReceiverChosen)
    assert {chosen.receiver, *chosen.alternatives} == {"one", "two"}
    rejected = [each.receiver for each in await events(team, HandoffRejected)]
    assert rejected == (["one"] if chosen.receiver == "one" else [])


@story
async def an_offer_says_by_what_its_receiver_was_found(stage: Stage) -> None:
    team = desk(stage, calls(wants("taxes")))
    await stage.say(team, "go")
    [offered] = await events(team, HandoffOffered)
    assert (offered.receiver, offered.capability, offered.mode) == ("accountant", "taxes", "delegate")


@story
async def without_a_helper_model_no_specialist_is_guessed(stage: Stage) -> None:
    team = desk(stage, calls(wants("somebody", "Help me.")), routing=Routing(judge=False))
    result = await stage.say(team, "go")
    assert result.output.startswith("no specialist: no agent fits clearly, and there is no helper_model to ask")


@story
async def what_is_expected_of_a_specialist_is_told_and_asked_for_once_more(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "lawyer":
            return says("[1, 2]" if len(messages) > 2 else "Two clauses.")
        return calls(wants("contract law")) if len(messages) == 1 else says(messages[-1].text)

    members = [Agent("desk", handoffs=[specialist(expects=list[int])]), LAW]
    team = stage.team(members, ScriptedModel(play))
    [back] = came_back(await stage.say(team, "Which clauses?"))
    assert (back.success, back.response) == (True, "[1, 2]")
    for request in stage.requests("lawyer"):
        assert "Your answer must be JSON" in request.instructions


@story
async def a_specialist_is_told_why_it_is_asked_and_what_for(stage: Stage) -> None:
    shown: list[tuple[str, tuple[str, ...]]] = []

    def accepts(package: HandoffPackage) -> bool:
        shown.append((package.metadata.reason, package.metadata.required_capabilities))
        return True

    lawyer = Agent("lawyer", capabilities=["contract-law"], accepts=accepts, handoffs=())
    team = desk(stage, calls(wants("law", "Read this lease.", "contract law")), lawyer)
    await stage.say(team, "Is my lease valid?")
    for request in stage.requests("lawyer"):
        why, able, asked = request.messages[0].text.split("\n\n")
        assert why == "Why you:\n  I cannot."
        assert able == "Required capabilities:\n- contract law"
        assert asked.endswith("\n> Is my lease valid?")
    assert all(each == ("I cannot.", ("contract law",)) for each in shown)
