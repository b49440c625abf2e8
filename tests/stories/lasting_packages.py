"""Stories of packages that are claimed more than once: every worker is given the same."""

import asyncio
from collections.abc import Sequence
from typing import Any

from changeover import Team, delegate
from changeover.messages import ToolResult
from changeover.protocol import (
    Context,
    Expectations,
    FileReference,
    HandoffPackage,
    Metadata,
    Progress,
    Step,
    Task,
    TicketClaim,
)
from changeover.testing import Reply, calls, delegates
from tests.stories.cancellation import Hold
from tests.stories.delegates import asks, boss, cast
from tests.stories.offers import MODES, office
from tests.stories.service import at_work, open_tickets, pulled
from tests.stories.stage import Stage, story

BRIEF = 0.02
"""A lease that lapses at once."""


def rich(mode: Any, **metadata: Any) -> HandoffPackage:
    """A package that uses every field that a worker reads."""
    known = Context(
        original_request="How many parts are there?",
        summary="The shelf was moved.",
        current_state="half counted",
        key_information=("nuts count twice",),
        constraints=("do not touch the glass",),
        completed_steps=(Step("counted the bolts", "desk", "12"),),
        intermediate_results={"bolts": 12},
        relevant_files=(FileReference("shelf.txt", ("top",)),),
        fallbacks=("estimate",),
        escalation_path=("desk",),
        variables={"shelf": 4},
        artifacts={"list": "file:list"},
        workflow_state=Progress(phase="count"),
    )
    about = Metadata(
        receiver="clerk",
        conversation=mode,
        idempotency_key=mode,
        mode=mode,
        reason="you can count",
        instructions="Count twice.",
        required_capabilities=("counting",),
        priority=10,
        user="ada",
        max_iterations=4,
        correlation_id="c-7",
        extra={"floor": 2},
        **metadata,
    )
    wishes = Expectations(output_schema={"type": "string"}, success_criteria=("a number",), timeout=60.0)
    return HandoffPackage(Task("count the parts", "count", ("be exact",)), known, about, wishes)


def told(claim: TicketClaim) -> dict[str, Any]:
    """What a worker is given, without what tells one claim from another and without what was done meanwhile."""
    package = claim.package.to_dict()
    for name in ("attempt", "timestamp", "estimated_tokens"):
        package["metadata"].pop(name, None)
    package["context"].pop("history", None)
    package["task"].pop("id", None)
    return package


def staff(stage: Stage) -> Team:
    return office(stage, pulled("clerk", capabilities=["counting"]))


@story
async def whoever_takes_what_was_given_back_is_given_the_same_package(stage: Stage) -> None:
    for mode in MODES:
        team = staff(stage)
        await team.submit(rich(mode))
        for first in await stage.claim(team, "clerk", by="first"):
            before = told(first)
            await first.accept()
            await first.give_back("too busy")
            for second in await stage.claim(team, "clerk", by="second"):
                assert told(second) == before


@story
async def whoever_takes_what_lapsed_is_given_the_same_package(stage: Stage) -> None:
    for mode in MODES:
        team = staff(stage)
        await team.submit(rich(mode))
        for first in await stage.claim(team, "clerk", by="first", lease=BRIEF):
            before = told(first)
            await first.accept()
            await asyncio.sleep(2 * BRIEF)
            for second in await stage.claim(team, "clerk", by="second"):
                assert told(second) == before


@story
async def the_original_request_is_the_users_own_words_in_every_claim(stage: Stage) -> None:
    for mode in MODES:
        team = staff(stage)
        await team.submit(rich(mode))
        for claim in await stage.claim(team, "clerk"):
            await claim.accept()
            await claim.give_back()
        for claim in await stage.claim(team, "clerk"):
            assert claim.package.context.original_request == "How many parts are there?"
            await claim.complete("Twelve.")


@story
async def a_task_that_a_model_gave_is_the_same_package_in_every_claim(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count", "on the shelf")))
    team = stage.team([boss(delegate("clerk", instructions="Count twice.")), pulled("clerk")], model)
    await stage.say(team, "how many?", context={"shelf": 4})
    for first in await stage.claim(team, "clerk"):
        before = told(first)
        await first.accept()
        await first.give_back()
        for second in await stage.claim(team, "clerk"):
            assert told(second) == before


def look() -> str:
    """Look at the shelf."""
    return "12 bolts"


@story
async def a_package_also_says_what_was_done_meanwhile(stage: Stage) -> None:
    hold = Hold()

    async def counts(messages: Sequence[Any]) -> Reply:
        if isinstance(messages[-1], ToolResult):
            await hold.on()
        return calls(("look", {}))

    team = office(stage, pulled("clerk", tools=[look], capabilities=["counting"]), clerk=counts)
    ticket = await team.submit(rich("delegate"))
    if await open_tickets(team, ticket.conversation):  # an earlier life may have brought the result
        async with at_work(stage, team, "clerk", grace=0.0):
            await asyncio.wait_for(hold.begun.wait(), 5)
    for claim in await stage.claim(team, "clerk"):
        assert any("12 bolts" in each.text for each in claim.package.context.history)
        assert (claim.package.task.type, claim.package.context.summary) == ("count", "The shelf was moved.")
        await claim.complete("Twelve.")
    assert (await team.result(ticket, timeout=5)).result == "Twelve."
