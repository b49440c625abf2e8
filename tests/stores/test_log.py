"""What every log does, wherever it lives."""

import asyncio
from typing import Literal

import pytest

from changeover.errors import Conflict, ConversationNotFound
from changeover.relay.events import Entry, RunCompleted, UserSpoke
from changeover.relay.ports.log import Head, Log
from tests.stores.entries import DONE, LEFT, WORKING, child, delegate, more, opening, stored


async def ids(log: Log, conversation: str) -> list[str]:
    """Whose entries a tree holds, in its order."""
    tree = await log.tree(conversation)
    assert [entry.seq for entry in tree] == sorted(entry.seq for entry in tree)
    return [entry.conversation for entry in tree]


async def test_what_was_appended_is_read_as_it_was(log: Log):
    entry = opening("c", "hello", 1794736115.8941748, user="ana", context={"n": [1, None, "ä\0"]})
    await log.append(entry, WORKING)
    assert await log.read("c") == [entry]


async def test_a_conversation_that_nobody_began_is_empty(log: Log):
    assert await log.read("nobody") == []
    assert await log.find("nobody", "x") is None


async def test_entries_are_read_in_order_and_from_a_position_on(log: Log):
    for entry in (opening(), more(3), more(4), more(5)):
        await log.append(entry, WORKING)
    assert [entry.position for entry in await log.read("c")] == [0, 3, 4, 5]
    assert [entry.position for entry in await log.read("c", 4)] == [4, 5]
    assert await log.read("c", 6) == []


@pytest.mark.parametrize("position", [0, 2, 4])
async def test_whoever_thinks_the_log_ends_elsewhere_gets_a_conflict_and_changes_nothing(log: Log, position: int):
    await log.append(opening(), WORKING)
    with pytest.raises(Conflict) as caught:
        await log.append(more(position), WORKING)
    assert (caught.value.conversation, caught.value.position, caught.value.cause) == ("c", position, f"said@{position}")
    assert await stored(log) == [(0, "said@1", 1)]
    await log.append(more(3), WORKING)


async def test_a_log_that_does_not_exist_ends_at_0(log: Log):
    with pytest.raises(Conflict):
        await log.append(more(3), WORKING)
    assert await log.read("c") == []


async def test_an_outcome_is_recorded_once(log: Log):
    await log.append(opening(), WORKING)
    await log.append(more(3, "tool"), WORKING)
    with pytest.raises(Conflict):
        await log.append(more(4, "tool"), WORKING)
    await log.append(more(4, "other"), WORKING)
    assert [await log.find("c", cause) for cause in ("said@1", "tool", "other", "none")] == [0, 3, 4, None]


async def test_conflicts_of_every_kind_do_no_harm_to_what_follows(log: Log):
    await log.append(opening(), WORKING)
    for position in range(3, 33):
        for refused in (opening(), more(position, "said@1"), more(position + 1)):
            with pytest.raises(Conflict):
                await log.append(refused, WORKING)
        await log.append(more(position), WORKING)
    assert [position for position, _, _ in await stored(log)] == [0, *range(3, 33)]


async def test_the_same_cause_may_be_recorded_in_another_conversation(log: Log):
    await log.append(opening("a"), WORKING)
    await log.append(opening("b"), WORKING)
    assert await log.find("b", "said@1") == 0


