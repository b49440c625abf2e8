"""Who is found for a task, in which order, and why."""

from typing import assert_never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.routing.broker import (
    ENOUGH,
    MOST,
    Found,
    NoMatch,
    Recommendation,
    Undecided,
    decided,
    find_for_task,
    recommend,
)
from changeover.routing.profile import Profile, abilities, key
from changeover.routing.registry import Registry

BILLING = Profile(
    "billing",
    description="Settles payments.",
    capabilities=("refunds", "invoicing"),
    examples=("My invoice is wrong.",),
)
TECHNICAL = Profile("technical", description="Finds out why the app crashes.", capabilities=("python",))
DATA = Profile("data", description="Draws charts.", specialization="data analysis", capabilities=("Python", "SQL"))
REGISTRY = Registry([BILLING, TECHNICAL, DATA])


def why(task: str, *required: str) -> str:
    return recommend(REGISTRY, task, required)[0].why


def test_the_reason_names_required_capabilities_in_the_words_of_the_profile():
    assert recommend(REGISTRY, "", ["sql", "python"]) == (
        Recommendation("data", 1.0, "has the capabilities SQL and Python", "exact"),
    )
    assert why("", "refunds") == "has the capability refunds"
    assert why("", "Data_Analysis") == "is specialised in data analysis"
    assert why("", "sql", "data analysis") == "has the capability SQL and is specialised in data analysis"


def test_no_capability_and_an_unknown_one_find_no_agent():
    assert recommend(REGISTRY, "") == ()
    assert recommend(REGISTRY, "", ["python", "cobol"]) == ()


def test_a_text_match_says_which_words_it_found_and_where():
    assert why("A refund for this invoice") == "its capabilities and examples mention refunds, invoicing"
    assert why("It crashes") == "its description mentions crashes"


def test_the_reason_for_a_synonym_names_the_word_of_the_task():
    assert why("You took my money") == (
        "its name, description, capabilities and examples mention billing, payments, refunds, invoicing, close to money"
    )


def test_agents_with_the_required_capabilities_are_ranked_by_text():
    ranked = recommend(REGISTRY, "The app crashes", ["python"])
    assert [each.agent for each in ranked] == ["technical", "data"]
    assert ranked[0].score == 1.0 > ranked[1].score
    assert ranked[0].why == "has the capability python, and its description mentions app, crashes"
    assert find_for_task(REGISTRY, "The app crashes", ["python"]) == Found(ranked[0])


def test_agents_with_the_required_capabilities_and_the_same_score_are_equals():
    found = find_for_task(REGISTRY, "Something else", ["python"])
    assert isinstance(found, Found)
    assert (found.best.agent, [each.agent for each in found.equals]) == ("data", ["technical"])


def test_a_task_that_is_the_name_of_a_capability_requires_it():
    assert find_for_task(REGISTRY, "SQL") == Found(Recommendation("data", 1.0, "has the capability SQL", "exact"))
    assert find_for_task(REGISTRY, "data-analysis") == Found(
        Recommendation("data", 1.0, "is specialised in data analysis", "exact")
    )


def test_no_model_is_asked_if_no_agent_has_the_capability():
    assert find_for_task(REGISTRY, "The app crashes", ["python", "cobol"]) == NoMatch(
        "no available agent has python and cobol"
    )
    assert recommend(REGISTRY, "The app crashes", ["python", "cobol"]) == ()


def test_no_model_is_asked_for_an_empty_task_or_an_empty_registry():
    assert find_for_task(REGISTRY, " \n") == NoMatch("the task is empty")
    assert find_for_task(Registry(), "The app crashes") == NoMatch("no agent is available for handoffs")


def test_a_text_that_fits_clearly_is_an_answer():
    found = find_for_task(REGISTRY, "The app crashes")
    assert isinstance(found, Found)
    assert (found.best.agent, found.best.step, found.equals) == ("technical", "text", ())


@pytest.mark.parametrize("task", ["Make me laugh", "A crash with a refund", "The tea is cold and so is the app"])
def test_no_match_a_tie_and_a_weak_match_are_undecided(task: str):
    found = find_for_task(REGISTRY, task)
    assert isinstance(found, Undecided)
    assert {profile.id for profile in found.candidates} == {"billing", "technical", "data"}


def test_a_good_match_is_undecided_if_another_scores_more_than_half():
    assert [each.agent for each in recommend(REGISTRY, "The app crashes with the refund")] == ["technical", "billing"]
    assert recommend(REGISTRY, "The app crashes with the refund")[0].score > ENOUGH
    assert isinstance(find_for_task(REGISTRY, "The app crashes with the refund"), Undecided)


