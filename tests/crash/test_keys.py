"""One key, used by many at once: there is one conversation, one result, and the work is done once."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from changeover import Agent, Team
from changeover.errors import KeyConflict
from changeover.stores.memory.log import MemoryLog
from changeover.stores.store import Store, open_log
from changeover.testing import ScriptedModel, says
from tests.crash.keys import KINDS, LEASE, ask, team_on
from tests.crash.notes import Note, Notes

STRESS = "CHANGEOVER_STRESS" in os.environ
TASKS, PROCESSES = 20, 4
ROUNDS = 50 if STRESS else 5


def conversations(notes: list[Note]) -> set[str]:
    """Where those who were answered say that their answer is from."""
    return {note.kind.partition("@")[0].partition(":")[0] for note in notes if note.what == "result"}


def assert_once(notes: list[Note], keys: list[str], callers: int) -> None:
    """Every caller was answered, the same for the same key, and each effect happened once."""
    assert [note for note in notes if note.what == "error"] == []
    results = [note for note in notes if note.what == "result"]
    assert Counter(note.key for note in results) == dict.fromkeys(keys, callers)
    assert {(note.key, note.value) for note in results} == {(key, f"did count {key}") for key in keys}
    assert len({note.kind for note in results}) == len(keys) == len(conversations(notes))
    assert Counter(note.key for note in notes if note.what == "begin") == dict.fromkeys(
        (f"count {key}" for key in keys), 1
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_of_many_tasks_that_use_one_key_at_once_each_gets_the_one_result(kind: str, tmp_path: Path):
    notes = Notes(tmp_path / "notes")
    team = team_on(MemoryLog(), notes)  # type: ignore[arg-type]
    await asyncio.gather(*(ask(team, notes, kind, 0) for _ in range(TASKS)))
    await team.close()
    assert_once(notes.read(), [f"{kind}-0"], TASKS)


LONG = "".join(sha256(str(number).encode()).hexdigest() for number in range(150))
"""Longer than any index holds, also packed."""


@pytest.mark.parametrize("key", [LONG, "a\0b", "a\ufffdb", "half \ud83d", "two\nlines", "ä€😀"])
async def test_any_text_may_be_a_key_on_every_database(key: str, shared_store: str):
    for conversation in ("c", None):
        team = Team([Agent("solo")], model=ScriptedModel(lambda *_: says("Three.")), store=shared_store)
        first = await team.run("count", key=key, conversation=conversation)
        assert await team.run("count", key=key, conversation=conversation) == first
        other = await team.run("count", key=f"{key}.", conversation=conversation)
        assert other.run_id != first.run_id
        with pytest.raises(KeyConflict, match=re.escape(repr(key))):
            await team.run("weigh", key=key, conversation=conversation)
        await team.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_of_many_tasks_on_a_database_that_use_one_key_at_once_each_gets_the_one_result(
    kind: str, shared_store: str, tmp_path: Path
):
    notes = Notes(tmp_path / "notes")
    teams = [team_on(Store(shared_store, LEASE), notes) for _ in range(2)]
    await asyncio.gather(*(ask(teams[number % 2], notes, kind, 0) for number in range(TASKS)))
    for team in teams:
        await team.close()
    assert_once(notes.read(), [f"{kind}-0"], TASKS)


def run_processes(url: str, notes: Notes, variants: list[str]) -> None:
    """Let a process for each variant do its work, all at the same moment."""
    begin_at = str(time.monotonic() + 3)
    command = [sys.executable, "-m", "tests.crash.keys", url, str(notes.path), begin_at, str(ROUNDS)]
    root = Path(__file__).parents[2]
    processes = [subprocess.Popen([*command, variant], cwd=root) for variant in variants]
    try:
        assert [process.wait(60) for process in processes] == [0] * len(variants)
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def recorded(url: str, notes: list[Note]) -> list[int]:
    """The number of messages in each conversation that gave an answer."""
    log = open_log(Store(url))
    try:
        found = [await log.read(id) for id in sorted(conversations(notes))]
    finally:
        await log.close()
    return [sum(entry.cause.startswith("key:") for entry in entries) for entries in found]


@pytest.mark.stress
@pytest.mark.timeout(300 if STRESS else 90)
async def test_of_processes_that_use_the_same_keys_at_once_each_gets_the_one_result(shared_store: str, tmp_path: Path):
    notes = Notes(tmp_path / "notes")
    await asyncio.to_thread(run_processes, shared_store, notes, [""] * PROCESSES)
    keys = [f"{kind}-{number}" for number in range(ROUNDS) for kind in KINDS]
    assert_once(notes.read(), keys, 2 * PROCESSES)
    assert await recorded(shared_store, notes.read()) == [1] * len(keys)


@pytest.mark.stress
@pytest.mark.timeout(300 if STRESS else 90)
async def test_of_processes_that_use_the_same_keys_for_different_things_one_kind_is_refused(
    shared_store: str, tmp_path: Path
):
    notes = Notes(tmp_path / "notes")
    await asyncio.to_thread(run_processes, shared_store, notes, [" apples", " pears"] * (PROCESSES // 2))
    read = notes.read()
    for key in (f"{kind}-{number}" for number in range(ROUNDS) for kind in KINDS):
        answers = [note.value for note in read if note.what == "result" and note.key == key]
        errors = [note.kind for note in read if note.what == "error" and note.key == key]
        assert (len(answers), errors) == (PROCESSES, ["KeyConflict"] * PROCESSES), key
        assert len(set(answers)) == 1
        begun = [note.key for note in read if note.what == "begin" and note.key.startswith(f"count {key} ")]
        assert [f"did {text}" for text in begun] == [answers[0]], key
    assert set(await recorded(shared_store, read)) == {1}
