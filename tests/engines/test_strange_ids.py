"""Ids that no store can keep, and clocks that tell no time, are refused with an error that says so."""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf, nan
from typing import Any

import pytest

from changeover import Agent, Approve, Team
from changeover.errors import ChangeoverError, MisconfiguredError, StoreUnavailable
from changeover.protocol import HandoffPackage, Metadata, Task
from changeover.testing import ManualClock, ScriptedModel, says

HALF = "half \ud83d"
VERBS: dict[str, Callable[[Team], Awaitable[object]]] = {
    "history": lambda team: team.history(HALF),
    "handoffs": lambda team: team.handoffs(HALF),
    "resume": lambda team: team.resume(HALF),
    "cancel": lambda team: team.cancel(HALF),
    "status": lambda team: team.status(HALF),
    "decide": lambda team: team.decide(f"{HALF}:2:x", Approve()),
    "result": lambda team: team.result(HALF, timeout=0.1),
    "rollback": lambda team: team.rollback(HALF),
    "forget": lambda team: team.forget(HALF),
    "approvals": lambda team: team.approvals(HALF),
    "reset_breaker": lambda team: team.reset_breaker(HALF),
    "force_breaker": lambda team: team.force_breaker(HALF),
    "measure": lambda team: team.measure(HALF, "joy", 1.0),
    "run": lambda team: team.run("hello", conversation=HALF),
    "run for a user": lambda team: team.run("hello", user=HALF),
    "submit": lambda team: team.submit(package(idempotency_key=HALF)),
    "submit for a conversation": lambda team: team.submit(package(conversation=HALF)),
}


def package(**metadata: Any) -> HandoffPackage:
    return HandoffPackage(Task("count"), metadata=Metadata(receiver="desk", **metadata))


def desk(store: str | None = None, **options: Any) -> Team:
    return Team([Agent("desk")], model=ScriptedModel({"desk": [says("Hello.")] * 3}), store=store, **options)


async def refuses(verb: str, store: str | None) -> bool:
    """Whether a verb says to half a character that it cannot be, or that nothing is called so."""
    try:
        async with desk(store) as team:
            said = await VERBS[verb](team)
    except (StoreUnavailable, UnicodeError):
        return False  # not raised: pytest-xdist cannot report half a character
    except ChangeoverError as error:
        return HALF not in str(error)
    return not said


@pytest.mark.parametrize("verb", VERBS)
async def test_half_a_character_in_an_id_is_refused_in_memory(verb: str):
    assert await refuses(verb, None)


@pytest.mark.parametrize("verb", VERBS)
async def test_half_a_character_in_an_id_is_refused_on_a_database(verb: str, shared_store: str):
    assert await refuses(verb, shared_store)


class Clock(ManualClock):
    """A clock that shows this."""

    def __init__(self, shows: float) -> None:
        super().__init__(auto=True)
        self._shows = shows

    def now(self) -> float:
        return self._shows


@pytest.mark.parametrize("shows", [nan, inf, -inf], ids=str)
async def test_a_clock_that_shows_no_time_is_a_fault_of_the_team(shows: float, any_store: str | None):
    team = desk(any_store, clock=Clock(shows))
    try:
        with pytest.raises(MisconfiguredError, match="clock"):
            await team.run("hello")
    finally:
        await team.close()


async def test_ids_of_new_conversations_are_in_the_order_of_time(any_store: str | None):
    team = Team([Agent("a")], model=ScriptedModel({"a": [says("hi")] * 3}), store=any_store)
    ids = []
    for _ in range(3):
        ids.append((await team.run("hello")).conversation_id)
        await asyncio.sleep(0.002)
    await team.close()
    assert ids == sorted(ids)
    assert len({id[-9:] for id in ids}) == 3, "the rest is random"
