"""Appends that are committed together stay below what the database takes as one value.

The limit is lowered by way of the driver, because the real one is a gigabyte.
"""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Team
from changeover.errors import MisconfiguredError
from changeover.stores.sql.dialects import bulk
from changeover.testing import ScriptedModel, says

MOST = 200_000
"""How many bytes one value may have here."""
LARGE = "x" * 20_000


@pytest.fixture
def small_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection to SQLite takes values up to the limit."""
    connect = sqlite3.connect

    def limited(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST)
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)


async def test_one_entry_below_the_limit_is_kept(sqlite_file: Path, small_values: None):
    model = ScriptedModel(lambda *_: says("Hello."))
    async with Team([Agent("desk")], model=model, store=f"sqlite:///{sqlite_file}") as team:
        assert (await team.run(LARGE)).output == "Hello."


async def test_a_batch_on_sqlite_stays_below_the_limit(sqlite_file: Path, small_values: None):
    assert await failures(f"sqlite:///{sqlite_file}") == []


async def failures(url: str) -> list[BaseException]:
    """What goes wrong when many large messages are recorded at once."""
    model = ScriptedModel(lambda *_: says("Hello."))
    async with Team([Agent("desk")], model=model, store=url) as team:
        runs = (team.run(LARGE, conversation=f"c{number}") for number in range(60))
        results = await asyncio.gather(*runs, return_exceptions=True)
    return [each for each in results if isinstance(each, BaseException)]


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long each value is that PostgreSQL is given for a batch.

    This looks inside, as nothing outside shows it: PostgreSQL's limit is a gigabyte and cannot be lowered.
    """
    found: list[int] = []

    class Noted(bulk.Listed):
        def __new__(cls, text: bytes) -> "Noted":
            found.append(len(text))
            return super().__new__(cls, text)

    monkeypatch.setattr(bulk, "Listed", Noted)
    return found


async def test_a_batch_on_postgresql_is_split_before_it_exceeds_the_limit(
    postgres: str, sizes: list[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "MOST_BYTES", MOST)
    assert await failures(postgres) == []
    assert max(sizes) <= MOST


async def test_an_entry_above_the_limit_is_refused_in_words_and_no_other_with_it(sqlite_file: Path, small_values: None):
    model = ScriptedModel(lambda *_: says("Hello."))
    async with Team([Agent("desk")], model=model, store=f"sqlite:///{sqlite_file}") as team:
        large, small = await asyncio.gather(team.run("y" * 2 * MOST), team.run("hello"), return_exceptions=True)
    assert isinstance(large, MisconfiguredError)
    assert not isinstance(small, BaseException)
