"""Every wanted story, on a store in memory and on one of the databases in turn; each is expected to fail."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from changeover.stores.memory.log import MemoryLog
from changeover.testing import assert_valid_history
from tests.any_store import any_store, postgres, sqlite_file
from tests.databases import KINDS
from tests.stories.stage import Stage
from tests.stories.wanted import WANTED
from tests.stories.wanted_book import THEMES

__all__ = ["THEMES", "any_store", "postgres", "sqlite_file"]


def tellings() -> Iterator[Any]:
    """Each story in memory and on one database; those that fail on some stores only, on each of these."""
    for number, (name, story) in enumerate(WANTED.items()):
        chosen = ("memory", KINDS[number % 2])
        for store in dict.fromkeys((*chosen, *story.stores)) if len(story.stores) < 3 else chosen:
            fails = pytest.mark.xfail(strict=True, reason=story.reason)
            yield pytest.param(store, name, marks=[fails] if store in story.stores else [], id=f"{name}-{store}")


@pytest.fixture
async def stage(any_store: str | None) -> AsyncIterator[Stage]:
    stage = Stage(store=any_store or MemoryLog())
    yield stage
    await stage.close()


@pytest.mark.parametrize(("any_store", "name"), list(tellings()), indirect=["any_store"])
async def test_the_wanted_story_holds(name: str, stage: Stage):
    await WANTED[name].tell(stage)
    for request in stage.seen:
        assert_valid_history(request)
