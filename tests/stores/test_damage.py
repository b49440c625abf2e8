"""A store that is damaged: the conversation that is damaged says so, all others go on, and `db check` finds it.

The damage is done by SQL, as a disk or a careless hand would do it.
"""

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Team
from changeover.errors import StoreDamaged
from changeover.testing import ScriptedModel, calls, hands_off, says
from tests.cli.process import changeover
from tests.databases import ask

BODIES = {
    "no event": "[7]",
    "no list": "{}",
    "null": "null",
    "an event without a name": '[{"text": "x"}]',
    "an event whose name is no text": '[{"event": 5}]',
    "no JSON": "[{",
    "a known event without a required field": '[{"event": "model_replied"}]',
    "a known event with a field of another type": '[{"event": "model_replied", "agent": 5, "task": 2}]',
}
"""What may stand where an entry was."""
BAD = "(SELECT number FROM conversations WHERE id = 'bad')"


def damage(url: str, sql: str) -> None:
    """Change a store behind everybody's back."""
    if url.startswith("sqlite:///"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute(sql)
        connection.close()
    else:
        ask(url, sql)


class Hold:
    """Holds up all models that ask it, and counts them."""

    def __init__(self) -> None:
        self.begun, self.held = asyncio.Event(), 0

    async def on(self) -> None:
        self.held += 1
        self.begun.set()
        await asyncio.Event().wait()


def desk(url: str, hold: Hold | None = None) -> Team:
    """Triage looks, and hands over to billing, whose model waits until it is let go."""

    def look() -> str:
        """Look it up."""
        return "found"

    async def play(agent: str, messages: Any, tools: Any) -> Any:
        if agent == "triage":
            return calls(("look", {})) if len(messages) == 1 else hands_off("billing", "x")
        if hold:
            await hold.on()
        return says("Refunded.")

    members = [Agent("triage", tools=[look], handoffs=["billing"]), Agent("billing", handoffs=())]
    return Team(members, model=ScriptedModel(play), store=url)


async def unfinished(url: str, *conversations: str) -> None:
    """Leave these conversations behind while billing's model is thinking."""
    hold = Hold()
    team = desk(url, hold)
    runs = [asyncio.ensure_future(team.run("charged twice", conversation=each)) for each in conversations]
    while hold.held < len(conversations):
        await hold.begun.wait()
        hold.begun.clear()
    await team.close()
    await asyncio.gather(*runs, return_exceptions=True)


async def finished(url: str, *conversations: str) -> None:
    async with desk(url) as team:
        for each in conversations:
            await team.run("charged twice", conversation=each)


def replaced(body: str, position: int = 3) -> str:
    escaped = body.replace("'", "''")
    return f"UPDATE entries SET body = '{escaped}' WHERE conversation = {BAD} AND position = {position}"


ASKED: dict[str, Callable[[Team], Awaitable[object]]] = {
    "resume": lambda team: team.resume("bad"),
    "run": lambda team: team.run("and now?", conversation="bad"),
    "history": lambda team: team.history("bad"),
}


async def is_damaged(url: str, *asked: str) -> None:
    """The damaged conversation says so when it is asked for this, and the other one goes on."""
    async with asyncio.timeout(30), desk(url) as team:
        assert (await team.resume("good")).output == "Refunded."
        for what in asked:
            with pytest.raises(StoreDamaged, match="bad"):
                await asyncio.wait_for(ASKED[what](team), 10)


@pytest.mark.parametrize("what", BODIES)
async def test_an_entry_that_cannot_be_decoded_is_damage_of_its_conversation_alone(what: str, sqlite_file: Path):
    url = f"sqlite:///{sqlite_file}"
    await unfinished(url, "bad", "good")
    damage(url, replaced(BODIES[what]))
    await is_damaged(url, *ASKED)


@pytest.mark.parametrize("what", ["no event", "a known event without a required field"])
async def test_damage_is_the_same_on_postgresql(what: str, postgres: str):
    await unfinished(postgres, "bad", "good")
    damage(postgres, replaced(BODIES[what]))
    await is_damaged(postgres, *ASKED)


FAULTS = {
    "a head ahead of its log": f"UPDATE conversations SET position = position + 5 WHERE number = {BAD}",
    "a head behind its log": f"UPDATE conversations SET position = 3 WHERE number = {BAD}",
    "a gap in the log": f"DELETE FROM entries WHERE conversation = {BAD} AND position = 3",
    "a log without its beginning": f"DELETE FROM entries WHERE conversation = {BAD} AND position = 0",
    "a log without entries": f"DELETE FROM entries WHERE conversation = {BAD}",
}


@pytest.mark.parametrize("what", FAULTS)
async def test_a_log_that_is_not_whole_is_damage_and_no_run_spins(what: str, shared_store: str):
    await finished(shared_store, "bad", "good")
    damage(shared_store, FAULTS[what])
    await is_damaged(shared_store, "run")


VIEWS = {
    "a task is missing": "DELETE FROM tasks WHERE conversation = 'bad'",
    "a task has another status": "UPDATE tasks SET status = 'failed' WHERE conversation = 'bad'",
    "a handoff is missing": "DELETE FROM handoffs WHERE conversation = 'bad'",
    "a handoff has another state": "UPDATE handoffs SET state = 'PENDING' WHERE conversation = 'bad'",
    "a message is missing": "DELETE FROM messages WHERE conversation = 'bad' AND kind = 'user_message'",
    "a conversation has another status": f"UPDATE conversations SET status = 'failed' WHERE number = {BAD}",
}


def checked(url: str, at: Path) -> tuple[int, str]:
    done = changeover("db", "check", "--store", url, "--json", at=at)
    return done.returncode, done.stdout


@pytest.mark.parametrize("what", [*BODIES, *FAULTS])
async def test_db_check_finds_damage_of_the_log(what: str, sqlite_file: Path, tmp_path: Path):
    url = f"sqlite:///{sqlite_file}"
    await finished(url, "bad", "good")
    damage(url, replaced(BODIES[what]) if what in BODIES else FAULTS[what])
    code, told = await asyncio.to_thread(checked, url, tmp_path)
    assert (code, '"bad"' in told, '"good"' in told) == (1, True, False)


@pytest.mark.parametrize("what", VIEWS)
async def test_db_check_finds_damage_of_the_read_models(what: str, shared_store: str, tmp_path: Path):
    await finished(shared_store, "bad", "good")
    damage(shared_store, VIEWS[what])
    code, told = await asyncio.to_thread(checked, shared_store, tmp_path)
    assert (code, '"bad"' in told, '"good"' in told) == (1, True, False)


async def test_db_check_finds_what_is_left_of_a_conversation_that_is_gone(shared_store: str, tmp_path: Path):
    await finished(shared_store, "bad", "good")
    damage(shared_store, "DELETE FROM conversations WHERE id = 'bad'")
    code, told = await asyncio.to_thread(checked, shared_store, tmp_path)
    assert (code, '"good"' in told) == (1, False)
    faults = json.loads(told)["faults"]
    assert faults["bad"] == "the table messages has rows of it, but the table conversations lacks it"
    [number] = faults.keys() - {"bad"}
    assert number.startswith("number ")
    assert faults[number].endswith("but the table conversations lacks it")


async def test_db_check_finds_nothing_in_a_sound_store(shared_store: str, tmp_path: Path):
    await finished(shared_store, "bad", "good")
    await unfinished(shared_store, "interrupted")
    code, told = await asyncio.to_thread(checked, shared_store, tmp_path)
    assert (code, json.loads(told)["faults"]) == (0, {})
