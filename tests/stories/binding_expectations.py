"""Stories of what is expected of a result: the worker is told, may repair it, and it travels with the task."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from changeover import Agent, Person, Respond, delegate, handoff
from changeover.errors import ChangeoverError, ExpectationError
from changeover.messages import Message
from changeover.protocol import Expects, TicketClaim
from changeover.testing import Reply, delegates, hands_off, says
from tests.public_api import recorded
from tests.stories.answers import tries
from tests.stories.claims import COUNT
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.offers import DONE, MODES, office, package
from tests.stories.service import brought, came, error, pulled, served
from tests.stories.stage import Stage, story

SCHEMA = {"type": "object", "required": ["count"]}
WISHES = Expects(output=SCHEMA, criteria=["it names every part"])
FITS, MISFITS = '{"count": 3}', "three or so"


async def looks_at_expectations(claim: TicketClaim) -> None:
    wanted_of_it = claim.package.expectations
    assert (wanted_of_it.output_schema, wanted_of_it.success_criteria) == (SCHEMA, ("it names every part",))
    await claim.complete(FITS)


@story
async def a_worker_is_told_what_a_model_expects_of_its_delegate(stage: Stage) -> None:
    team = stage.team(
        [boss(delegate("clerk", expects=WISHES)), pulled("clerk")], cast(boss=asks(delegates("clerk", "count")))
    )
    await stage.say(team, "how many?")
    result = await served(stage, team, "how many?", clerk=looks_at_expectations)
    assert came_back(result)[0].success


@story
async def a_worker_is_told_what_a_model_expects_of_a_transfer(stage: Stage) -> None:
    way = handoff("clerk", expects=WISHES)
    team = stage.team(
        [Agent("triage", handoffs=[way]), pulled("clerk")], cast(triage=tries(hands_off("clerk", "count")))
    )
    await stage.say(team, "how many?")
    result = await served(stage, team, "how many?", clerk=looks_at_expectations)
    assert result.output == FITS


@story
async def a_worker_whose_result_does_not_fit_is_told_and_repairs_it_under_the_same_claim(stage: Stage) -> None:
    async def repairs(claim: TicketClaim) -> None:
        await claim.accept()
        if stage.lives == 1:  # an earlier life may have used up the only repair
            told = await error(ExpectationError, claim.complete(MISFITS))
            assert (told.agent, "count" in told.reason) == ("clerk", True)
            await claim.heartbeat()
        await claim.complete(FITS)

    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode, expectations=COUNT))
        assert came(await brought(stage, team, ticket, clerk=repairs)) == ("clerk", DONE[mode], FITS)


@story
async def a_worker_whose_second_result_does_not_fit_is_told_that_the_task_failed(stage: Stage) -> None:
    async def fails_twice(claim: TicketClaim) -> None:
        for _ in range(2):
            told = await error(ChangeoverError, claim.complete(MISFITS))
            assert (
                isinstance(told, ExpectationError) or stage.lives > 1
            )  # the second try of an earlier life may be over

    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode, expectations=COUNT))
        result = await brought(stage, team, ticket, clerk=fails_twice)
        assert (result.state, "not what was expected" in result.error) == ("FAILED", True)


@story
async def a_person_whose_answer_does_not_fit_is_asked_once_more(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, Person("ana"))
        given = package("ana", mode=mode, conversation=mode, expectations=COUNT)
        while (result := await team.offer(given)).requests:
            [request] = result.requests
            answer = FITS if await recorded(team, "RepairAsked", mode) else MISFITS
            await team.decide(request, Respond(answer), by="ana")
        assert (result.result, len(await recorded(team, "RepairAsked", mode))) == (FITS, 1)


@story
async def a_persons_task_fails_after_two_answers_that_do_not_fit(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, Person("ana"))
        given, asked = package("ana", mode=mode, conversation=mode, expectations=COUNT), 0
        with suppress(ExpectationError):  # a transfer that fails is raised, a delegate that fails comes back
            while (result := await team.offer(given)).requests:
                asked += 1
                await team.decide(result.requests[0], Respond(f"{MISFITS} {asked}"), by="ana")
        [handoff] = await team.handoffs(mode)
        assert (handoff.state, asked) == ("FAILED", 2) or stage.lives > 1
        assert len(await recorded(team, "RepairAsked", mode)) == 1


def answers_when_told(messages: Sequence[Message]) -> Reply:
    """Misfit at first, and then what was asked for."""
    return says(FITS if "expected" in messages[-1].text else MISFITS)


@story
async def what_a_transfer_expects_travels_with_the_task(stage: Stage) -> None:
    members = [
        Agent("triage", handoffs=[handoff("clerk", expects=WISHES)]),
        Agent("clerk", handoffs=["deputy"]),
        Agent("deputy", handoffs=()),
    ]
    parts: dict[str, Any] = {"triage": hands_off("clerk", "count"), "clerk": hands_off("deputy", "count")}
    team = stage.team(members, cast(**parts, deputy=answers_when_told))
    result = await stage.say(team, "how many?")
    assert (result.output, result.final_agent) == (FITS, "deputy")
    assert len(await recorded(team, "RepairAsked")) == 1
