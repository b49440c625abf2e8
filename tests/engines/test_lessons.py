"""Lessons from past tasks: through real runs, on one store and shared by several teams."""

from collections.abc import Sequence
from math import inf

import pytest

from changeover import Agent, Team, specialist
from changeover.engines.lessons import CAPABILITIES, MANY, OVERLAP, PAUSE, folded, reset, standings
from changeover.engines.local.dispatcher import Dispatcher
from changeover.messages import Message, ToolResult
from changeover.relay.editions import Editions
from changeover.relay.events import RollbackRequested
from changeover.relay.ports.log import Log
from changeover.relay.ports.tables import MOST, Lesson
from changeover.routing import Routing
from changeover.routing.experience import DEFAULT, Learned
from changeover.routing.statistics import draw
from changeover.stores.memory.experience import MemoryLessons
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ManualClock, Reply, ScriptedModel, calls, fails, says
from changeover.tools.tool import ToolDefinition
from tests.databases import KINDS, postgres, sqlite_file
from tests.relay.world import a_world, dispatcher_of
from tests.stores.test_experience import BROKEN, CALL, FOUND, ended, offered

__all__ = ["postgres", "sqlite_file"]

REFUND = ("handoff_to_specialist", {"specialist_type": "refunds", "task": "Pay it.", "reason": "I cannot."})


def able(name: str, **options: object) -> Agent:
    return Agent(name, capabilities=["refunds"], handoffs=(), **options)  # type: ignore[arg-type]


def office(rates: dict[str, float], *members: Agent, store: str | Log | None = None, **options: object) -> Team:
    """A desk whose tasks others can do, each of whom succeeds so often."""
    done = dict.fromkeys(rates, 0)

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "desk":
            return says("Done.") if isinstance(messages[-1], ToolResult) else calls(REFUND)
        done[agent] += 1
        lucky = draw("luck", agent, str(done[agent])) < rates[agent]
        return says("Paid back.") if lucky else fails("out of order", retryable=False)

    team = [Agent("desk", handoffs=[specialist()]), *(members or map(able, rates))]
    return Team(team, model=ScriptedModel(play), store=store, guards=[], **options)  # type: ignore[arg-type]


async def receivers(team: Team, prefix: str, times: int, clock: ManualClock | None = None) -> list[str]:
    """Who gets so many tasks, one after the other."""
    found = []
    for number in range(times):
        conversation = f"{prefix}-{number}"
        await team.run("Give it back.", conversation=conversation)
        found += [each.receiver for each in await team.handoffs(conversation)]
        if clock is not None:
            await clock.sleep_until(clock.now() + 1)
    return found


async def known(team: Team) -> dict[str, tuple[int, int]]:
    """How many tasks each had, and how many of them succeeded."""
    found = await standings(team.log.experience)
    return {each.agent: (each.tasks, each.successes) for each in found}


@pytest.fixture(params=["memory", *KINDS])
def store(request: pytest.FixtureRequest) -> str | Log:
    """Something that two teams can share."""
    match request.param:
        case "memory":
            return MemoryLog()
        case "sqlite":
            return f"sqlite:///{request.getfixturevalue('sqlite_file')}"
        case _:
            url: str = request.getfixturevalue("postgres")
            return url


async def test_the_better_of_two_gets_most_tasks_in_the_end():
    clock = ManualClock(auto=True)
    team = office({"often": 0.9, "seldom": 0.5}, clock=clock)
    found = await receivers(team, "task", 300, clock)
    assert found[:100].count("seldom") >= 5, "the worse was hardly tried, so that little is shown"
    assert found[-100:].count("often") >= 80
    await team.close()


async def test_without_learning_both_get_as_many():
    team = office({"often": 0.9, "seldom": 0.5}, routing=Routing(learning=None))
    found = await receivers(team, "task", 100)
    assert 35 <= found.count("seldom") <= 65
    await team.close()


async def test_teams_on_one_store_learn_from_each_other(store: str | Log):
    first, second = (office({"good": 1.0, "bad": 0.0}, store=store) for _ in range(2))
    mine = await receivers(first, "mine", 12)
    assert set(mine) == {"good", "bad"}
    theirs = await receivers(second, "theirs", 8)
    assert theirs.count("good") >= 7
    together = mine + theirs
    expected = {"good": (together.count("good"),) * 2, "bad": (together.count("bad"), 0)}
    assert await known(first) == await known(second) == {name: row for name, row in expected.items() if row[0]}
    await first.close()
    await second.close()


async def test_what_one_team_resets_another_has_forgotten_too(store: str | Log):
    first, second = (office({"good": 1.0, "bad": 0.0}, store=store) for _ in range(2))
    await receivers(first, "mine", 6)
    assert await learned(dispatcher_of(second)) != Learned()
    await reset(first.log.experience, first.clock.now())
    assert await learned(dispatcher_of(second)) == Learned()
    await first.close()
    await second.close()


