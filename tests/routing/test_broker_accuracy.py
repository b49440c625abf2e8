"""How often the right agent is found, on sixty tasks for eight agents that are described in one sentence each."""

import pytest

from bench.routing import NOBODYS, SOMEBODYS, by_all_steps, by_capability, by_text, hits, made_up, settled
from changeover.routing.broker import Undecided, find_for_task
from changeover.routing.registry import Registry
from tests.routing.sample_profiles import PROFILES
from tests.routing.sample_tasks import TASKS
from tests.routing.table_judge import INVENTED, MISTAKES


def test_the_set_has_sixty_tasks_ten_of_them_nobodys_and_names_only_agents_of_the_set():
    assert (len({task.text for task in TASKS}), len(NOBODYS), len(PROFILES)) == (60, 10, 8)
    assert {agent for task in TASKS for agent in task.right} == {profile.id for profile in PROFILES}


def test_all_steps_find_the_right_agent_in_ninety_five_percent():
    assert hits(by_all_steps, TASKS) >= 95
    assert hits(by_all_steps, SOMEBODYS) >= 95
    assert hits(by_all_steps, SOMEBODYS, within=2) >= 95


def test_all_steps_recognise_nine_of_ten_tasks_for_which_no_agent_fits():
    assert hits(by_all_steps, NOBODYS) >= 90


def test_a_fifth_of_the_tasks_is_decided_without_a_model_and_correctly():
    wrong = [(task.text, agent) for task, agent in settled() if agent not in (task.right or ("",))]
    assert wrong == []
    assert len(settled()) >= len(TASKS) / 5


def test_words_alone_rank_the_right_agent_first_in_six_of_ten():
    words = by_text(Registry(PROFILES))
    assert hits(words, SOMEBODYS) >= 60
    assert hits(words, SOMEBODYS, within=2) >= 70


def test_capabilities_alone_find_no_agent_for_tasks_for_which_none_fits():
    assert hits(by_capability, NOBODYS) == 100


@pytest.mark.parametrize("text", [*MISTAKES, *INVENTED])
def test_tasks_that_the_judge_gets_wrong_are_undecided_before_it(text: str):
    assert isinstance(find_for_task(Registry(PROFILES), text), Undecided)


def test_made_up_profiles_differ():
    assert len({made_up(number) for number in range(1_000)}) == 1_000
    assert len({made_up(number).description for number in range(1_000)}) > 900
