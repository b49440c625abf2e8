"""Of those who fit equally well, whoever has least to do."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.routing.broker import Recommendation
from changeover.routing.load import MANY, Busy, Load, Refuses, Takes, Waits, busy_faults, by_load, place
from changeover.routing.routing import Routing
from changeover.routing.statistics import draws
from tests.routing.sample_profiles import candidate

AGENTS = st.sampled_from([f"agent-{number}" for number in range(12)])
CANDIDATES = st.lists(st.builds(candidate, AGENTS, st.floats(0, 1)), unique_by=lambda each: each.agent)
LOADS = st.dictionaries(AGENTS, st.builds(Load, st.integers(0, 5), st.integers(0, 5), st.none() | st.integers(1, 4)))


def equals(*agents: str) -> list[Recommendation]:
    return [candidate(agent) for agent in agents]


def order(candidates, loads) -> list[str]:
    return [each.agent for each in by_load(candidates, loads, draws("test"))]


def test_of_equals_the_least_loaded_comes_first_by_work_in_flight_then_by_queue():
    loads = {"a": Load(2, 0), "b": Load(1, 5), "c": Load(1, 1), "d": Load(0, 9)}
    assert order(equals("a", "b", "c", "d"), loads) == ["d", "c", "b", "a"]


def test_a_better_score_comes_first_whatever_the_load():
    candidates = [candidate("idle", 0.5), candidate("expert", 0.9)]
    assert order(candidates, {"expert": Load(50, 50)}) == ["expert", "idle"]


def test_scores_that_hardly_differ_are_equal():
    candidates = [candidate("a", 0.900), candidate("b", 0.895)]
    assert order(candidates, {"a": Load(1)}) == ["b", "a"]


def test_an_agent_below_its_limit_comes_before_a_full_one_with_fewer_tasks():
    loads = {"small": Load(2, max_concurrency=2), "large": Load(7, max_concurrency=10)}
    assert order(equals("small", "large"), loads) == ["large", "small"]


def test_the_load_is_added_to_the_reasons():
    found = by_load([candidate("a", why="can refund"), candidate("b")], {"a": Load(2, 1)}, draws("test"))
    assert [each.why for each in found] == ["0 at work, 0 waiting", "can refund; 2 at work, 1 waiting"]


def work(agents: int, tasks: int, seconds: int) -> Counter[str]:
    """Who got how many tasks, if one arrives each second and each takes so long."""
    names = [f"agent-{number}" for number in range(agents)]
    done: Counter[str] = Counter(dict.fromkeys(names, 0))
    running: list[str] = []
    for task in range(tasks):
        loads = {name: Load(count) for name, count in Counter(running).items()}
        first = by_load(equals(*names), loads, draws("work", str(task)))[0].agent
        running = [*running, first][-seconds:]
        done[first] += 1
    return done


@pytest.mark.parametrize("seconds", [1, 6])
def test_four_equal_agents_end_within_a_tenth_of_each_other(seconds):
    done = work(agents=4, tasks=2_000, seconds=seconds)
    assert max(done.values()) <= 1.1 * min(done.values())


def test_with_many_equals_concurrent_choices_do_not_all_take_the_idle_one():
    names = [f"agent-{number}" for number in range(MANY + 1)]
    loads = {name: Load(1) for name in names[1:]}
    first = Counter(by_load(equals(*names), loads, draws(str(look)))[0].agent for look in range(900))
    # One of two drawn from nine is the idle one in two of nine looks.
    assert first[names[0]] == pytest.approx(200, abs=50)
    assert len(first) == len(names)


def test_with_many_equals_the_less_loaded_of_two_random_ones_comes_first():
    names = [f"agent-{number}" for number in range(MANY + 2)]
    loads = {name: Load(number) for number, name in enumerate(names)}
    first = {by_load(equals(*names), loads, draws(str(look)))[0].agent for look in range(500)}
    assert names[-1] not in first
    assert names[-2] in first


def test_with_many_equals_no_full_one_is_drawn_while_another_has_room():
    names = [f"agent-{number}" for number in range(20)]
    loads = {name: Load(1, max_concurrency=1) for name in names[1:]}
    assert {by_load(equals(*names), loads, draws(str(look)))[0].agent for look in range(50)} == {names[0]}


@given(CANDIDATES, LOADS)
def test_ordering_by_load_keeps_the_candidates_and_clearly_better_scores_ahead(candidates, loads):
    found = by_load(candidates, loads, draws("test"))
    assert sorted(each.agent for each in found) == sorted(each.agent for each in candidates)
    assert all(one.score >= 0.99 * other.score for place, one in enumerate(found) for other in found[place:])


FULL = Load(3, 1, max_concurrency=3)


def test_an_agent_below_its_limit_takes_the_task():
    assert place(equals("a", "b"), {"a": Load(2, max_concurrency=3)}, "reject") == Takes("a")
    assert place(equals("a"), {"a": Load(1_000)}) == Takes("a")


def test_a_task_for_a_busy_agent_goes_to_the_next_waits_or_is_turned_down_as_configured():
    candidates, loads, busy = equals("a", "b"), {"a": FULL}, Busy("a", FULL)
    assert place(candidates, loads) == Takes("b", passed=(busy,))
    assert place(candidates, loads, "queue") == Waits("a", busy)
    assert place(candidates, loads, "reject") == Refuses((busy,))


def test_if_all_are_busy_the_task_is_refused_with_each_load():
    refused = place(equals("a", "b"), {"a": FULL, "b": Load(1, max_concurrency=1)})
    assert isinstance(refused, Refuses)
    assert str(refused) == (
        "a is busy: 3 at work, 1 waiting, and it does 3 at once; b is busy: 1 at work, 0 waiting, and it does 1 at once"
    )


def test_without_candidates_the_task_is_refused():
    assert str(place([], {}, "queue")) == "there are no candidates"


def test_when_busy_must_be_next_queue_or_reject():
    assert [busy_faults(each) for each in ("next", "queue", "reject")] == [[], [], []]
    assert busy_faults("wait") == ["when_busy='wait'; give 'next', 'queue' or 'reject'"]


def test_no_takers_must_be_return_or_queue():
    assert [Routing(no_takers=each).faults() for each in ("return", "queue")] == [[], []]
    wrong: Any = "drop"
    assert Routing(no_takers=wrong).faults() == ["Routing(…) has no_takers='drop'; give 'return' or 'queue'"]
