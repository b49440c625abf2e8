"""A conversation whose append fails because the store is away for a moment goes on by itself."""

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
