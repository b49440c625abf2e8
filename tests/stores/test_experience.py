"""What became of tasks whose receivers were looked for: the same in memory and in every database."""

import asyncio
from collections.abc import Callable
from math import inf

import pytest

from changeover.engines.lessons import reset, standings
from changeover.errors import StoreUnavailable
from changeover.facts import Mode, Share, Usage
from changeover.messages import Call
from changeover.relay.events import (
    Entry,
    Event,
    HandoffAccepted,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    ModelReplied,
    RollbackRequested,
    RunCancelled,
    RunFailed,
)
from changeover.relay.ports.log import Head, Log, Spending
from changeover.relay.ports.tables import Lesson, Unlearned
from changeover.routing.experience import Outcome
from changeover.stores.memory.log import MemoryLog
from changeover.stores.sql.log import SqlLog
from changeover.testing.crash import Died, MortalLog
from tests.relay.projection.samples import FAULT
from tests.stores.conftest import Opened
from tests.stores.entries import DONE, WORKING, answer, delegate, handing_over, more, opening, query
from tests.stores.test_contexts import SERIES
from tests.stores.test_queue_plans import explained

Another = Callable[..., SqlLog]

CALL = "3.0"
FOUND = HandoffReturned(CALL, 2, "billing", success=True, response="found")
BROKEN = HandoffReturned(CALL, 2, "billing", success=False, error="it broke")
LATE = HandoffExpired(CALL, 2, "billing", "it was not done in time")
CALLED_BACK = HandoffReturned(CALL, 2, "billing", success=False, error="cancelled", cancelled=True)
REJECTED = HandoffRejected(CALL, 2, "billing", "too much to do")


async def offered(log: Log, id: str, capability: str = "refund", at: float = 10.0, accepted: bool = True) -> None:
    """Somebody was looked for, and has the task unless it has to be asked first."""
    await log.append(opening(id, at=at - 1), WORKING)
    replied = ModelReplied("front", 2, calls=(Call("x", "handoff_to_specialist", {}),))
    offer = HandoffOffered(CALL, 2, "front", "billing", "yours", mode=Mode.DELEGATE, capability=capability)
    accepts = [HandoffAccepted(CALL, 2, "billing", mode=Mode.DELEGATE)] if accepted else []
    await log.append(Entry(id, id, 3, "2", at, (replied, offer, *accepts)), WORKING)


async def spent(log: Log, id: str, *costs: float | None) -> None:
    """The delegate's conversation is over, in which each agent has spent something."""
    await log.append(delegate(f"{id}/{CALL}", id), WORKING)
    shares = [Share(turns=1, usage=Usage(5, 5, 1, cost)) for cost in costs]
    spending = tuple(Spending(1, f"agent-{number}", 2.0, share) for number, share in enumerate(shares))
    await log.append(more(3, "", f"{id}/{CALL}", id), Head("completed", "billing", False, spent=spending))


async def ended(log: Log, id: str, *events: Event, at: float = 14.0, position: int = 6, cause: str = "end") -> None:
    """What became of it."""
    for number, event in enumerate(events):
        entry = Entry(id, id, position + number, f"{cause}-{number}", at + number, (event,))
        await log.append(entry, DONE if number == len(events) - 1 else WORKING)


def lesson(id: str, success: bool, at: float = 14.0, seconds: float | None = 4.0, cost: float | None = None) -> Lesson:
    return Lesson(f"{id}:{CALL}", at, Outcome("refund", "billing", success, seconds, cost))


@pytest.mark.parametrize(("event", "success"), [(FOUND, True), (BROKEN, False), (LATE, False)], ids=repr)
async def test_a_result_is_a_success_and_a_failure_or_a_delay_is_none(log: Log, event: Event, success: bool):
    await offered(log, "c")
    assert await log.experience.outcomes("refund") == []
    await ended(log, "c", event)
    assert await log.experience.outcomes("refund") == [lesson("c", success)]


