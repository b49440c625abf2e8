"""Stories on Temporal: a real server, a real database, and the same stories as on the other engines."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, get_args
from uuid import uuid4

import pytest

from changeover.engines.local.dispatcher import Dispatcher
from changeover.engines.temporal import Temporal
from changeover.relay import commands, events
from changeover.relay.commands import Command
from changeover.relay.events import Entry, Unreadable
from changeover.relay.ports.engine import Engine, EngineSetup
from changeover.stores.memory.log import MemoryLog
from changeover.testing import assert_valid_history
from changeover.testing.crash import PassingLog
from tests.stories.book import STORIES, STRESS, Stage, stores_for

WIDEST = (
    "a_result_that_is_twice_not_what_was_expected_has_failed",
    "a_permission_that_is_refused_lets_the_next_condition_be_weighed",
    "a_failed_cleanup_is_retried_under_the_same_key",
    "the_sender_falls_back_whatever_way_the_receiver_fails",
    "it_can_be_read_by_section_by_query_or_from_its_beginning",
    "a_run_that_takes_too_long_takes_its_delegates_with_it",
    "a_helper_may_judge_how_much_a_task_may_take",
    "a_rule_leads_to_the_variant_of_its_receiver_and_no_further",
    "code_that_offers_to_a_receiver_with_an_open_breaker_is_told_so",
    "what_follows_an_acceptance_is_retried_with_the_same_key_until_it_is_done",
    "a_check_that_denies_answers_in_the_place_of_the_model",
    "a_rule_that_cannot_be_judged_leads_nowhere_and_says_so_once",
    "a_skill_is_loaded_and_its_instructions_are_read",
    "a_conversation_is_named_after_its_first_message_until_somebody_renames_it",
    "an_http_request_that_is_at_most_once_reaches_the_server_once",
    "a_run_does_not_wait_if_a_function_waives_every_approval",
    "an_alternative_that_a_guard_refuses_is_skipped_and_the_next_one_asked",
    "a_failed_agent_may_try_again_when_the_run_is_resumed",
    "a_receiver_that_does_not_answer_in_time_does_not_get_the_handoff",
    "a_step_whose_condition_is_false_is_skipped_and_what_follows_runs",
    "a_step_that_fails_for_good_has_the_steps_before_it_undone_in_reverse_order",
    "functions_judge_and_compute_in_code",
)
"""Stories that together have every event and every command."""
FEW = 60


def sample() -> list[str]:
    """The widest stories, and one of each other theme."""
    themes = {STORIES[name].__module__ for name in WIDEST}
    chosen = list(WIDEST)
    for name, tell in STORIES.items():
        if tell.__module__ not in themes and len(chosen) < FEW:
            themes.add(tell.__module__)
            chosen.append(name)
    return chosen


TOLD = stores_for(0) if STRESS else [("postgresql", name) for name in sample()]


@pytest.mark.stress
@pytest.mark.parametrize(("shared_store", "name"), TOLD, indirect=["shared_store"])
async def test_the_story_holds_on_temporal(name: str, shared_store: str, temporal: Callable[..., Temporal]):
    def alone(setup: EngineSetup) -> Engine:
        """Each team has a queue of its own: those of a story differ, so that none can work for another."""
        return temporal(queue=uuid4().hex)(setup)

    stage = Stage(store=shared_store, engine=alone)
    try:
        async with asyncio.timeout(60):
            await STORIES[name](stage)
    finally:
        await stage.close()
    for request in stage.seen:
        assert_valid_history(request)
    assert stage.changed() == []


class NotingLog(PassingLog):
    """A log that notes which events are appended."""

    def __init__(self, events: set[type]) -> None:
        super().__init__(MemoryLog())
        self.events = events

    async def append(self, entry: Entry, *more: Any, **named: Any) -> None:
        await self._log.append(entry, *more, **named)
        self.events.update(map(type, entry.events))


async def test_the_few_stories_that_always_run_have_every_event_and_every_command(monkeypatch: pytest.MonkeyPatch):
    recorded, given, dispatch = set[type](), set[type](), Dispatcher.dispatch

    def noting(self: Dispatcher, live: Any, found: Sequence[Command], mine: Any = None) -> Any:
        given.update(map(type, found))
        return dispatch(self, live, found, mine)

    monkeypatch.setattr(Dispatcher, "dispatch", noting)
    for name in WIDEST:
        stage = Stage(store=NotingLog(recorded))
        await STORIES[name](stage)
        await stage.close()
    assert recorded == set(get_args(events.Event)) - {Unreadable}
    assert given == set(get_args(commands.Command))