async def test_of_many_who_append_at_one_position_one_wins(log: Log):
    await log.append(opening(), WORKING)
    tries = [log.append(more(3, f"try {number}"), WORKING) for number in range(20)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 19
    assert len(await log.read("c")) == 2


async def test_events_are_counted_over_the_whole_tree_of_a_root(log: Log):
    for entry in (opening("r"), child("r/1", "r"), more(3, "", "r"), child("r/2", "r", "r/1"), more(2, "", "r/1", "r")):
        await log.append(entry, WORKING)
    assert await stored(log, "r") == [(0, "said@1", 1), (3, "said@3", 6)]
    assert await stored(log, "r/1") == [(0, "begin", 4), (2, "said@2", 9)]
    assert await stored(log, "r/2") == [(0, "begin", 7)]


async def test_the_seq_is_filled_in_where_the_entry_was_made(log: Log):
    first, second = opening(), more(3)
    await log.append(first, WORKING)
    await log.append(second, WORKING)
    assert (first.seq, second.seq) == (1, 4)


async def test_children_that_report_at_once_get_different_numbers(log: Log):
    await log.append(opening("r"), WORKING)
    await asyncio.gather(*(log.append(child(f"r/{number}", "r"), WORKING) for number in range(20)))
    seqs = [seq for number in range(20) for _, _, seq in await stored(log, f"r/{number}")]
    assert sorted(seqs) == list(range(4, 44, 2))


async def test_a_tree_is_a_conversation_and_all_below_it_by_seq(log: Log):
    root = [opening("r"), delegate("r/3.0", "r"), more(3, "", "r"), delegate("r/3.0/3.0", "r"), delegate("r/3.01", "r")]
    for entry in (*root, more(3, "", "r/3.0", "r"), opening("other"), opening("r/3.0/mine")):
        await log.append(entry, WORKING)
    assert await ids(log, "r") == ["r", "r/3.0", "r", "r/3.0/3.0", "r/3.01", "r/3.0"]
    assert await ids(log, "r/3.0") == ["r/3.0", "r/3.0/3.0", "r/3.0"]
    assert await ids(log, "r/3.0/3.0") == ["r/3.0/3.0"]
    assert await ids(log, "r/3.0/mine") == ["r/3.0/mine"], "a root, whatever its id looks like"
    assert await ids(log, "nobody") == []
    assert await log.tree("r/3.0/3.0") == await log.read("r/3.0/3.0")


async def test_the_ids_of_a_tree_are_taken_letter_by_letter(log: Log):
    for entry in (opening("a_%ä"), delegate("a_%ä/1", "a_%ä"), opening("abcä"), delegate("abcä/1", "abcä")):
        await log.append(entry, WORKING)
    assert await ids(log, "a_%ä") == ["a_%ä", "a_%ä/1"]


async def test_a_child_of_a_root_that_does_not_exist_is_refused(log: Log):
    with pytest.raises(ConversationNotFound, match="'x'"):
        await log.append(child("x/1", "x"), WORKING)
    assert await log.read("x/1") == await log.tree("x/1") == []
    assert await log.unfinished() == []
    await log.append(opening("x"), DONE)
    await log.append(child("x/1", "x"), WORKING)


async def test_whoever_is_too_late_hears_of_the_conflict_before_the_missing_root(log: Log):
    with pytest.raises(Conflict):
        await log.append(more(3, "", "x/1", "x"), WORKING)


async def test_an_input_makes_a_conversation_unfinished(log: Log):
    await log.append(opening("c"), DONE)
    assert await log.unfinished() == []
    await log.append(more(3), None)
    assert await log.unfinished() == ["c"]


@pytest.mark.parametrize("status", ["completed", "failed", "waiting", "cancelled"])
async def test_what_does_not_run_is_not_unfinished(log: Log, status: Literal["completed", "waiting", "cancelled"]):
    await log.append(opening("c"), LEFT)
    assert await log.unfinished() == ["c"]
    await log.append(more(3), Head(status, "front", False))
    assert await log.unfinished() == []


async def test_what_is_left_and_its_roots_are_unfinished_once_and_in_order(log: Log):
    for root in ("b", "a", "done"):
        await log.append(opening(root), DONE)
    for parent in ("b", "a", "b"):
        await log.append(delegate(f"{parent}/{len(await log.tree(parent))}", parent), LEFT)
    assert await log.unfinished() == ["a", "a/1", "b", "b/1", "b/2"]


async def test_what_nobody_has_begun_may_be_claimed_and_released(log: Log):
    assert await log.claim("new")
    await log.release("new", 0)
    assert await log.read("new") == []


async def test_what_runs_and_nobody_works_on_is_unfinished(log: Log):
    await log.append(opening("done"), WORKING)
    assert await log.unfinished() in (["done"], [])  # in memory everything that runs could be taken up
    ended = Entry("done", "done", 3, "end", 1.0, (RunCompleted(1),))
    await log.append(ended, DONE)
    assert await log.unfinished() == []


async def test_long_texts_and_many_entries_come_back_whole(log: Log):
    await log.append(opening("c", "x" * 100_000), WORKING)
    for position in range(3, 203):
        await log.append(more(position), WORKING)
    entries = await log.read("c")
    assert len(entries) == 201
    assert [len(event.text) for event in entries[0].events if isinstance(event, UserSpoke)] == [100_000]


async def test_a_cause_may_be_any_text(log: Log):
    await log.append(opening(), WORKING)
    for position, cause in enumerate(["key:'; DROP TABLE entries; --", "key:ä%s?\0", "key:" + "x" * 500], start=3):
        await log.append(more(position, cause), WORKING)
        assert await log.find("c", cause) == position


async def test_half_a_surrogate_pair_does_not_stop_a_conversation(log: Log):
    await log.append(opening("c", "broken \ud83d here"), WORKING)
    [entry] = await log.read("c")
    assert "broken" in str(entry.events[1])
