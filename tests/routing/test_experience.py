"""Outcomes move those who do well to the front."""

from math import inf, nan

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.routing.experience import Learned, Learning, Outcome, forget, reorder, summary, update
from changeover.routing.statistics import draws
from tests.routing.sample_profiles import candidate

RATES = {"north": 0.9, "south": 0.7, "east": 0.6, "west": 0.5, "centre": 0.4}
"""How often each of five succeeds, which nobody knows."""
EQUALS = [candidate(agent) for agent in RATES]


NOTHING = Learned()


def learn(outcomes: list[Outcome], learned: Learned = NOTHING) -> Learned:
    for outcome in outcomes:
        learned = update(learned, outcome)
    return learned


def times(count: int, agent: str, success: bool = True, **more) -> list[Outcome]:
    return [Outcome("refund", agent, success, **more)] * count


def work(learned: Learned, rates: dict[str, float], tasks: int, seed: str) -> tuple[Learned, list[str]]:
    """So many tasks, each done by whoever comes first; what was learnt, and who worked."""
    chosen = []
    for task in range(tasks):
        first = reorder(learned, EQUALS, "refund", draws(seed, "choice", str(task)))[0].agent
        success = next(draws(seed, "outcome", str(task))) < rates[first]
        learned = update(learned, Outcome("refund", first, success))
        chosen.append(first)
    return learned, chosen


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_the_best_of_five_gets_most_tasks_and_loses_them_when_it_turns_bad(seed):
    learned, chosen = work(NOTHING, RATES, 2_000, seed)
    assert chosen[-500:].count("north") >= 400
    now = RATES | {"north": 0.1}
    _, chosen = work(learned, now, 400, f"{seed}, later")
    after = chosen[300:]
    assert after.count("north") <= 15
    assert sum(now[agent] for agent in after) / len(after) >= 0.8 * now["south"]


def test_an_agent_that_has_improved_is_found():
    learned, _ = work(NOTHING, RATES, 600, "before")
    _, chosen = work(learned, RATES | {"centre": 0.99}, 900, "after")
    assert chosen[-200:].count("centre") >= 140


def test_a_candidate_without_experience_is_tried():
    learned = learn(times(20, "north"))
    first = [reorder(learned, EQUALS[:2], "refund", draws(str(look)))[0].agent for look in range(400)]
    assert 4 <= first.count("south") <= 60


def test_where_there_is_no_experience_the_order_stays():
    learned = learn([Outcome("invoice", "centre", True)])
    assert reorder(learned, EQUALS, "refund", draws("test")) == EQUALS


def test_the_reasons_say_what_was_learnt():
    learned = learn([*times(18, "north"), *times(2, "north", success=False)])
    found = reorder(learned, [candidate("north", why="can refund"), candidate("south")], "refund", iter([0.5, 0.1]))
    assert [each.why for each in found] == [
        "can refund; 18 of 20 such tasks succeeded, worth 0.86 lately",
        "has not done this yet",
    ]
    tried = reorder(learned, [candidate("north"), candidate("south")], "refund", iter([0.5, 0.99]))
    assert tried[0].why == "has not done this yet; tried to learn more, though north did better so far"


FITS = st.lists(st.floats(0, 100), min_size=1, max_size=8)
OUTCOMES = st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=20)


@given(FITS, OUTCOMES, st.integers(), st.floats(0, 1))
def test_reordering_keeps_the_candidates_and_respects_the_margin(fits, outcomes, seed, margin):
    candidates = [candidate(f"agent-{number}", fit) for number, fit in enumerate(fits)]
    learned = learn([Outcome("refund", f"agent-{number}", success) for number, success in outcomes])
    found = reorder(learned, candidates, "refund", draws(str(seed)), Learning(margin=margin))
    assert sorted(each.agent for each in found) == sorted(each.agent for each in candidates)
    best = max(fits)
    assert found[0].score >= best - margin * best
    assert all(one.score >= (1 - margin) * other.score - 1e-9 for at, one in enumerate(found) for other in found[at:])


def test_a_success_is_worth_more_if_it_is_quick_and_cheap_and_always_more_than_a_failure():
    worth = Learning().worth
    assert worth(Outcome("c", "a", False, 0, 0)) == 0
    assert worth(Outcome("c", "a", True, 0, 0)) == 1
    assert worth(Outcome("c", "a", True, 60, 0)) == pytest.approx(0.95)
    assert worth(Outcome("c", "a", True, 0, 0.1)) == pytest.approx(0.95)
    assert 0.8 < worth(Outcome("c", "a", True, 1e9, 1e6)) < 0.81


