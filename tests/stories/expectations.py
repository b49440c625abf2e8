"""Stories of expectations: a result is checked, corrected once, or the handoff fails."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel

from changeover import Agent, Command, Function, Person, Respond, RunContext, RunResult, Team, delegate, handoff
from changeover.agent.agent import Member
from changeover.errors import ExpectationError
from changeover.messages import Message, Note
from changeover.protocol import Expectations, Expects, State
from changeover.relay.events import RepairAsked, ResultJudged
from changeover.testing import ManualClock, Reply, delegates, hands_off, says
from tests.stories.answers import chain, tells, triage, tries
from tests.stories.approvals import decided, same_store, settled
from tests.stories.cancellation import Hold, assert_at_rest
from tests.stories.delegates import Says, asks, boss, came_back, cast
from tests.stories.lateness import a_minute, slow
from tests.stories.offers import MODES, package, refused
from tests.stories.stage import CONVERSATION, Stage, events, story

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
GOOD, BAD = '{"n": 3}', "about three"


class Count(BaseModel):
    """How many there are."""

    n: int


def asked_to_mend(messages: Sequence[Message]) -> list[str]:
    """What an agent was told of its answers that did not fit."""
    return [each.text for each in messages if isinstance(each, Note) and each.author == "changeover"]


def answers(*texts: str) -> Says:
    """Give the first answer, and after each word that it does not fit the next; the last is given again and again."""
    return lambda messages: says(texts[min(len(asked_to_mend(messages)), len(texts) - 1)])


def shop(stage: Stage, expects: Any, clerk: Any, *more: Member, **parts: Any) -> Team:
    """Triage hands over to a clerk with these expectations, however often it fails."""
    model = cast(triage=tries(hands_off("clerk", "count")), clerk=clerk, **parts)
    members = [triage(handoff("clerk", expects=expects)), *(more or (Agent("clerk", handoffs=()),))]
    return stage.team(members, model, guards=())


def works(stage: Stage, expects: Any, clerk: Any, *more: Member, **parts: Any) -> Team:
    """The boss gives a clerk a task, and expects this of the result, however often it fails."""
    model = cast(boss=asks(delegates("clerk", "count")), clerk=clerk, **parts)
    way = delegate("clerk", expects=expects)
    return stage.team([boss(way), *(more or (Agent("clerk", handoffs=()),))], model, guards=())


async def judgements(team: Team) -> tuple[list[bool], int]:
    """Whether each checked answer fitted, and how often a correction was asked for."""
    fitted = [not each.problem for each in await events(team, ResultJudged)]
    return fitted, len(await events(team, RepairAsked))


FORMS: dict[str, tuple[Any, str, str]] = {
    "schema": (NUMBER, GOOD, BAD),
    "model": (Count, GOOD, '{"n": "many"}'),
    "type": (int, "3", BAD),
    "list": (list[int], "[1, 2]", "[1, two]"),
    "expects": (Expects(output=Count), GOOD, "{}"),
}
"""What may be expected, an answer that fits it, and one that does not."""


@story
async def an_answer_that_fits_is_the_answer(stage: Stage) -> None:
    for name, (expects, good, _) in FORMS.items():
        team = shop(stage, expects, says(good))
        result = await stage.say(team, "how many?", conversation=name)
        assert (result.output, result.final_agent, chain(result)) == (good, "clerk", [("clerk", "COMPLETE", 1)])
        assert [each.problem for each in await events(team, ResultJudged, name)] == [""]
        assert (await events(team, RepairAsked, name), result.ledger.turns) == ([], 2)


@story
async def an_answer_that_does_not_fit_is_mended(stage: Stage) -> None:
    for name, (expects, good, bad) in FORMS.items():
        team = shop(stage, expects, answers(bad, good))
        result = await stage.say(team, "how many?", conversation=name)
        assert (result.output, chain(result), result.ledger.turns) == (good, [("clerk", "COMPLETE", 1)], 3)
        first, second = await events(team, ResultJudged, name)
        [asked] = await events(team, RepairAsked, name)
        assert first.problem == asked.problem != ""
        assert second.problem == ""


@story
async def an_agent_that_has_to_correct_its_answer_reads_what_is_wrong(stage: Stage) -> None:
    def clerk(messages: Sequence[Message]) -> Reply:
        told = asked_to_mend(messages)
        return says(f'{{"n": {len(told)}, "what": "{told[0].partition(":")[0]}"}}' if told else BAD)

    result = await stage.say(shop(stage, NUMBER, clerk), "how many?")
    assert result.output == '{"n": 1, "what": "the result does not have the expected form"}'


@story
async def an_answer_that_never_fits_fails_the_handoff(stage: Stage) -> None:
    for name, (expects, _, bad) in FORMS.items():
        team = shop(stage, expects, answers(bad))
        error = await stage.error(ExpectationError, team, "how many?", conversation=name)
        assert (error.agent, bool(error.reason)) == ("clerk", True)
        assert error.result is not None
        assert (chain(error.result), error.result.status) == ([("clerk", "FAILED", 1)], "failed")
        assert len(await events(team, ResultJudged, name)) == 2
        assert len(await events(team, RepairAsked, name)) == 1


@story
async def a_failed_agent_may_try_again_when_the_run_is_resumed(stage: Stage) -> None:
    well: list[bool] = []

    def clerk(messages: Sequence[Message]) -> Reply:
        return says(GOOD if well else BAD)

    team = shop(stage, NUMBER, clerk)
    try:
        result = await stage.say(team, "how many?")
    except ExpectationError:
        well.append(True)
        result = await team.resume(CONVERSATION)
    assert well or stage.lives > 1
    stage.outcomes[1] = result
    assert (result.output, chain(result)) == (GOOD, [("clerk", "COMPLETE", 1)])


@story
async def what_a_delegate_brings_back_is_held_against_what_is_expected(stage: Stage) -> None:
    for name, (expects, good, bad) in FORMS.items():
        for clerk, judged in ((says(good), [True]), (answers(bad, good), [False, True])):
            where = f"{name}-{len(judged)}"
            team = works(stage, expects, clerk)
            [back] = came_back(await stage.say(team, "how many?", conversation=where))
            assert (back.success, back.response, back.iterations) == (True, good, len(judged))
            assert [not each.problem for each in await events(team, ResultJudged, where)] == judged


@story
async def a_delegate_whose_answer_never_fits_comes_back_without_success(stage: Stage) -> None:
    team = works(stage, NUMBER, says(BAD))
    result = await stage.say(team, "how many?")
    [back] = came_back(result)
    assert (back.success, back.response, back.iterations) == (False, "", 2)
    assert back.error.startswith("the result of 'clerk' is not what was expected: ")
    assert (result.status, result.final_agent, chain(result)) == ("completed", "boss", [("clerk", "FAILED", 1)])
    assert await judgements(team) == ([False, False], 1)


@story
async def an_agent_is_told_the_form_that_its_answer_must_have(stage: Stage) -> None:
    wanted = Expects(output=NUMBER, criteria=["It is exact.", lambda count: True])
    await stage.say(shop(stage, wanted, says(GOOD)), "how many?")
    await stage.say(works(stage, wanted, says(GOOD)), "how many?", conversation="other")
    for request in stage.requests("clerk"):
        for line in ("must be JSON", '"integer"', "- It is exact.", "- a check by the sender"):
            assert line in request.instructions
    for request in [*stage.requests("triage"), *stage.requests("boss")]:
        assert "must be JSON" not in request.instructions


@story
async def criteria_in_words_are_for_the_receiver_alone(stage: Stage) -> None:
    team = shop(stage, Expects(criteria=["It rhymes."]), says(BAD))
    assert (await stage.say(team, "how many?")).output == BAD
    assert await judgements(team) == ([True], 0)


def whole(count: Count) -> bool:
    """There are more than two."""
    return count.n > 2


async def whole_later(count: Count) -> bool:
    """There are more than two."""
    await asyncio.sleep(0)
    return count.n > 2


def says_why(count: Count) -> str:
    return "" if count.n > 2 else f"{count.n} is too few"


def breaks(count: Count) -> bool:
    if count.n > 2:
        return True
    raise LookupError("no such shelf")


async def breaks_later(count: Count) -> bool:
    await asyncio.sleep(0)
    return breaks(count)


CRITERIA: dict[str, tuple[Callable[[Any], Any], str]] = {
    "sync": (whole, "There are more than two."),
    "async": (whole_later, "There are more than two."),
    "words": (says_why, "1 is too few"),
    "raising": (breaks, "LookupError: no such shelf"),
    "raising-later": (breaks_later, "LookupError: no such shelf"),
}


@story
async def a_criterion_that_is_a_function_judges_what_the_answer_says(stage: Stage) -> None:
    for name, (criterion, why) in CRITERIA.items():
        wanted = Expects(output=Count, criteria=["It is exact.", criterion])
        team = shop(stage, wanted, answers('{"n": 1}', GOOD))
        result = await stage.say(team, "how many?", conversation=name)
        assert (result.output, chain(result)) == (GOOD, [("clerk", "COMPLETE", 1)])
        [asked] = await events(team, RepairAsked, name)
        assert why in asked.problem


@story
async def an_answer_that_fails_a_criterion_fails_the_handoff(stage: Stage) -> None:
    for name, (criterion, why) in CRITERIA.items():
        wanted = Expects(output=Count, criteria=[criterion])
        error = await stage.error(
            *(ExpectationError, shop(stage, wanted, says('{"n": 1}')), "how many?"), conversation=name
        )
        assert why in error.reason
        [back] = came_back(
            await stage.say(works(stage, wanted, says('{"n": 1}')), "how many?", conversation=f"{name}-delegate")
        )
        assert (back.success, why in back.error) == (False, True)


@story
async def a_criterion_without_a_form_judges_the_text(stage: Stage) -> None:
    team = shop(stage, Expects(criteria=[lambda text: "three" in text]), answers("a few", BAD))
    assert (await stage.say(team, "how many?")).output == BAD
    assert await judgements(team) == ([False, True], 1)


@story
async def what_does_not_have_the_form_is_not_judged_by_functions(stage: Stage) -> None:
    def judge(count: Count) -> bool:
        stage.effects.append(f"judged {count.n}")
        return True

    team = shop(stage, Expects(output=Count, criteria=[judge]), answers(BAD, GOOD))
    await stage.say(team, "how many?")
    assert stage.did == ["judged 3"]


@story
async def the_time_that_is_expected_is_the_time_a_delegate_has(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    way = delegate("clerk", expects=Expects(output=Count, timeout=60))
    model = cast(boss=tries(delegates("clerk", "count")), clerk=slow(hold))
    team = stage.team([boss(way), Agent("clerk", handoffs=())], model, clock=clock)
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "go"))
        await a_minute(saying, clock, hold)
    [back] = came_back(saying.result())
    assert (back.agent, back.success) == ("clerk", False)


@story
async def an_agent_that_a_delegate_hands_on_to_has_to_answer_as_expected(stage: Stage) -> None:
    members = [Agent("clerk", handoffs=["expert"]), Agent("expert", handoffs=())]
    on = hands_off("expert", "count, please")
    for name, expert, success in (("mends", answers(BAD, GOOD), True), ("fails", says(BAD), False)):
        team = works(stage, NUMBER, on, *members, expert=expert)
        [back] = came_back(await stage.say(team, "how many?", conversation=name))
        assert (back.agent, back.success, back.response) == ("clerk", success, GOOD if success else "")
        assert [not each.problem for each in await events(team, ResultJudged, name)] == [False, success]
        if not success:
            assert "result of 'expert'" in back.error


@story
async def of_two_transfers_the_last_says_what_is_expected(stage: Stage) -> None:
    on = hands_off("expert", "count, please")
    free = [Agent("clerk", handoffs=["expert"]), Agent("expert", handoffs=())]
    bound = [Agent("clerk", handoffs=[handoff("expert", expects=list[int])]), Agent("expert", handoffs=())]
    team = shop(stage, NUMBER, on, *free, expert=answers(BAD, GOOD))
    assert (await stage.say(team, "how many?")).output == GOOD, "the last says nothing, so what the first said holds"
    assert await judgements(team) == ([False, True], 1)
    team = shop(stage, NUMBER, on, *bound, expert=answers(GOOD, "[3]"))
    result = await stage.say(team, "how many?", conversation="bound")
    assert (result.output, chain(result)) == ("[3]", [("clerk", "COMPLETE", 1), ("expert", "COMPLETE", 1)])


@story
async def what_was_expected_of_one_answer_is_not_expected_of_the_next(stage: Stage) -> None:
    def clerk(messages: Sequence[Message]) -> Reply:
        return says("You are welcome." if messages[-1].text == "thanks" else GOOD)

    team = shop(stage, NUMBER, clerk)
    await stage.say(team, "how many?")
    thanked = await stage.say(team, "thanks")
    assert (thanked.output, thanked.final_agent) == ("You are welcome.", "clerk")
    assert await judgements(team) == ([True], 0)


def function(stage: Stage, *texts: str) -> Function:
    """A member that answers by these texts, one after the other."""

    def clerk(ctx: RunContext) -> str:
        stage.effects.append(f"counted in {ctx.conversation}")
        return texts[0]

    return Function("clerk", clerk)


@story
async def a_function_is_not_asked_to_mend_its_answer(stage: Stage) -> None:
    for name, text, fits in (("good", GOOD, True), ("bad", BAD, False)):
        team = shop(stage, NUMBER, says(""), function(stage, text))
        if fits:
            assert (await stage.say(team, "how many?", conversation=name)).output == GOOD
        else:
            error = await stage.error(ExpectationError, team, "how many?", conversation=name)
            assert error.agent == "clerk"
        team = works(stage, NUMBER, says(""), function(stage, text))
        [back] = came_back(await stage.say(team, "how many?", conversation=f"{name}-delegate"))
        assert (back.success, back.response) == (fits, GOOD if fits else "")
        assert await events(team, RepairAsked, f"{name}-delegate") == []
    assert stage.did == [f"counted in {where}" for where in ("good", "good-delegate/3.0", "bad", "bad-delegate/3.0")]


@story
async def a_person_who_receives_a_handoff_has_to_answer_as_expected_too(stage: Stage) -> None:
    model = cast(triage=tries(hands_off("ana", "count")))
    team = stage.team([triage(handoff("ana", expects=NUMBER)), Person("ana")], model)
    result = await decided(stage, team, Respond(GOOD), "how many?")
    assert (result.output, chain(result)) == (GOOD, [("ana", "COMPLETE", 1)])
    assert await judgements(team) == ([True], 0)


@story
async def what_a_person_brings_back_is_held_against_what_is_expected(stage: Stage) -> None:
    model = cast(boss=asks(delegates("ana", "count")))
    team = stage.team([boss(delegate("ana", expects=NUMBER)), Person("ana")], model)
    for text, success in ((GOOD, True), (BAD, False)):
        result = await decided(stage, team, Respond(text), "how many?")
        assert [(back.success, back.response) for back in came_back(result)] == [(success, text)]
    assert await judgements(team) == ([True, False, False], 1)


@story
async def an_agent_that_answers_in_place_of_a_function_is_checked_every_time(stage: Stage) -> None:
    clerk = Function("clerk", lambda ctx: Command(goto="closed"))
    members: list[Member] = [clerk, Agent("closed", accepts_handoffs=False)]
    team = stage.team([triage(handoff("clerk", expects=NUMBER)), *members], cast(triage=hands_off("clerk", "count")))
    for text in ("how many?", "and now?"):
        waiting = await stage.say(team, text, agent="triage")
        result = await settled(stage, team, waiting, lambda request: Respond(GOOD))
        assert (result.status, result.output) == ("completed", GOOD)
    assert await judgements(team) == ([True, True], 0)


@story
async def a_final_delegate_answers_for_the_run_only_if_it_answers_as_expected(stage: Stage) -> None:
    way = delegate("clerk", expects=NUMBER, final=True)
    for name, text in (("good", GOOD), ("bad", BAD)):
        model = cast(boss=asks(delegates("clerk", "count")), clerk=says(text))
        team = stage.team([boss(way), Agent("clerk", handoffs=())], model)
        result = await stage.say(team, "how many?", conversation=name)
        if name == "good":
            assert (result.output, result.final_agent) == (GOOD, "clerk")
        else:
            assert (came_back(result)[0].success, result.final_agent) == (False, "boss")


@story
async def a_person_who_answers_for_the_run_has_to_meet_both_expectations(stage: Stage) -> None:
    model = cast(triage=hands_off("boss", "count"), boss=delegates("ana", "count"))
    way = delegate("ana", expects=NUMBER, final=True)
    team = stage.team([triage(handoff("boss", expects=NUMBER)), boss(way), Person("ana")], model)
    result = await decided(stage, team, Respond(GOOD), "how many?")
    assert (result.status, result.output, result.final_agent) == ("completed", GOOD, "ana")
    assert await judgements(team) == ([True, True], 0)


async def after_a_change(stage: Stage, before: Any, after: Any, text: str) -> RunResult:
    """What comes of a handoff whose declaration is another one by the time its receiver answers."""
    shared, hold = same_store(stage), Hold()

    async def clerk(messages: Sequence[Message]) -> Reply:
        if stage.lives == 1 and not hold.let_go.is_set():
            await hold.on()
        return says(text)

    model = cast(triage=tries(hands_off("clerk", "count")), clerk=clerk)
    first, second = (
        stage.team([triage(*ways), Agent("clerk", handoffs=())], model, **shared) for ways in (before, after)
    )
    if stage.lives == 1:
        running = asyncio.ensure_future(first.run("how many?", conversation=CONVERSATION, key="say-1"))
        begun = asyncio.ensure_future(hold.begun.wait())
        await asyncio.wait({running, begun}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        await first.close()
        await asyncio.gather(running, return_exceptions=True)
        hold.let_go.set()
    return await stage.say(second, "how many?")


@story
async def a_declaration_that_was_changed_meanwhile_says_what_is_expected(stage: Stage) -> None:
    ways = [handoff("clerk", expects=NUMBER)], [handoff("clerk", expects=Expects(output=int))]
    assert (await after_a_change(stage, *ways, "3")).output == "3"


@story
async def a_declaration_that_is_gone_leaves_behind_what_was_written_down(stage: Stage) -> None:
    judged = Expects(output=NUMBER, criteria=[lambda count: count["n"] > 100])
    result = await after_a_change(stage, [handoff("clerk", expects=judged)], ["clerk"], GOOD)
    assert (result.output, chain(result)) == (GOOD, [("clerk", "COMPLETE", 1)])


@story
async def a_package_says_what_is_expected_of_its_result(stage: Stage) -> None:
    wanted = Expectations(output_schema=NUMBER, success_criteria=("It is exact.",))
    for mode in MODES:
        for name, clerk in (("mends", answers(BAD, GOOD)), ("fails", says(BAD))):
            where = f"{mode}-{name}"
            team = stage.team([Agent("clerk", handoffs=())], cast(clerk=clerk))
            given = package(mode=mode, conversation=where, expectations=wanted)
            if name == "mends":
                assert (await team.offer(given)).result == GOOD
            elif mode == "delegate":
                result = await team.offer(given)
                assert (result.state, result.result) == (State.FAILED, "")
                assert "is not what was expected" in result.error
            else:
                assert "is not what was expected" in await refused(ExpectationError, team, given)
            judged = [not each.problem for each in await events(team, ResultJudged, where)]
            assert judged == [False, name == "mends"]
            if name == "mends":
                await assert_at_rest(team, where)


@story
async def what_others_of_a_turn_bring_back_is_not_lost_when_one_does_not_fit(stage: Stage) -> None:
    turn = asks(delegates("clerk", "count"), delegates("scribe", "write"))
    ways = [delegate("clerk", expects=NUMBER), delegate("scribe")]
    team = stage.team(
        [boss(*ways), Agent("clerk", handoffs=()), Agent("scribe", handoffs=())],
        cast(boss=turn, clerk=says(BAD), scribe=says("Written.")),
    )
    backs = came_back(await stage.say(team, "count and write"))
    assert [(back.agent, back.success) for back in backs] == [("clerk", False), ("scribe", True)]


@story
async def a_receiver_that_hands_back_instead_of_answering_is_not_checked(stage: Stage) -> None:
    def play(messages: Sequence[Message]) -> Reply:
        return tells(messages) if len(messages) > 1 else hands_off("clerk", "count")

    model = cast(triage=play, clerk=hands_off("triage", "I cannot count"))
    team = stage.team([triage("triage", handoff("clerk", expects=NUMBER)), Agent("clerk")], model)
    result = await stage.say(team, "how many?")
    assert (result.final_agent, result.output) == ("triage", "transferred to clerk | transferred to triage")
    assert await judgements(team) == ([], 0)
