"""Stories of conversations: the active agent, concurrent messages, repeated keys."""

import asyncio
from collections.abc import Sequence

from changeover import Agent, MessageOnly, Team, handoff
from changeover.errors import ConversationNotFound, ModelError, UnknownAgentError
from changeover.messages import Message, User
from changeover.relay.events import Renamed, RunStarted, UserSpoke
from changeover.relay.ports.lists import ConversationRow
from changeover.testing import Reply, ScriptedModel, calls, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.scripts import recites, texts
from tests.stories.stage import CONVERSATION, Stage, events, story


async def heard(team: Team, messages: int) -> None:
    """Return when this many messages of users are on record."""
    for _ in range(2_000):
        if await known(team, CONVERSATION) and len(await events(team, UserSpoke)) >= messages:
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"fewer than {messages} messages were recorded")


async def known(team: Team, conversation: str) -> bool:
    """Whether anything is on record under this id."""
    try:
        return bool(await team.history(conversation))
    except ConversationNotFound:
        return False


@story
async def the_next_message_goes_to_the_active_agent(stage: Stage) -> None:
    model = ScriptedModel({"triage": [hands_off("billing", "refund")], "billing": [says("Done."), says("Bye.")]})
    team = stage.team([Agent("triage"), Agent("billing")], model)
    assert (await stage.say(team, "charged twice")).final_agent == "billing"
    second = await stage.say(team, "thanks")
    assert (second.output, second.final_agent, second.handoff_chain) == ("Bye.", "billing", [])
    assert [started.agent for started in await events(team, RunStarted)] == ["triage", "billing"]


@story
async def the_conversation_begins_with_the_first_agent_or_with_start(stage: Stage) -> None:
    script = {"triage": [says("Triage.")], "billing": [says("Billing.")]}
    members = [Agent("triage"), Agent("billing")]
    first, other = (
        stage.team(members, ScriptedModel(script)),
        stage.team(members, ScriptedModel(script), start="billing"),
    )
    assert (await stage.say(first, "hello")).output == "Triage."
    assert (await stage.say(other, "hello", conversation="other")).output == "Billing."


@story
async def an_agent_that_is_named_answers(stage: Stage) -> None:
    model = ScriptedModel({"triage": [says("One.")], "billing": [says("Two."), says("Three.")]})
    team = stage.team([Agent("triage"), Agent("billing")], model)
    answers = [await stage.say(team, "hello", agent=agent) for agent in (None, "billing", None)]
    assert [answer.output for answer in answers] == ["One.", "Two.", "Three."]
    assert answers[1].handoff_chain == []  # the user addressed the agent, so there is no handoff
    assert "_handoff_from" not in answers[2].context


@story
async def a_handoff_may_name_the_agent_of_the_next_message(stage: Stage) -> None:
    way = handoff("billing", return_to="triage")
    model = ScriptedModel(
        {"triage": [hands_off("billing", "refund"), says("Anything else?")], "billing": [says("Done.")]}
    )
    team = stage.team([Agent("triage", handoffs=[way]), Agent("billing")], model)
    first, second = await stage.say(team, "charged twice"), await stage.say(team, "thanks")
    assert (first.final_agent, second.final_agent) == ("billing", "triage")
    assert second.output == "Anything else?"
    assert (await events(team, RunStarted))[1].agent == "triage"


@story
async def returning_holds_for_one_message_and_gives_way_to_a_name(stage: Stage) -> None:
    way = handoff("billing", return_to="triage")
    model = ScriptedModel(
        {
            "triage": [hands_off("billing", "1"), hands_off("billing", "2"), says("Triage.")],
            "billing": [says("One."), says("Two."), says("Three."), says("Four.")],
        }
    )
    team = stage.team([Agent("triage", handoffs=[way]), Agent("billing")], model)
    answers = [
        await stage.say(team, "charged twice"),
        await stage.say(team, "again"),
        await stage.say(team, "you there", agent="billing"),
        await stage.say(team, "and you"),
        await stage.say(team, "bye", agent="triage"),
    ]
    assert [answer.output for answer in answers] == ["One.", "Two.", "Three.", "Four.", "Triage."]


@story
async def an_unknown_agent_is_refused_before_anything_is_recorded(stage: Stage) -> None:
    model = ScriptedModel({"triage": [says("Hello."), says("Again.")]})
    team = stage.team([Agent("triage"), Agent("billing")], model)
    error = await stage.error(UnknownAgentError, team, "hello", agent="sales", conversation="new")
    assert (error.agent, error.available) == ("sales", ("triage", "billing"))
    assert str(error) == "no agent is called 'sales'; this team has: billing, triage"
    assert not await known(team, "new")
    await stage.say(team, "hello")
    await stage.error(UnknownAgentError, team, "hello", agent="sales")
    assert (await stage.say(team, "hello again")).output == "Again."
    assert [spoken.text for spoken in await events(team, UserSpoke)] == ["hello", "hello again"]


@story
async def a_user_speaks_while_a_model_thinks(stage: Stage) -> None:
    both = asyncio.Event()

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        await both.wait()
        return says(f"You said: {', '.join(texts([m for m in messages if isinstance(m, User)]))}")

    team = stage.team([Agent("solo")], ScriptedModel(play))
    first = asyncio.create_task(stage.say(team, "one"))
    await heard(team, 1)
    second = asyncio.create_task(stage.say(team, "two"))
    await heard(team, 2)
    both.set()
    answers = [await first, await second]
    # What was said meanwhile waited: a thread that a model reads is not touched.
    assert [answer.output for answer in answers] == ["You said: one", "You said: one, two"]
    assert len({answer.run_id for answer in answers}) == 2