def test_candidates_for_the_judge_are_ordered_by_score():
    found = find_for_task(REGISTRY, "The tea is cold and so is the app")
    assert isinstance(found, Undecided)
    assert [profile.id for profile in found.candidates] == ["technical", "billing", "data"]


def test_the_number_of_candidates_for_a_model_is_limited():
    registry = Registry(Profile(f"agent-{number}") for number in range(MOST + 1)).with_profile(TECHNICAL)
    found = find_for_task(registry, "The tea is cold and so is the app")
    assert isinstance(found, Undecided)
    assert len(found.candidates) == MOST
    assert found.candidates[0] == TECHNICAL


def test_two_agents_with_the_same_profile_are_equals_and_not_a_tie():
    other = Profile("technical-2", description=TECHNICAL.description, capabilities=("python",), max_concurrency=4)
    found = find_for_task(REGISTRY.with_profile(other), "The app crashes")
    assert isinstance(found, Found)
    assert (found.best.agent, [each.agent for each in found.equals]) == ("technical", ["technical-2"])


def test_the_choice_of_the_judge_is_found_and_an_invented_agent_is_not():
    undecided = find_for_task(REGISTRY, "A crash with a refund")
    assert isinstance(undecided, Undecided)
    first = undecided.candidates[0]
    found = decided(undecided, "1")
    assert isinstance(found, Found)
    assert (found.best.agent, found.best.step) == (first.id, "judge")
    assert found.best.why.startswith("the model chose it among 3; its ")
    assert decided(undecided, "billing, of course") == NoMatch("the model found none of 3 agents that fits")
    assert decided(undecided, "NONE") == NoMatch("the model found none of 3 agents that fits")


def test_at_most_n_agents_are_recommended():
    assert len(recommend(REGISTRY, "A crash, a refund and a chart", n=2)) == 2
    assert recommend(REGISTRY, "A crash", n=0) == recommend(REGISTRY, "A crash", n=-1) == ()


WORDS = ["invoice", "refunds", "app", "crash", "parcel", "wool", "python", "sql", "data-analysis", "the"]
some_words = st.lists(st.sampled_from(WORDS), max_size=4)
mostly = st.sampled_from([True, True, True, False])
profiles = st.lists(
    st.builds(
        Profile,
        st.sampled_from(["a", "b", "c", "d", "billing-2"]),
        description=some_words.map(" ".join),
        specialization=st.sampled_from(["", "sql", "Data Analysis"]),
        capabilities=st.lists(st.sampled_from(["python", "Sql", "data-analysis"]), max_size=2).map(tuple),
        examples=some_words.map(lambda words: (" ".join(words),)),
        accepts_handoffs=mostly,
        enabled=mostly,
    ),
    max_size=5,
    unique_by=lambda profile: profile.id,
)
tasks = some_words.map(" ".join) | st.text()
required = st.lists(st.sampled_from(["python", "SQL", "data_analysis"]), max_size=2) | st.just(["cobol", ""])


def named(registry: Registry, task: str, required: list[str]) -> list[str]:
    """Everybody whom anything names for a task."""
    found = find_for_task(registry, task, required)
    agents = [each.agent for each in recommend(registry, task, required, n=9)]
    match found:
        case Found():
            return [*agents, found.best.agent, *(each.agent for each in found.equals)]
        case Undecided():
            return [*agents, *(profile.id for profile in found.candidates)]
        case NoMatch():
            return agents
        case _:
            assert_never(found)


@given(profiles, tasks, required)
def test_only_available_agents_are_named(profiles, task, required):
    open_ = {profile.id for profile in profiles if profile.enabled and profile.accepts_handoffs}
    assert set(named(Registry(profiles), task, required)) <= open_


@given(profiles, tasks, required)
def test_every_named_agent_has_all_required_capabilities(profiles, task, required):
    registry = Registry(profiles)
    for agent in named(registry, task, required):
        profile = registry.get(agent)
        assert profile
        assert set(map(key, required)) <= abilities(profile).keys()


@given(profiles.flatmap(lambda each: st.tuples(st.just(each), st.permutations(each))), tasks, required)
def test_the_order_of_registration_changes_nothing(orders, task, required):
    one, other = map(Registry, orders)
    assert recommend(one, task, required) == recommend(other, task, required)
    assert find_for_task(one, task, required) == find_for_task(other, task, required)


@given(profiles, tasks, required)
def test_a_recommendation_has_a_reason_and_a_score_and_the_best_comes_first(profiles, task, required):
    ranked = recommend(Registry(profiles), task, required, n=9)
    assert all(each.why and 0 < each.score <= 1 for each in ranked)
    assert [each.score for each in ranked] == sorted((each.score for each in ranked), reverse=True)