@pytest.mark.parametrize(
    "events",
    [
        (REJECTED,),
        (REJECTED, HandoffReturned(CALL, 2, "billing", success=False, declined=True)),
        (CALLED_BACK,),
        (BROKEN, RollbackRequested(CALL)),
        (LATE, RollbackRequested(CALL, "no longer needed")),
        (RunCancelled(1),),
        (RunFailed(1, FAULT),),
    ],
    ids=repr,
)
async def test_what_was_rejected_cancelled_or_rolled_back_is_no_outcome(log: Log, events: tuple[Event, ...]):
    asks_first = isinstance(events[0], HandoffRejected | RunCancelled | RunFailed)
    await offered(log, "c", accepted=not asks_first)
    await ended(log, "c", *events, position=5 if asks_first else 6)
    assert await log.experience.outcomes("refund") == []


async def test_a_success_stays_one_though_somebody_wanted_it_undone(log: Log):
    await offered(log, "c")
    await ended(log, "c", FOUND, RollbackRequested(CALL))
    assert await log.experience.outcomes("refund") == [lesson("c", True)]


async def test_a_transfer_is_a_success_when_the_run_is_completed(log: Log):
    await log.append(opening("c"), WORKING)
    await log.append(handing_over(conversation="c", at=10.0, capability="refund"), WORKING)
    assert await log.experience.outcomes("refund") == []
    await log.append(answer(6, 5, "c", at=14.0), DONE)
    assert await log.experience.outcomes("refund") == [lesson("c", True)]


async def test_who_never_answered_failed_and_nobody_knows_how_long_it_worked(log: Log):
    await offered(log, "c", accepted=False)
    await ended(log, "c", LATE, position=5)
    assert await log.experience.outcomes("refund") == [lesson("c", False, seconds=None)]


async def test_of_a_receiver_that_was_named_nothing_is_learnt(log: Log):
    await offered(log, "c", capability="")
    await ended(log, "c", FOUND)
    assert await log.experience.capabilities() == []
    assert await log.experience.outcomes("") == []


@pytest.mark.parametrize(
    ("costs", "together"),
    [((0.25,), 0.25), ((0.25, 0.5), 0.75), ((0.25, None), None), ((None,), None), ((), None)],
)
async def test_a_task_costs_what_all_spent_in_its_conversation(
    log: Log, costs: tuple[float | None, ...], together: float | None
):
    await offered(log, "c")
    await spent(log, "c", *costs)
    await ended(log, "c", FOUND)
    assert await log.experience.outcomes("refund") == [lesson("c", True, cost=together)]


async def some(log: Log) -> None:
    """Four tasks of two capabilities, which end in another order than they begin."""
    for id, capability in {"a": "refund", "b": "refund", "c": "law", "d": "refund"}.items():
        await offered(log, id, capability)
    for id, event, at in (("d", FOUND, 12.0), ("c", FOUND, 13.0), ("b", BROKEN, 14.0), ("a", FOUND, 14.0)):
        await ended(log, id, event, at=at)


async def test_outcomes_come_in_the_order_in_which_they_ended_each_capability_apart(log: Log):
    await some(log)
    assert await log.experience.capabilities() == ["law", "refund"]
    found = await log.experience.outcomes("refund")
    assert [each.handoff for each in found] == ["d:3.0", "a:3.0", "b:3.0"]
    assert [each.handoff for each in await log.experience.outcomes("law")] == ["c:3.0"]


async def test_only_the_last_and_only_what_is_newer_is_told_if_so_asked(log: Log):
    await some(log)
    newer = await log.experience.outcomes("refund", after=12.0)
    assert [each.handoff for each in newer] == ["a:3.0", "b:3.0"]
    assert [each.handoff for each in await log.experience.outcomes("refund", most=1)] == ["b:3.0"]
    assert await log.experience.outcomes("refund", after=14.0) == []


@pytest.mark.parametrize(
    ("capability", "agent", "left"),
    [
        ("", "", []),
        ("refund", "", ["c"]),
        ("", "billing", []),
        ("law", "billing", ["a", "b", "d"]),
        ("refund", "nobody", ["a", "b", "c", "d"]),
    ],
)
async def test_what_ended_before_a_reset_counts_no_longer(log: Log, capability: str, agent: str, left: list[str]):
    await some(log)
    await log.experience.reset(14.0, capability, agent)
    counted = [each for name in ("refund", "law") for each in await log.experience.outcomes(name)]
    assert sorted(each.handoff[0] for each in counted) == left


