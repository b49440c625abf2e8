"""`Agent(output=Verdict)`: the answer is a Verdict, for the type checker too; the log keeps JSON.

An agent is generic in its output (`Agent[str]` without one), a team in the outputs of its agents, and `run` gives a
`RunResult` of that. `result.text` is the answer as it was written.
"""

from dataclasses import dataclass
from typing import Any, assert_type

import pytest
from pydantic import BaseModel

from changeover import Agent, Command, Function, Member, RunContext, RunResult, Send, Team, delegate
from changeover.protocol import HandoffPackage, Metadata, Task
from changeover.stream import RunFinished
from changeover.testing import ScriptedModel, delegates, hands_off, says
from tests.public_api import recorded

JSON = '{"guilty": true, "years": 3}'


class Verdict(BaseModel):
    guilty: bool
    years: int


@dataclass(frozen=True)
class Plain:
    guilty: bool
    years: int


VERDICT = Verdict(guilty=True, years=3)
SCRIPT = {"judge": [says(JSON), says(JSON)], "clerk": [hands_off("judge", "decide")]}


def court(store: str | None = None) -> Team:
    members = [Agent("clerk", handoffs=["judge"]), Agent("judge", output=Verdict, handoffs=())]
    return Team(members, model=ScriptedModel(SCRIPT), store=store)


async def test_the_answer_of_an_agent_is_what_it_declares():
    result: Any = await Team([Agent("judge", output=Verdict)], model=ScriptedModel(SCRIPT)).run("guilty?")
    assert (result.output, result.text) == (VERDICT, JSON)


@pytest.mark.parametrize(("kind", "answer"), [(Plain, Plain(True, 3)), (dict, {"guilty": True, "years": 3})])
async def test_other_types_than_pydantic_models_will_do(kind: Any, answer: object):
    result: Any = await Team([Agent("judge", output=kind)], model=ScriptedModel(SCRIPT)).run("guilty?")
    assert result.output == answer


async def test_the_answer_is_typed_through_a_transfer_and_after_a_restart(shared_store: str):
    async with court(shared_store) as team:
        first: Any = await team.run("guilty?", conversation="story", key="once")
    async with court(shared_store) as team:
        again: Any = await team.run("guilty?", conversation="story", key="once")
        resumed: Any = await team.resume("story")
    assert first.output == again.output == resumed.output == VERDICT


async def test_the_answer_is_typed_through_a_final_delegate():
    script = {"boss": [delegates("judge", "decide")], "judge": [says(JSON)]}
    members = [Agent("boss", handoffs=[delegate("judge", final=True)]), Agent("judge", output=Verdict)]
    result: Any = await Team(members, model=ScriptedModel(script)).run("guilty?")
    assert result.output == VERDICT


async def test_what_code_offered_comes_back_typed():
    package = HandoffPackage(Task("decide"), metadata=Metadata(receiver="judge"))
    result: Any = await court().offer(package)
    assert (result.output, result.result) == (VERDICT, JSON)


async def test_a_function_member_reads_typed_answers_of_its_branches():
    def gathers(ctx: RunContext) -> Any:
        if not ctx.returned:
            return Command(goto=[Send("judge", task="decide")])
        back: Any = ctx.returned[0]
        return str(back.output.years)

    members: list[Member] = [Function("first", gathers), Agent("judge", output=Verdict)]
    assert (await Team(members, model=ScriptedModel(SCRIPT)).run("guilty?")).output == "3"


async def test_a_response_is_typed_by_the_agent_that_gave_it():
    def gathers(ctx: RunContext) -> Any:
        if not ctx.returned:
            return Command(goto=[Send("clerk", task="decide")])
        [back] = ctx.returned
        return f"{back.agent} asked {back.author}: {back.output.years}"

    members: list[Member] = [
        Function("first", gathers),
        Agent("clerk", handoffs=["judge"]),
        Agent("judge", output=Verdict, handoffs=()),
    ]
    result = await Team(members, model=ScriptedModel(SCRIPT)).run("guilty?")
    assert result.output == "clerk asked judge: 3"


async def test_the_result_of_a_ticket_is_typed():
    async with Team([Agent("judge", output=Verdict)], model=ScriptedModel(SCRIPT)) as team:
        ticket = await team.submit(HandoffPackage(Task("decide"), metadata=Metadata(receiver="judge")))
        [claim] = await team.claim("judge")
        await claim.complete(JSON)
        result = await team.result(ticket)
    assert (result.output, result.result) == (VERDICT, JSON)


async def test_an_answer_that_does_not_fit_is_a_text():
    """A worker of another program is not bound by the type, and a run that waits has no answer yet."""
    async with Team([Agent("judge", output=Verdict, pull=True)]) as team:
        waiting: Any = await team.run("guilty?", conversation="story")
        [claim] = await team.claim("judge")
        await claim.complete("Ask somebody else.")
        result: Any = await team.resume("story")
    assert (waiting.status, waiting.output, waiting.text) == ("waiting", "", "")
    assert (result.output, result.text) == ("Ask somebody else.", "Ask somebody else.")


async def test_a_stream_ends_with_the_typed_answer():
    [finished] = [item async for item in court().stream("guilty?") if isinstance(item, RunFinished)]
    result: Any = finished.result
    assert result.output == VERDICT


async def test_the_log_keeps_json():
    async with court() as team:
        await team.run("guilty?", conversation="story")
        assert (await recorded(team, "ModelReplied"))[-1].text == JSON


async def test_an_agent_without_an_output_answers_in_words():
    result = await Team([Agent("desk")], model=ScriptedModel({"desk": [says("Hello.")]})).run("hello")
    assert result.output == "Hello."


async def test_the_types_are_known_to_a_type_checker():
    """`make check` reads the assertions; here they only have to be executable."""
    generic: Any = RunResult
    assert generic[Verdict] is not None
    team = Team([Agent("judge", output=Verdict)], model=ScriptedModel(SCRIPT))
    result = await team.run("guilty?")
    assert_type(result, RunResult[Verdict])
    assert_type(result.output, Verdict)