async def test_who_takes_no_handoffs_is_not_asked_however_well_it_did():
    log = MemoryLog()
    first = office({"good": 1.0, "bad": 0.0}, store=log)
    await receivers(first, "before", 8)
    shy = office({"good": 1.0, "bad": 0.0}, able("good", accepts_handoffs=False), able("bad"), store=log)
    assert await receivers(shy, "after", 4) == ["bad"] * 4
    await first.close()
    await shy.close()


async def learned(engine: Dispatcher, capability: str = "refunds") -> Learned:
    """What an engine knows when somebody is looked for."""
    return await engine.directory.learned(capability)


def tasks(found: Learned) -> int:
    return sum(row.tasks for row in found.rows())


@pytest.fixture
async def engine() -> Dispatcher:
    """An engine on a log in memory, with a clock that stands still."""
    return Dispatcher(MemoryLog(), Editions(a_world([Agent("front")], ScriptedModel({}))))


async def test_while_little_is_known_every_outcome_counts_at_once(engine: Dispatcher):
    for number in range(3):
        await offered(engine.log, f"c{number}", "refunds")
        await ended(engine.log, f"c{number}", FOUND)
        assert tasks(await learned(engine)) == number + 1


async def test_where_much_is_known_the_store_is_asked_once_a_second(engine: Dispatcher):
    for number in range(MANY):
        await offered(engine.log, f"c{number}", "refunds")
        await ended(engine.log, f"c{number}", FOUND)
    assert tasks(await learned(engine)) == MANY
    await offered(engine.log, "new", "refunds")
    await ended(engine.log, "new", FOUND, at=20.0)
    assert tasks(await learned(engine)) == MANY
    await engine.directory.world.clock.sleep_until(engine.directory.world.clock.now() + PAUSE)
    assert tasks(await learned(engine)) == MANY + 1


async def test_an_outcome_that_is_seen_late_counts_in_its_place(engine: Dispatcher):
    for id in ("a", "b"):
        await offered(engine.log, id, "refunds")
    await ended(engine.log, "a", FOUND, at=20.0)
    await learned(engine)
    await ended(engine.log, "b", BROKEN, at=19.0)
    found = await engine.log.experience.outcomes("refunds")
    assert [each.handoff for each in found] == [f"b:{CALL}", f"a:{CALL}"]
    assert await learned(engine) == folded(found, DEFAULT)


async def test_a_failure_that_was_taken_back_is_held_against_nobody(engine: Dispatcher):
    for id in ("a", "b"):
        await offered(engine.log, id, "refunds")
    await ended(engine.log, "a", FOUND)
    await ended(engine.log, "b", BROKEN)
    assert tasks(await learned(engine)) == 2
    await ended(engine.log, "b", RollbackRequested(CALL), at=15.0, position=7, cause="undo")
    assert tasks(await learned(engine)) == 1


async def test_what_is_long_over_is_forgotten_too_when_somebody_resets_it(engine: Dispatcher):
    for number, at in enumerate((100.0, 300.0)):
        await offered(engine.log, f"c{number}", "refunds", at=at - 4)
        await ended(engine.log, f"c{number}", FOUND, at=at)
    assert tasks(await learned(engine)) == 2
    await engine.log.experience.reset(200.0)
    assert tasks(await learned(engine)) == 1


async def test_what_is_long_over_is_not_read_again():
    lessons: list[float] = []

    class Noting(MemoryLessons):
        async def outcomes(self, capability: str, after: float = -inf, most: int = MOST) -> list[Lesson]:
            lessons.append(after)
            return await super().outcomes(capability, after, most)

    class NotingLog(MemoryLog):
        def __init__(self) -> None:
            super().__init__()
            self._lessons = Noting(self._lock, self._entries, self._cost)

    engine = Dispatcher(NotingLog(), Editions(a_world([Agent("front")], ScriptedModel({}))))
    for number, at in enumerate((100.0, 200.0)):
        await offered(engine.log, f"c{number}", "refunds", at=at - 4)
        await ended(engine.log, f"c{number}", FOUND, at=at)
        assert tasks(await learned(engine)) == number + 1
    await learned(engine)
    assert lessons == [-inf, 100.0 - OVERLAP, 200.0 - OVERLAP]


async def test_of_what_models_make_up_not_everything_is_kept(engine: Dispatcher):
    for number in range(CAPABILITIES + 5):
        assert await learned(engine, f"kind-{number}") == Learned()
    assert len(engine.directory._recollection._known) == CAPABILITIES