@pytest.mark.parametrize("amount", [None, inf, nan])
def test_unknown_time_and_cost_do_not_lower_the_worth(amount):
    assert Learning().worth(Outcome("c", "a", True, amount, amount)) == 1
    (row,) = summary(learn(times(1, "north", seconds=amount, cost=amount)))
    assert (row.seconds, row.cost) == (None, None)


def test_a_clock_that_was_set_back_makes_no_success_worth_more_than_the_best():
    assert Learning().worth(Outcome("c", "a", True, seconds=-30.0)) == 1
    (row,) = summary(learn(times(1, "north", seconds=-30.0)))
    assert row.seconds == 0


def test_of_two_that_always_succeed_the_quick_one_comes_to_be_first():
    learned = learn([*times(150, "north", seconds=600, cost=0.1), *times(150, "south", seconds=6, cost=0.1)])
    first = [reorder(learned, EQUALS[:2], "refund", draws(str(look)))[0].agent for look in range(200)]
    assert first.count("south") >= 180


def test_after_a_half_life_of_tasks_of_all_agents_an_outcome_counts_half():
    learned = learn([*times(1, "north"), *times(200, "south")])
    full, half = learn(times(1, "north")).now("refund")["north"], learned.now("refund")["north"]
    assert (half.good, half.bad) == pytest.approx((full.good / 2, full.bad / 2))
    assert half.tasks == full.tasks


def test_outcomes_of_other_capabilities_discount_nothing():
    before = learn(times(3, "north"))
    after = learn([Outcome("invoice", "north", True)] * 100, before)
    assert after.now("refund") == before.now("refund")


def test_a_summary_lists_all_agents_the_best_of_each_capability_first():
    learned = learn(
        [
            *times(3, "north", success=False, seconds=10, cost=0.5),
            *times(4, "south", seconds=20),
            Outcome("invoice", "north", True, cost=0.25),
        ]
    )
    rows = summary(learned)
    assert [(row.capability, row.agent, row.tasks, row.successes) for row in rows] == [
        ("invoice", "north", 1, 1),
        ("refund", "south", 4, 4),
        ("refund", "north", 3, 0),
    ]
    assert [(row.seconds, row.cost) for row in rows] == [(None, 0.25), (20, None), (10, 0.5)]
    assert all(0 < row.low < row.worth < row.high < 1 for row in rows)


def test_what_was_learnt_can_be_forgotten_in_part_or_whole():
    learned = learn([*times(2, "north"), *times(2, "south"), Outcome("invoice", "north", True)])

    def left(**what: str) -> list[tuple[str, str]]:
        return [(row.capability, row.agent) for row in forget(learned, **what).rows()]

    assert left() == []
    assert left(capability="refund") == [("invoice", "north")]
    assert left(agent="north") == [("refund", "south")]
    assert left(capability="refund", agent="north") == [("refund", "south"), ("invoice", "north")]


def test_what_was_learnt_survives_as_json_and_as_rows():
    learned = learn([*times(2, "north", seconds=3, cost=0.1), *times(2, "south"), Outcome("invoice", "north", True)])
    assert msgspec.json.decode(msgspec.json.encode(learned), type=Learned) == learned
    assert Learned.of(reversed(learned.rows())) == learned


def test_an_update_leaves_what_was_known_before_as_it_was():
    before = learn(times(2, "north"))
    kept = msgspec.json.encode(before)
    update(before, Outcome("refund", "north", False))
    assert msgspec.json.encode(before) == kept


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"half_life": 0}, "half_life=0; give a number above 0"),
        ({"usual_cost": "little"}, "usual_cost='little'; give a number above 0"),
        ({"margin": 1.5}, "margin=1.5; give a share from 0 to 1"),
        ({"speed": -0.1}, "speed=-0.1; give a share from 0 to 1"),
        ({"speed": True}, "speed=True; give a share from 0 to 1"),
        ({"thrift": nan}, "thrift=nan; give a share from 0 to 1"),
        ({"speed": 0.6, "thrift": 0.6}, "speed=0.6 and thrift=0.6 are more than 1 together"),
    ],
)
def test_a_learning_that_cannot_work_says_so(wrong, fault):
    assert Learning().faults() == []
    assert Learning(**wrong).faults() == [fault]
