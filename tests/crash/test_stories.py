"""Every story on a database, and every story with crashes: repeated from its start on the same log."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from changeover import Team
from changeover.agent.agent import Member
from changeover.relay.ports.log import Log
from changeover.stores.memory.log import MemoryLog
from changeover.stores.store import Store, open_log
from changeover.testing import ScriptedModel, assert_valid_history
from changeover.testing.crash import Death, MortalLog
from changeover.testing.effects import Effects
from tests.databases import empty, empty_file
from tests.stories.book import STORIES, Stage, Story, stores_for

pytestmark = pytest.mark.stress

STRESS = "CHANGEOVER_STRESS" in os.environ
SAMPLE = list(STORIES) if STRESS else list(STORIES)[::8]
PATIENCE = 10.0
"""For how many seconds a story may go on before it counts as stuck."""
LAST_BREATH = 0.05
"""How often a life is looked at that may be waiting for what never comes."""


class Watched(Stage):
    """A stage on which every effect is noted, also those of tools and functions."""

    def __init__(self, log: Log) -> None:
        super().__init__(store=log)
        self.happened = Effects()

    def team(self, members: Sequence[Member], model: ScriptedModel | None = None, **options: object) -> Team:
        built = len(self._teams)
        team = super().team(members, model, **options)
        if len(self._teams) > built:
            team = self._teams[-1] = team.on(team._declared.store, self.happened.watch)
        return team


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is imported with a process's first store and first tool takes longer than some stories care to wait."""

    async def first() -> None:
        stage = Stage(store=f"sqlite:///{tmp_path_factory.mktemp('warm') / 'store.db'}")
        await STORIES["a_tool_is_called_with_what_the_model_wrote"](stage)
        await stage.close()

    asyncio.run(first())


async def in_one_go(tell: Story) -> int:
    """The number of appends of a story without a crash."""
    log = MortalLog(MemoryLog())
    stage = Stage(store=log)
    await tell(stage)
    await stage.close()
    return log.appends


async def dies(tell: Story, log: Log, at: int, death: Death) -> Watched | None:
    """The first life, up to its death; None if the story was over before."""
    mortal = MortalLog(log, at, death)
    stage = Watched(mortal)
    life = asyncio.ensure_future(tell(stage))
    try:
        async with asyncio.timeout(PATIENCE):
            # What a dead process waits for never comes.
            while not (await asyncio.wait([life], timeout=LAST_BREATH))[0] and not mortal.dead:
                pass
            if life.done():
                life.result()
    except Exception:
        if not mortal.dead:
            raise
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
    await stage.close()
    stage.happened.check_histories()
    return stage if mortal.dead else None


async def goes_on(tell: Story, log: Log, before: Watched) -> None:
    """The second life: the story holds, and nothing happens that is recorded, nor an at-most-once effect again."""
    done = await before.happened.done(log)
    stage = Watched(MortalLog(log))
    stage.effects, stage.lives = before.effects, 2
    async with asyncio.timeout(PATIENCE):
        await tell(stage)
    await stage.close()
    assert stage.happened.keys & done == set()
    assert stage.happened.once & before.happened.once == set()
    assert {f"{request.conversation}:{request.command}" for request in stage.seen} & done == set()
    for request in stage.seen:
        assert_valid_history(request)


@pytest.mark.parametrize(("shared_store", "name"), stores_for(1), indirect=["shared_store"])
async def test_the_story_holds_on_a_database(name: str, shared_store: str):
    stage = Stage(store=shared_store)
    try:
        await STORIES[name](stage)
    finally:
        await stage.close()
    for request in stage.seen:
        assert_valid_history(request)


def deaths() -> Iterator[tuple[str, Death]]:
    """How the process dies in each story: in every way, or in one, each story in another."""
    ways = list(Death)
    for number, name in enumerate(STORIES):
        yield from ((name, way) for way in (ways if STRESS else [ways[number % len(ways)]]))


@pytest.mark.parametrize(
    ("name", "death"), list(deaths()), ids=lambda each: each.name if isinstance(each, Death) else each
)
async def test_the_story_holds_though_the_process_dies_at_any_append(name: str, death: Death):
    tell = STORIES[name]
    appends = await in_one_go(tell)
    for at in places_to_die(appends):
        log = MemoryLog()
        before = await dies(tell, log, at, death)
        assert before, f"the story took fewer appends than {appends}"
        await goes_on(tell, log, before)


class Places:
    """Empty logs on a database, one after another."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder, self._given = url, folder, 0

    @asynccontextmanager
    async def empty(self) -> AsyncIterator[Log]:
        self._given += 1
        url = self._url
        if url.startswith("sqlite:"):
            url = f"sqlite:///{empty_file(self._folder / f'{self._given}.db')}"
        elif self._given > 1:
            await asyncio.to_thread(empty, url)
        log = await asyncio.to_thread(open_log, Store(url))
        try:
            yield log
        finally:
            await log.close()


def places_to_die(appends: int) -> list[int]:
    """Every append, or the first, the last and some between."""
    most = appends if STRESS else min(appends, 3)
    return sorted({1 + round(step * (appends - 1) / max(1, most - 1)) for step in range(most)})


def cuts(number: int, appends: int) -> Iterator[tuple[int, Death]]:
    """At which appends a story is cut: all and in every way, or three of them, each in another way."""
    if STRESS:
        yield from ((at, death) for at in range(1, appends + 1) for death in Death)
        return
    ways = list(Death)
    places = dict.fromkeys((1, (appends + 1) // 2, appends)) if appends else {}  # without appends there is no crash
    yield from ((at, ways[(number + turn) % len(ways)]) for turn, at in enumerate(places))


@pytest.mark.parametrize("name", SAMPLE)
async def test_the_story_holds_on_a_database_though_the_process_dies(name: str, shared_store: str, tmp_path: Path):
    tell, places = STORIES[name], Places(shared_store, tmp_path)
    for wanted, death in cuts(SAMPLE.index(name), await in_one_go(tell)):
        # On a slow database the story may take fewer appends than in memory: then it dies at the last one it takes.
        for at in range(wanted, -1, -1):
            assert at, "the story took no append"
            async with places.empty() as log:
                if before := await dies(tell, log, at, death):
                    await goes_on(tell, log, before)
                    break
