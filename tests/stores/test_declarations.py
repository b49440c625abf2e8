"""Agents, tools, skills and settings as rows: versions, editions, writers that meet, and what is refused."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from changeover.errors import DeclarationConflict, MisconfiguredError
from changeover.relay.ports.declarations import Declaration, Edit, EditionMoved, Standing
from changeover.relay.ports.log import Log
from changeover.stores.sql.log import SqlLog
from tests.stores.conftest import Opened
from tests.stores.connection_loss import losing_once
from tests.stores.entries import WORKING, opening, query

Another = Callable[..., SqlLog]
BILLING = {"instructions": "Send money back: € and £.", "handoffs": ["triage"]}
ORDER: dict[str, Any] = {"type": "http_api", "url": "https://api.example.org/orders/{id}"}


async def test_a_store_in_which_nothing_is_declared_is_at_edition_0(log: Log):
    declared = log.declarations
    assert (await declared.edition(), await declared.listed(), await declared.at_edition(0)) == (0, [], [])
    assert (await declared.one("agent", "billing"), await declared.history("agent", "billing")) == (None, [])


async def test_a_row_keeps_its_document_its_writer_and_its_time(log: Log):
    written = await log.declarations.put("agent", "billing", BILLING, by="ana@example.org")
    assert written == Declaration("agent", "billing", 1, 1, "enabled", BILLING, written.at, "ana@example.org", rank=1)
    assert written.at > 1.7e9
    assert await log.declarations.one("agent", "billing") == written
    assert await log.declarations.listed() == [written]


async def test_each_change_is_a_new_version_and_a_new_edition_and_the_old_ones_stay(log: Log):
    declared = log.declarations
    await declared.put("agent", "billing", {"instructions": "one"}, by="ana")
    await declared.put("tool", "get_order", ORDER, by="ben")
    await declared.put("agent", "billing", {"instructions": "two"}, by="ben")
    await declared.set_state("agent", "billing", "disabled", by="ana")
    seen = [(each.version, each.edition, each.state, each.by) for each in await declared.history("agent", "billing")]
    assert seen == [(1, 1, "enabled", "ana"), (2, 3, "enabled", "ben"), (3, 4, "disabled", "ana")]
    first = await declared.one("agent", "billing", version=1)
    assert first is not None
    assert first.document == {"instructions": "one"}
    assert await declared.one("agent", "billing", version=9) is None


async def test_the_rows_of_an_earlier_edition_are_as_they_were_then(log: Log):
    declared = log.declarations
    await declared.put("agent", "billing", {"instructions": "one"})
    await declared.put("skill", "refunds", {"description": "How to refund."})
    await declared.put("agent", "billing", {"instructions": "two"})
    await declared.set_state("skill", "refunds", "removed")
    seen = [[(each.name, each.version, each.state) for each in await declared.at_edition(n)] for n in range(5)]
    assert seen[:3] == [[], [("billing", 1, "enabled")], [("billing", 1, "enabled"), ("refunds", 1, "enabled")]]
    assert seen[3:] == [
        [("billing", 2, "enabled"), ("refunds", 1, "enabled")],
        [("billing", 2, "enabled"), ("refunds", 2, "removed")],
    ]


async def test_removed_rows_are_listed_only_on_request_and_come_back_with_a_document(log: Log):
    declared = log.declarations
    await declared.put("agent", "billing", BILLING)
    await declared.set_state("agent", "billing", "removed")
    assert await declared.listed("agent") == []
    assert [each.state for each in await declared.listed("agent", include_removed=True)] == ["removed"]
    assert (await declared.put("agent", "billing", BILLING)).state == "enabled"


async def test_a_new_document_of_a_disabled_row_leaves_it_disabled(log: Log):
    await log.declarations.put("agent", "billing", BILLING)
    await log.declarations.set_state("agent", "billing", "disabled")
    assert (await log.declarations.put("agent", "billing", {"instructions": "new"})).state == "disabled"


async def test_what_is_as_it_should_be_gets_no_new_version(log: Log):
    first = await log.declarations.put("agent", "billing", BILLING, by="ana")
    assert await log.declarations.put("agent", "billing", dict(BILLING), by="ben") == first
    assert await log.declarations.set_state("agent", "billing", "enabled") == first
    assert await log.declarations.edition() == 1


async def test_changes_that_are_written_together_share_an_edition(log: Log):
    edits = [Edit("agent", "triage", {}), Edit("agent", "billing", {}), Edit("team", "desk", {"start": "triage"})]
    written = await log.declarations.write(edits, by="ana")
    assert [(each.kind, each.name, each.edition) for each in written] == [
        ("agent", "triage", 1),
        ("agent", "billing", 1),
        ("team", "desk", 1),
    ]
    assert [each.name for each in await log.declarations.listed()] == ["triage", "billing", "desk"]


async def test_declarations_keep_the_order_in_which_they_were_first_written(log: Log):
    declared = log.declarations
    await declared.write([Edit("agent", "zoe", {}), Edit("agent", "adam", {})])
    await declared.put("agent", "mia", {})
    await declared.put("agent", "zoe", {"instructions": "new"})
    await declared.set_state("agent", "adam", "removed")
    await declared.put("agent", "adam", {"instructions": "back"})
    assert [(each.name, each.rank) for each in await declared.listed("agent")] == [("zoe", 1), ("adam", 2), ("mia", 3)]
    assert [each.name for each in await declared.at_edition(1)] == ["zoe", "adam"]
    assert {each.rank for each in await declared.history("agent", "adam")} == {2}


async def test_the_second_of_two_editors_is_told_and_nothing_is_lost(log: Log):
    declared = log.declarations
    await declared.put("agent", "billing", {"instructions": "one"}, by="ana")
    await declared.put("agent", "billing", {"instructions": "two"}, by="ben", expected=1)
    with pytest.raises(
        DeclarationConflict, match=r"agent 'billing' is at version 2, written by ben at 20\d\d-"
    ) as caught:
        await declared.put("agent", "billing", {"instructions": "three"}, by="ana", expected=1)
    assert (caught.value.expected, caught.value.version, caught.value.by) == (1, 2, "ben")
    now = await declared.one("agent", "billing")
    assert now is not None
    assert now.document == {"instructions": "two"}


async def test_a_row_that_must_be_new_or_must_exist_is_refused_otherwise(log: Log):
    await log.declarations.put("agent", "billing", BILLING, expected=0)
    with pytest.raises(DeclarationConflict, match="exists already, at version 1"):
        await log.declarations.put("agent", "billing", BILLING, expected=0)
    with pytest.raises(DeclarationConflict, match="'sales' does not exist, and version 3 was expected"):
        await log.declarations.put("agent", "sales", BILLING, expected=3)


async def test_of_several_changes_all_are_written_or_none(log: Log):
    await log.declarations.put("agent", "billing", BILLING)
    with pytest.raises(DeclarationConflict):
        await log.declarations.write([Edit("agent", "sales", {}), Edit("agent", "billing", {}, expected=0)])
    assert (await log.declarations.edition(), await log.declarations.one("agent", "sales")) == (1, None)


REFUSED = {
    "the type 'magic'; there are: handoff, internal": Edit("tool", "spell", {"type": "magic"}),
    "has no type": Edit("tool", "spell", {}),
    "unusable name": Edit("agent", "two words", {}),
    "needs a mapping": Edit("agent", "billing", ["instructions"]),  # type: ignore[arg-type]
    r"\$\.limit is inf, which JSON cannot hold": Edit("agent", "billing", {"limit": float("inf")}),
    "unknown kind": Edit("guard", "billing", {}),  # type: ignore[arg-type]
    "the store has no agent 'billing'": Edit("agent", "billing", state="disabled"),
    "cannot be 'asleep'": Edit("agent", "billing", {}, state="asleep"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("words", REFUSED)
async def test_what_cannot_be_a_row_is_refused_with_the_reason(log: Log, words: str):
    with pytest.raises(MisconfiguredError, match=words):
        await log.declarations.write([REFUSED[words]])
    assert await log.declarations.edition() == 0


async def test_all_faults_of_several_changes_are_reported_together(log: Log):
    with pytest.raises(MisconfiguredError) as caught:
        await log.declarations.write(list(REFUSED.values()))
    assert len(caught.value.faults) == len(REFUSED)


async def test_a_check_sees_the_whole_outcome_and_can_refuse_it(log: Log):
    await log.declarations.put("agent", "triage", {})
    seen: list[tuple[str, Standing]] = []

    def check(outcome: Sequence[Declaration]) -> None:
        seen.extend((each.name, each.state) for each in outcome)
        raise MisconfiguredError("no")

    with pytest.raises(MisconfiguredError, match="no"):
        await log.declarations.checked_by(check).write(
            [Edit("agent", "billing", {}), Edit("agent", "triage", state="removed")]
        )
    assert seen == [("triage", "removed"), ("billing", "enabled")]
    assert await log.declarations.edition() == 1


async def test_writers_that_meet_all_write_and_each_is_checked_with_the_others(log: Log):
    def at_most_five(outcome: Sequence[Declaration]) -> None:
        if len(outcome) > 5:
            raise MisconfiguredError("too many")

    declared = log.declarations.checked_by(at_most_five)
    writes = [declared.put("agent", f"a{n}", {"n": n}) for n in range(8)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(each, MisconfiguredError) for each in outcomes) == 3
    assert (await log.declarations.edition(), len(await log.declarations.listed())) == (5, 5)


async def test_of_editors_in_several_processes_that_expect_one_version_one_succeeds(another: Another):
    logs = [another() for _ in range(3)]
    await logs[0].declarations.put("agent", "billing", {"instructions": "one"})
    puts = [
        log.declarations.put("agent", "billing", {"instructions": f"by {number}"}, by=str(number), expected=1)
        for number, log in enumerate(logs)
    ]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    [winner] = [each for each in outcomes if isinstance(each, Declaration)]
    assert sum(isinstance(each, DeclarationConflict) and each.by == winner.by for each in outcomes) == 2
    assert await logs[1].declarations.listed() == [winner]


async def test_editors_in_several_processes_of_different_rows_all_succeed(another: Another):
    logs = [another() for _ in range(3)]
    puts = [logs[n % 3].declarations.put("agent", f"a{n % 5}", {"n": n}) for n in range(15)]
    written = await asyncio.gather(*puts)
    assert sorted(each.edition for each in written) == list(range(1, 16))
    assert await logs[0].declarations.edition() == 15


async def test_a_run_begins_with_the_last_edition_whichever_process_wrote_it(another: Another):
    log, of_another_process = another(), another()
    await log.append(opening("a"), replace(WORKING, edition=0))
    for edition, writer in enumerate((log, of_another_process), 1):
        await writer.declarations.put("agent", "billing", {"instructions": f"edition {edition}"})
        entry = opening(f"c{edition}")
        with pytest.raises(EditionMoved) as refusal:
            await log.append(entry, replace(WORKING, edition=edition - 1))
        assert refusal.value.edition == edition
        await log.append(entry, replace(WORKING, edition=edition))


async def test_people_can_query_the_tools(another: Another, shared_store: str):
    declared = another().declarations
    await declared.put("tool", "get_order", ORDER, by="ana")
    await declared.put("tool", "get_order", {**ORDER, "timeout": 3})
    await declared.put("agent", "billing", BILLING)
    asked = "SELECT name, type, version, state FROM tools"
    assert query(shared_store, asked) == [("get_order", "http_api", 2, "enabled")]
    await declared.set_state("tool", "get_order", "removed")
    assert query(shared_store, asked) == [("get_order", "http_api", 3, "removed")]


async def test_the_database_refuses_a_tool_of_another_type(another: Another, shared_store: str):
    await another().declarations.put("tool", "get_order", ORDER)
    with pytest.raises(Exception, match=r"(?i)check constraint.*tools_type_check"):
        query(shared_store, "UPDATE tools SET type = 'magic'")


async def test_a_change_whose_commit_was_not_confirmed_is_found_and_not_written_twice(postgres: str, opened: Opened):
    log = opened(postgres)
    await log.declarations.put("agent", "billing", {"instructions": "one"})
    lost = losing_once(log)
    written = await log.declarations.put("agent", "billing", {"instructions": "two"}, by="ana", expected=1)
    assert lost
    assert (written.version, written.edition) == (2, 2)
    assert await log.declarations.listed() == [written]
