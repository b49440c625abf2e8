"""Tokens that each strategy uses and facts that it loses, in three long conversations and in a whole task."""

import asyncio
from functools import cache
from itertools import combinations

import pytest

from bench.context import Outcome, outcomes, receivers
from bench.facts import CASES, Case
from bench.hops import Costs, costs, five_hops
from bench.page import COMMAND, JOBS, PAGE, rewritten
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


@cache
def hopped() -> Costs:
    return asyncio.run(costs(JOBS))


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
        # What is still short is passed on whole.
        assert len({handoff.strategy for handoff in outcome.handoffs} - {"full"}) == (name != ALL)
    assert len({outcome.first.instructions for outcome in measured()[case].values()}) == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_summariser_tells_four_of_ten_facts(case: Case):
    told = "\n".join(case.summaries)
    assert (len(case.facts), sum(fact.stands_in(told) for fact in case.facts)) == (10, 4)


def test_along_ten_handoffs_the_summariser_reads_the_history_about_once():
    asked = measured()["recall"][SUMMARY].summed_up
    assert 1 < len(asked) < 10  # the first receivers read the history itself
    read = sum(count(message.text) for request in asked for message in request.messages)
    assert read <= 1.4 * measured()["recall"][ALL].tokens


def test_no_summary_is_summed_up_again():
    outcome = measured()["recall"][SUMMARY]
    transcripts = [request.messages[-1].text.rpartition("\n\n")[2] for request in outcome.summed_up]
    assert ["audit" in text for text in transcripts] == [False] * (len(transcripts) - 1) + [True]
    for (_, earlier), (_, transcript) in combinations(zip(outcome.case.summaries, transcripts, strict=False), 2):
        assert earlier not in transcript


@pytest.mark.parametrize("shape", ["swarm", "supervisor"])
def test_three_agents_that_know_all_they_need_cost_at_most_a_fifth_more_than_one(shape: str):
    whole = [bill.tokens for (of, _), bill in billed().items() if of == shape and not bill.missing]
    assert min(whole) <= 1.2 * billed()[ALONE].tokens


@pytest.mark.parametrize("shape", ["swarm", "supervisor"])
def test_a_receiver_with_the_message_only_strategy_lacks_facts(shape: str):
    assert billed()[shape, MESSAGE].missing != []
    assert billed()[shape, ALL].missing == []


@careful
def test_five_hops_cost_little_more_than_one_agent_on_a_short_job_and_less_after_a_long_chat(strategy: str):
    name = strategy.replace("needs=[…]", "")
    for job, most in zip(JOBS, (1.1, 0.9), strict=True):
        assert hopped()[job.name, name].missing == 0
        assert hopped()[job.name, name].tokens <= most * hopped()[job.name, ""].tokens


def test_the_page_has_the_tables_as_they_are_measured():
    page = PAGE.read_text()
    now = rewritten(page, [receivers(measured()), whole_tasks(billed()), five_hops(hopped())])
    assert now == page, f"the figures have changed: run {COMMAND}"