@story
async def a_user_speaks_while_a_handoff_is_under_way(stage: Stage) -> None:
    spoke = asyncio.Event()

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        said = [message.text for message in messages if isinstance(message, User)]
        if agent == "triage":
            await spoke.wait()
            return hands_off("billing", said[-1])
        return says(f"Answer to {said[-1]}.")

    team = stage.team([Agent("triage"), Agent("billing", strategy=MessageOnly())], ScriptedModel(play))
    first = asyncio.create_task(stage.say(team, "one"))
    await heard(team, 1)
    second = asyncio.create_task(stage.say(team, "two"))
    await heard(team, 2)
    spoke.set()
    answers = [await first, await second]
    assert [(answer.output, answer.final_agent) for answer in answers] == [
        ("Answer to one.", "billing"),
        ("Answer to two.", "billing"),
    ]
    assert [len(answer.handoff_chain) for answer in answers] == [1, 0]


@story
async def many_messages_at_once_get_each_their_own_answer(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return says(f"Answer to {messages[-1].text}.")

    team = stage.team([Agent("solo")], ScriptedModel(play))
    answers = await asyncio.gather(*(stage.say(team, f"{number}") for number in range(20)))
    assert [answer.output for answer in answers] == [f"Answer to {number}." for number in range(20)]


@story
async def the_same_key_is_said_once(stage: Stage) -> None:
    model = ScriptedModel({"solo": [says("One."), says("Two.")]})
    team = stage.team([Agent("solo")], model)
    answers = [await stage.say(team, "hello", key="order-17") for _ in range(3)]
    answers += await asyncio.gather(*(stage.say(team, "hello", key="order-18") for _ in range(3)))
    assert [answer.output for answer in answers] == ["One."] * 3 + ["Two."] * 3
    assert len({answer.run_id for answer in answers}) == 2
    assert len(await events(team, UserSpoke)) == 2


@story
async def the_same_key_gives_the_same_error(stage: Stage) -> None:
    model = ScriptedModel({"triage": [hands_off("billing", "x")], "billing": []})
    team = stage.team([Agent("triage"), Agent("billing")], model)
    first, second = [await stage.error(ModelError, team, "hello", key="k") for _ in range(2)]
    assert str(first) == str(second)
    assert first.result == second.result


@story
async def a_key_may_look_like_anything(stage: Stage) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return calls(("look", {})) if isinstance(messages[-1], User) else says(f"Answer {len(messages)}.")

    team = stage.team([Agent("solo", tools=[look])], ScriptedModel(play))
    keys = ["1", "2", "3", "3.0", "4", "5", "said@1", "resume@6", "3.0:begun", "7.0", "8"]
    async with asyncio.timeout(5):
        answers = [await stage.say(team, "hello", key=key) for key in keys]
    assert len({answer.run_id for answer in answers}) == len(keys)
    assert len(await events(team, UserSpoke)) == len(keys)


@story
async def conversations_do_not_know_of_each_other(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        last = messages[-1]
        return hands_off("billing", "x") if agent == "triage" else says(f"{texts(messages)[0]} {last.author}")

    team = stage.team([Agent("triage"), Agent("billing")], ScriptedModel(play))
    answers = await asyncio.gather(
        *(stage.say(team, f"hello from {id}", conversation=id, context={"id": id}) for id in ("one", "two", "three"))
    )
    assert [(answer.conversation_id, answer.output) for answer in answers] == [
        (id, f"hello from {id} handoff") for id in ("one", "two", "three")
    ]
    assert [answer.context["id"] for answer in answers] == ["one", "two", "three"]


@story
async def every_message_of_a_user_has_that_users_name(stage: Stage) -> None:
    team = stage.team([Agent("solo")], ScriptedModel(recites))
    await stage.say(team, "hello", user="ana")
    result = await stage.say(team, "hello", user="ben")
    assert "User(text='hello', author='ana'" in result.output
    assert "User(text='hello', author='ben'" in result.output


@story
async def the_whole_conversation_is_read_in_every_run(stage: Stage) -> None:
    model = ScriptedModel({"solo": [says("One."), says("Two."), says("Three.")]})
    team = stage.team([Agent("solo")], model)
    answers = [(await stage.say(team, text)).output for text in ("1", "2", "3")]
    assert answers == ["One.", "Two.", "Three."]
    expected = ["1", "One.", "2", "Two.", "3"]
    for request in stage.requests("solo"):
        read = texts(request.messages)
        assert read == expected[: len(read)]
    assert [record.conversation for record in await team.history(CONVERSATION)][-1] == CONVERSATION


@story
async def a_conversation_is_named_after_its_first_message_until_somebody_renames_it(stage: Stage) -> None:
    model = ScriptedModel({"triage": [hands_off("billing", "refund")], "billing": [says("Done."), says("Bye.")]})
    team = stage.team([Agent("triage"), Agent("billing")], model)
    await stage.say(team, "I was\ncharged twice", user="ada")
    row = await team.log.lists.one(ConversationRow, CONVERSATION)
    assert row is not None
    assert (row.user, row.title) == ("ada", "I was charged twice") or stage.lives > 1
    await team.rename(CONVERSATION, "Money  back", by="bob")
    await stage.say(team, "thanks", user="bob")
    row = await team.log.lists.one(ConversationRow, CONVERSATION)
    assert row is not None
    assert (row.user, row.title, row.status) == ("ada", "Money back", "completed")
    assert set(await events(team, Renamed)) == {Renamed("Money back", "bob")}
