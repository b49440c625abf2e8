"""What reaches receivers in conversations of any language, in a small version of the bench."""

import asyncio
from functools import cache

import pytest

from bench.handovers import WAYS, Handovers, handovers, languages, share
from bench.histories import conversation

SMALL = (conversation("Japanese", "japanese", 40, 5), conversation("JSON", "german", 12, 6, "json"))

every = pytest.mark.parametrize("history", [each.name for each in SMALL])
careful = pytest.mark.parametrize("strategy", ["Summary()", "Reference()"])
any_way = pytest.mark.parametrize("way", WAYS)


@cache
def measured() -> Handovers:
    return asyncio.run(handovers(SMALL))


@every
@careful
@any_way
def test_no_fact_is_lost_and_nearly_all_are_in_view_or_found_by_one_query(history: str, strategy: str, way: str):
    in_view, by_query, _, lost = measured()[history, strategy, way].tally()
    assert lost == 0
    assert in_view + by_query >= 11


@every
@careful
@any_way
def test_the_receiver_reads_a_quarter_of_the_tokens(history: str, strategy: str, way: str):
    assert share(measured(), (history, strategy, way)) <= 0.25


@every
@careful
@any_way
def test_no_outdated_value_is_shown_without_its_correction(history: str, strategy: str, way: str):
    assert measured()[history, strategy, way].outdated == 0


@every
@any_way
def test_the_last_messages_alone_hold_no_fact(history: str, way: str):
    assert measured()[history, "Recent(5)", way].tally() == (0, 0, 0, 12)
    assert measured()[history, "Full()", way].tally() == (12, 0, 0, 0)


def test_the_histories_are_the_same_with_the_same_seed_and_differ_with_another():
    again, other = conversation("Japanese", "japanese", 40, 5), conversation("Japanese", "japanese", 40, 6)
    assert again == SMALL[0]
    assert other.facts != again.facts


def test_the_table_has_a_row_for_each_measure_that_tells_something():
    assert len(languages(measured()).rows) == len(SMALL) * (2 + 2 * len(WAYS))
