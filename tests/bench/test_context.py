"""Tokens that each strategy uses and facts that it loses, in three long conversations and in a whole task."""

import asyncio
from functools import cache
from itertools import combinations

import pytest

from bench.context import Outcome, outcomes, receivers
from bench.facts import CASES, Case
from bench.page import COMMAND, PAGE, rewritten
from bench.shapes import ALONE, Bills, bills, whole_tasks
from changeover.handoffs.tokens import count

ALL, RECENT, MESSAGE, SUMMARY, REFERENCE = (
    "Full()",
    "Recent(5)",
    "MessageOnly()",
    "Summary(needs=[…])",
    "Reference()",
)

every_case = pytest.mark.parametrize("case", [case.name for case in CASES])
careful = pytest.mark.parametrize("strategy", [SUMMARY, REFERENCE], ids=["summary", "reference"])
careless = pytest.mark.parametrize("strategy", [RECENT, MESSAGE], ids=["recent", "message_only"])


@cache
def measured() -> dict[str, dict[str, Outcome]]:
    return asyncio.run(outcomes())


@cache
def billed() -> Bills:
    return asyncio.run(bills())


@every_case
def test_a_receiver_with_the_full_strategy_sees_every_fact(case: str):
    assert measured()[case][ALL].lost == []
    assert measured()[case][ALL].by_fetch == []


@every_case
@careful
def test_a_summary_and_a_reference_leave_out_seventy_percent(case: str, strategy: str):
    assert measured()[case][strategy].tokens <= 0.3 * measured()[case][ALL].tokens


@every_case
@careful
def test_with_a_summary_or_a_reference_every_fact_can_be_reached(case: str, strategy: str):
    assert [fact.question for fact in measured()[case][strategy].lost] == []


@every_case
@careless
def test_the_last_messages_or_the_message_only_are_short_and_lose_facts(case: str, strategy: str):
    outcome = measured()[case][strategy]
    assert outcome.tokens <= 0.3 * measured()[case][ALL].tokens
    assert outcome.lost != []


@every_case
def test_every_handoff_used_its_strategy_and_every_receiver_has_the_same_instructions(case: str):
    for name, outcome in measured()[case].items():
        assert [(handoff.strategy_error, name) for handoff in outcome.handoffs if handoff.strategy_error] == []
        assert len({handoff.strategy for handoff in outcome.handoffs}) == 1
    assert len({outcome.first.instructions for outcome in measured()[case].values()}) == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_summariser_tells_four_of_ten_facts(case: Case):
    told = "\n".join(case.summaries)
    assert (len(case.facts), sum(fact.stands_in(told) for fact in case.facts)) == (10, 4)


def test_along_ten_handoffs_the_summariser_reads_the_history_about_once():
    asked = measured()["recall"][SUMMARY].summed_up
    assert len(asked) == 10
    read = sum(count(message.text) for request in asked for message in request.messages)
    assert read <= 1.4 * measured()["recall"][ALL].tokens


def test_no_summary_is_summed_up_again():
    outcome = measured()["recall"][SUMMARY]
    transcripts = [request.messages[-1].text.rpartition("\n\n")[2] for request in outcome.summed_up]
    assert ["audit" in text for text in transcripts] == [False] * 9 + [True]
    for (_, earlier), (number, _) in combinations(enumerate(outcome.case.summaries), 2):
        assert earlier not in transcripts[number]


@pytest.mark.parametrize("shape", ["swarm", "supervisor"])
def test_three_agents_that_know_all_they_need_cost_at_most_a_fifth_more_than_one(shape: str):
    whole = [bill.tokens for (of, _), bill in billed().items() if of == shape and not bill.missing]
    assert min(whole) <= 1.2 * billed()[ALONE].tokens


@pytest.mark.parametrize("shape", ["swarm", "supervisor"])
def test_a_receiver_with_the_message_only_strategy_lacks_facts(shape: str):
    assert billed()[shape, MESSAGE].missing != []
    assert billed()[shape, ALL].missing == []


def test_the_page_has_the_tables_as_they_are_measured():
    page = PAGE.read_text()
    now = rewritten(page, [receivers(measured()), whole_tasks(billed())])
    assert now == page, f"the figures have changed: run {COMMAND}"
