"""What is shown to people: no password, no escape sequence, and no sign that turns the direction of a text.

A model that writes right-to-left overrides could disguise what a person approves.
"""

import asyncio
import json
import traceback
from pathlib import Path

import pytest

from changeover import Agent, Store, Team
from changeover.cli.exits import clean
from changeover.errors import ChangeoverError
from changeover.testing import ScriptedModel, says
from tests.cli.process import Done, changeover

SIGNS = [*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)), "\u200e", "\u200f", "\u061c"]
"""Everything that steers the direction of a text."""
EVIL = f"pay {''.join(SIGNS)}oxo \x1b[31mred"

TEAM = f'''
from changeover import Agent, Team, Variable, delegate, handoff, tool
from changeover.testing import ScriptedModel, calls, hands_off, says

EVIL = {EVIL!r}


@tool(approval=True)
def refund(note: str) -> str:
    """Send money back."""
    return EVIL


script = {{
    "triage": [hands_off("billing", EVIL, order=EVIL)],
    "billing": [calls(("refund", {{"note": EVIL}})), says(EVIL)],
    "talker": [says(EVIL)],
}}
to_billing = handoff("billing", variables=[Variable("order")])
agents = [
    Agent("triage", name=EVIL, description=EVIL, handoffs=[to_billing]),
    Agent("billing", tools=[refund], handoffs=()),
    Agent("talker", handoffs=()),
]
team = Team(agents, model=ScriptedModel(script))
'''
COMMANDS = {
    "run": ["run", "evil.py", EVIL, "--agent", "talker"],
    "run that waits": ["run", "evil.py", EVIL, "--conversation", "bob"],
    "tasks": ["tasks", "list"],
    "tasks show": ["tasks", "show", "ada#2"],
    "handoffs": ["handoffs", "list"],
    "approvals list": ["approvals", "list"],
    "conversations": ["conversations"],
    "breakers list": ["breakers", "list"],
    "agents": ["agents", "list", "--team", "evil.py"],
    "graph": ["graph", "evil.py"],
    "graph of a conversation": ["graph", "ada"],
    "metrics": ["metrics"],
}


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a conversation that waits for an approval, in which everybody writes what steers a terminal."""
    folder = tmp_path_factory.mktemp("evil")
    (folder / "evil.py").write_text(TEAM)
    changeover("run", "evil.py", EVIL, "--conversation", "ada", at=folder)

    async def opened() -> None:
        async with Team([Agent("x")], model=ScriptedModel({}), store=f"sqlite:///{folder / 'changeover.db'}") as team:
            await team.force_breaker(EVIL)

    asyncio.run(opened())
    return folder


def shown(done: Done) -> str:
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_that_a_command_prints_turns_the_direction_of_a_text(name: str, evil: Path):
    text = shown(changeover(*COMMANDS[name], at=evil))
    assert [sign for sign in SIGNS if sign in text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_that_a_command_prints_is_an_escape_sequence(name: str, evil: Path):
    assert "\x1b" not in shown(changeover(*COMMANDS[name], at=evil, NO_COLOR="1"))


def test_a_sign_that_is_taken_out_is_shown_as_what_it_is(evil: Path):
    """A person who approves sees that something was there: U+202E is shown as <U+202E>."""
    assert "<U+202E>" in shown(changeover("approvals", "list", at=evil))


@pytest.mark.parametrize(
    "text", ["\x1b]0;title\x07a", "\x9b31ma", "\x1b[1;31ma\x9d8;;x\x9c", "\x1b]8;;x\x1b\\a"], ids=ascii
)
def test_whole_escape_sequences_are_taken_out(text: str):
    assert clean(text) == "a"


@pytest.mark.parametrize("words", [["tasks", "show"], ["graph"], ["handoffs", "list", "--conversation"]], ids=str)
def test_an_id_that_is_no_text_is_refused_in_one_line(words: list[str], evil: Path):
    done = changeover(*words, "a\udcff", at=evil)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "an argument is not valid UTF-8" in done.stderr


def test_half_a_character_can_be_printed():
    assert clean("half \ud83d") == "half <U+D83D>"


@pytest.mark.parametrize("name", ["tasks", "handoffs", "approvals list"])
def test_json_for_programs_has_the_same_signs_as_escapes(name: str, evil: Path):
    text = shown(changeover(*COMMANDS[name], "--json", at=evil))
    assert [sign for sign in SIGNS if sign in text] == []
    assert SIGNS[0] in json.dumps(json.loads(text), ensure_ascii=False)


SECRETS = {
    "in the address": "postgresql://ada:hush-hush@localhost:1/desk",
    "as a parameter": "postgresql://localhost:1/desk?user=ada&password=hush-hush",
    "of a key file": "postgresql://localhost:1/desk?sslpassword=hush-hush",
    "with an encoded name": "postgresql://localhost:1/desk?%70assword=hush-hush",
}


@pytest.mark.parametrize("where", SECRETS)
def test_a_store_is_shown_without_its_password(where: str):
    assert "hush-hush" not in repr(Store(SECRETS[where]))
    assert "hush-hush" not in str(Store(SECRETS[where]))


CARELESS = {
    "a question mark": "postgresql://ada:hush?hush=1@localhost:1/desk",
    "a slash": "postgresql://ada:hush/hush@localhost:1/desk",
    "an at sign": "postgresql://ada:hush@hush@localhost:1/desk",
    "a percent sign": "postgresql://ada:hush%zz@localhost:1/desk",
    "a percent sign in a parameter": "postgresql://localhost:1/desk?password=hush%zz",
    "an ampersand in a parameter": "postgresql://localhost:1/desk?password=a&hush",
}


@pytest.mark.parametrize("what", CARELESS)
async def test_a_password_that_should_have_been_encoded_is_not_shown_either(what: str):
    assert "hush" not in repr(Store(CARELESS[what]))
    team = Team([Agent("desk")], model=ScriptedModel({"desk": [says("x")]}), store=CARELESS[what])
    with pytest.raises(ChangeoverError) as caught:
        await team.run("hello")
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_an_address_without_a_password_is_shown_as_it_is():
    for url in ("postgresql://ada@localhost:1/desk?user=a@b&sslmode=require", "sqlite:///a?b.db"):
        assert repr(Store(url)) == f"Store(url={url!r}, lease=10.0)"


LIBPQ = {
    "a connection string": "host=localhost port=1 user=ada password=hush-hush dbname=desk",
    "a quoted password": "host=localhost password='hush-hush x' dbname=desk",
    "another scheme": "mysql:ada:hush-hush@localhost/desk",
}


@pytest.mark.parametrize("what", LIBPQ)
def test_no_error_about_a_store_quotes_a_password(what: str):
    with pytest.raises(ChangeoverError) as caught:
        Store(LIBPQ[what])
    assert "hush-hush" not in f"{caught.value!r} {caught.value}"


@pytest.mark.parametrize("where", SECRETS)
async def test_no_error_of_a_store_that_cannot_be_reached_quotes_a_password(where: str):
    team = Team(
        [Agent("desk")], model=ScriptedModel({"desk": [says("x")]}), store=f"{SECRETS[where]}&connect_timeout=1"
    )
    with pytest.raises(ChangeoverError) as caught:
        await team.run("hello")
    assert "hush-hush" not in f"{caught.value!r} {caught.value}"


def test_a_team_is_shown_without_the_password_of_its_store():
    team = Team([Agent("desk")], model=ScriptedModel({}), store=SECRETS["in the address"])
    assert "hush-hush" not in repr(team)
