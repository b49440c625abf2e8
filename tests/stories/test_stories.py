"""Every story on a store in memory: once, again from its start, and streamed."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from changeover import RunResult, Team
from changeover.errors import ChangeoverError
from changeover.relay.ports.log import Log
from changeover.stores.memory.log import MemoryLog
from changeover.stream import RunFinished, StreamItem
from changeover.testing import assert_valid_history
from tests.stories.book import STORIES, STRESS, Stage, Story


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    await stage.close()


class ReadAlong(Stage):
    """A stage on which every run is streamed, and its result is what the stream ends with."""

    async def run(self, team: Team, text: str, options: dict[str, Any]) -> RunResult:
        return await self._last(team.stream(text, **options))

    async def run_flow(self, team: Team, workflow: str, inputs: Any, options: dict[str, Any]) -> RunResult:
        return await self._last(team.stream_workflow(workflow, inputs, **options))

    async def _last(self, stream: AsyncIterator[StreamItem]) -> RunResult:
        items = [item async for item in stream]
        assert [isinstance(item, RunFinished) for item in items] == [False] * (len(items) - 1) + [True]
        finished = items[-1]
        assert isinstance(finished, RunFinished)
        return finished.result


def what_is_known(outcome: RunResult | ChangeoverError) -> tuple[object, ...]:
    """A result or an error without what may differ from one telling to the next: positions and times."""
    if isinstance(outcome, ChangeoverError):
        return type(outcome), str(outcome), outcome.result and what_is_known(outcome.result)
    chain = [(h.sender, h.receiver, h.message, h.mode, h.state, h.variables) for h in outcome.handoff_chain]
    return outcome.output, outcome.final_agent, outcome.status, chain, outcome.context, outcome.usage


@pytest.mark.parametrize("tell", STORIES.values(), ids=STORIES)
async def test_the_story_holds_and_leaves_histories_whole_and_declarations_as_they_were(tell: Story, stage: Stage):
    await tell(stage)
    for request in stage.seen:
        assert_valid_history(request)
    assert stage.changed() == []


AGAIN: dict[str, Callable[[], Log] | None] = {"same teams": None, "new teams on the same log": MemoryLog}


def retellings() -> Iterator[tuple[str, str]]:
    """The teams that repeat each story: under stress the same and new ones, else alternating."""
    for number, name in enumerate(STORIES):
        yield from ((who, name) for who in (AGAIN if STRESS else [list(AGAIN)[number % 2]]))


@pytest.mark.parametrize(("who", "name"), list(retellings()))
async def test_a_story_told_again_from_its_start_finds_everything_recorded(who: str, name: str):
    tell, store = STORIES[name], AGAIN[who]
    stage = Stage(store=store()) if store else Stage()
    await tell(stage)
    asked, done, ends = len(stage.seen), list(stage.effects), list(map(what_is_known, stage.outcomes.values()))
    stage.restart()
    await tell(stage)
    assert (len(stage.seen), stage.effects) == (asked, done)
    assert list(map(what_is_known, stage.outcomes.values())) == ends
    await stage.close()


@pytest.mark.parametrize("tell", STORIES.values(), ids=STORIES)
async def test_a_story_that_is_read_along_ends_as_it_does_unread(tell: Story, stage: Stage):
    await tell(stage)
    streamed = ReadAlong()
    try:
        await tell(streamed)
    finally:
        await streamed.close()
    assert {number: what_is_known(outcome) for number, outcome in streamed.outcomes.items()} == {
        number: what_is_known(outcome) for number, outcome in stage.outcomes.items()
    }
