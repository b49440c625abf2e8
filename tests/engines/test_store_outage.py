"""A conversation whose append fails because the store is away for a moment goes on by itself."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from changeover import Agent, Team
from changeover.errors import StoreUnavailable
from changeover.relay.events import RunCompleted
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import Store
from changeover.testing import ScriptedModel, says
from tests.databases import postgres, shared_store, sqlite_file
from tests.engines.test_cancellation import Slow, in_time
from tests.stores.entries import until

__all__ = ["postgres", "shared_store", "sqlite_file"]


def fails_at(monkeypatch: pytest.MonkeyPatch, *appends: int) -> None:
    """Let these appends fail, counted from 1, as if the store were away."""
    append: Callable[..., Any] = SqlLog.append
    count = 0

    async def failing(log: SqlLog, *given: Any) -> None:
        nonlocal count
        count += 1
        if count in appends:
            raise StoreUnavailable("the store is away")
        await append(log, *given)

    monkeypatch.setattr(SqlLog, "append", failing)


@pytest.mark.parametrize("appends", [(2,), (2, 3, 4)])
async def test_a_process_that_still_owns_a_conversation_goes_on_with_it_when_the_store_is_back(
    shared_store: str, monkeypatch: pytest.MonkeyPatch, appends: tuple[int, ...]
):
    fails_at(monkeypatch, *appends)
    model = ScriptedModel({"a": [says("Three.")]})
    async with Team([Agent("a")], model=model, store=Store(shared_store, lease=2.0)) as team:
        with pytest.raises(StoreUnavailable):
            await team.run("How many?", conversation="c")

        async def completed() -> bool:
            return any(isinstance(record.event, RunCompleted) for record in await team.history("c"))

        await until(completed, 20)
    assert len(model.requests) <= 1 + len(appends)


async def test_an_input_of_another_process_is_heard_though_the_store_is_away_when_it_is_taken_up(
    shared_store: str, monkeypatch: pytest.MonkeyPatch
):
    claim: Callable[..., Any] = SqlLog.claim
    failed = list[str]()

    async def failing(log: SqlLog, conversation: str) -> bool:
        if log is first.log and not failed:
            failed.append(conversation)
            raise StoreUnavailable("the store is away")
        return bool(await claim(log, conversation))

    slow, store = Slow(), Store(shared_store, lease=0.5)
    async with slow.team(store, "model of lead") as first, slow.team(store, "model of lead") as second:
        running = asyncio.create_task(first.run("go", conversation="c"))
        await asyncio.wait_for(slow.begun.wait(), 10)
        monkeypatch.setattr(SqlLog, "claim", failing)
        assert await in_time(lambda: second.cancel("c")) is True
        assert failed == ["c"]
        assert (await in_time(lambda: running)).status == "cancelled"