async def test_what_ends_after_a_reset_counts_and_an_earlier_reset_changes_nothing(log: Log):
    await some(log)
    await log.experience.reset(13.0)
    await log.experience.reset(5.0)
    assert await log.experience.unlearned() == [Unlearned("", "", 13.0)]
    assert [each.handoff for each in await log.experience.outcomes("refund")] == ["a:3.0", "b:3.0"]


async def test_the_same_outcomes_give_the_same_standings_wherever_they_are_kept(log: Log):
    memory = MemoryLog()
    for each in (log, memory):
        await some(each)
    found = await standings(log.experience)
    assert found == await standings(memory.experience)
    assert [(row.capability, row.agent, row.tasks, row.successes) for row in found] == [
        ("law", "billing", 1, 1),
        ("refund", "billing", 3, 2),
    ]
    assert await standings(log.experience, "Re-Fund") == found[1:]
    assert await standings(log.experience, agent="nobody") == []


async def test_a_reset_says_of_whom_it_forgot_something_and_writes_nothing_if_of_nobody(log: Log):
    await some(log)
    assert await reset(log.experience, 20.0, "flying") == []
    assert await log.experience.unlearned() == []
    assert [row.capability for row in await reset(log.experience, 20.0, "LAW")] == ["law"]
    assert await log.experience.unlearned() == [Unlearned("law", "", 20.0)]
    assert [row.capability for row in await standings(log.experience)] == ["refund"]


async def test_of_a_conversation_that_was_forgotten_nothing_is_learnt(log: Log):
    await some(log)
    assert await log.forget("d") is True
    assert [each.handoff for each in await log.experience.outcomes("refund", -inf)] == ["a:3.0", "b:3.0"]


async def test_what_one_process_resets_counts_for_no_other(another: Another):
    mine, theirs = another(), another()
    await some(mine)
    await asyncio.gather(*(log.experience.reset(at, "refund") for log in (mine, theirs) for at in (12.0, 13.0)))
    assert await theirs.experience.unlearned() == [Unlearned("refund", "", 13.0)]
    assert [each.handoff for each in await theirs.experience.outcomes("refund")] == ["a:3.0", "b:3.0"]
    assert mine.epoch == 1
    assert theirs.epoch == 0


async def test_a_store_that_is_closed_tells_and_resets_nothing(another: Another):
    log = another()
    lessons = log.experience
    await log.close()
    for asked in (lessons.outcomes("x"), lessons.capabilities(), lessons.unlearned(), lessons.reset(1.0)):
        with pytest.raises(StoreUnavailable, match="is closed"):
            await asked


async def test_a_process_that_died_learns_nothing():
    mortal = MortalLog(MemoryLog(), at=1)
    await mortal.append(opening(), WORKING)
    with pytest.raises(Died):
        await mortal.experience.outcomes("refund")


async def test_outcomes_are_found_by_their_index(bare_store: str, opened: Opened):
    log = opened(bare_store)
    await offered(log, "c")
    await ended(log, "c", FOUND)
    columns = [name for (name,) in query(bare_store, COLUMNS[bare_store.partition(":")[0]])]
    given = {"id": "'x' || n", "capability": "CASE WHEN n % 9 = 0 THEN 'k' || n % 50 END", "ended_at": "n"}
    numbers = "generate_series(1, {0})" if bare_store.startswith("postgres") else SERIES
    made = ", ".join(given.get(name, name) for name in columns)
    many = f"SELECT {made} FROM handoffs, {numbers.format(20_000)} AS n WHERE id = 'c:3.0'"
    query(bare_store, f"INSERT INTO handoffs ({', '.join(columns)}) {many}")
    query(bare_store, "ANALYZE")
    plan = explained(bare_store, log._sql.lessons.outcomes(capability="k7", after=500.0, most=10))
    assert "handoffs_learnt" in plan
    assert "Seq Scan on handoffs" not in plan, plan
    assert "SCAN handoffs" not in plan, plan


COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info('handoffs')",
    "postgresql": "SELECT column_name FROM information_schema.columns"
    " WHERE table_name = 'handoffs' AND table_schema = current_schema()",
}
