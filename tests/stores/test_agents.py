"""What a store says of agents: kept beside what code declares, and counted so that whoever looks sees each change."""

import asyncio
from collections.abc import Callable

from changeover.relay.ports.log import Log
from changeover.relay.ports.tables import KeptAgent
from changeover.routing import Profile
from changeover.stores.sql.log import SqlLog
from tests.stores.entries import query

Another = Callable[..., SqlLog]
WHOLE = Profile(
    "billing",
    "Billing",
    "Sends money back: € and £.",
    "refunds",
    ("refunds", "invoices"),
    ("I was charged twice",),
    max_concurrency=3,
)


async def said(log: Log) -> list[tuple[str, Profile | None, bool, bool]]:
    return [(each.id, each.profile, each.enabled, each.removed) for each in await log.agents.all()]


async def test_a_store_that_was_told_nothing_says_nothing(log: Log):
    assert (await log.agents.all(), await log.agents.version()) == ([], 0)


async def test_a_profile_is_kept_whole_and_takes_the_place_of_the_one_before(log: Log):
    await log.agents.put(Profile("triage"))
    await log.agents.put(Profile("billing"))
    await log.agents.put(WHOLE)
    assert await said(log) == [("billing", WHOLE, True, False), ("triage", Profile("triage"), True, False)]
    assert all(each.updated_at > 1.7e9 for each in await log.agents.all())


async def test_whom_code_declared_can_be_disabled_and_removed_without_a_profile(log: Log):
    await log.agents.switch("billing", enabled=False)
    await log.agents.remove("triage")
    assert await said(log) == [("billing", None, False, False), ("triage", None, True, True)]
    assert [each.absent for each in await log.agents.all()] == [True, True]


async def test_being_disabled_or_removed_leaves_a_profile_as_it_was(log: Log):
    await log.agents.put(WHOLE)
    await log.agents.switch("billing", enabled=False)
    assert await said(log) == [("billing", WHOLE, False, False)]
    await log.agents.remove("billing")
    assert await said(log) == [("billing", WHOLE, False, True)]
    await log.agents.switch("billing", enabled=True)
    assert await said(log) == [("billing", WHOLE, True, False)]
    await log.agents.remove("billing")
    await log.agents.put(WHOLE)
    assert not (await log.agents.all())[0].absent


async def test_every_change_raises_the_version_whatever_it_changes(log: Log):
    seen = [await log.agents.version()]
    for change in (
        log.agents.put(WHOLE),
        log.agents.put(WHOLE),
        log.agents.switch("billing", enabled=False),
        log.agents.switch("other", enabled=True),
        log.agents.remove("billing"),
        log.agents.remove("nobody"),
    ):
        await change
        seen.append(await log.agents.version())
    assert seen == sorted(set(seen))


async def test_changes_that_come_at_once_are_all_counted(log: Log):
    await asyncio.gather(*(log.agents.switch(f"agent-{number % 5}", enabled=False) for number in range(40)))
    assert (await log.agents.version(), len(await log.agents.all())) == (40, 5)


async def test_what_one_process_says_the_others_read(another: Another):
    one, other = another(), another()
    await asyncio.gather(
        *(log.agents.put(Profile(f"agent-{number}")) for number in range(10) for log in (one, other)),
    )
    await one.agents.remove("agent-3")
    assert await other.agents.all() == await one.agents.all()
    assert await other.agents.version() == 21
    assert [each.id for each in await other.agents.all() if each.absent] == ["agent-3"]


async def test_people_can_query_the_table(another: Another, shared_store: str):
    await another().agents.put(Profile("billing", description="Sends money back."))
    asked = "SELECT id, profile, version FROM agents WHERE enabled AND NOT removed"
    assert query(shared_store, asked) == [("billing", '{"id":"billing","description":"Sends money back."}', 1)]


def test_one_of_whom_nothing_is_said_is_there():
    assert not KeptAgent("billing").absent
