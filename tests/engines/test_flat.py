"""What a turn costs must not grow with the turns before it."""

from collections.abc import Iterator, ValuesView
from typing import Any

from changeover import Agent, Team
from changeover.relay.run import Outcome
from changeover.testing import ScriptedModel, says


class FromTheEnd(dict[int, Outcome]):
    """Outcomes that nobody may go through from the first on."""

    def values(self) -> Any:
        return Backwards(self)

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("all runs of the conversation were gone through")


class Backwards(ValuesView[Outcome]):
    def __init__(self, outcomes: FromTheEnd) -> None:
        self._last = list(dict.values(outcomes))[-1]

    def __iter__(self) -> Iterator[Outcome]:
        raise AssertionError("all runs of the conversation were gone through")

    def __reversed__(self) -> Iterator[Outcome]:
        return iter([self._last])


async def test_the_end_of_a_run_looks_at_no_earlier_one():
    team = Team([Agent("solo")], model=ScriptedModel(lambda agent, messages, tools: says("hello")))
    await team.run("hello", conversation="c")
    live = team._running().lives.here("c")
    assert live is not None
    live.state.outcomes = FromTheEnd(live.state.outcomes)
    result = await team.run("hello again", conversation="c")
    assert result.ledger.by_agent["solo"].turns == 1
    await team.close()
