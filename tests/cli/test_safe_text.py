"""What is shown to people: no password, no escape sequence, and no sign that turns the direction of a text.

A model that writes right-to-left overrides could disguise what a person approves.
"""

import asyncio
from pathlib import Path

import pytest

from changeover import Agent, Store, Team
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
    "agents": ["agents", "list", "evil.py"],
    "graph": ["graph", "evil.py"],
    "graph of a conversation": ["graph", "ada"],
    "metrics": ["metrics"],
}
BIDI = {"run", "run that waits", "tasks", "tasks show", "handoffs", "approvals list", "breakers list", "agents"}


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


def marked(names: set[str], reason: str) -> list[object]:
    fails = pytest.mark.xfail(strict=True, reason=reason)
    return [pytest.param(name, marks=[fails] if name in names else []) for name in COMMANDS]


@pytest.mark.parametrize("name", marked(BIDI, "signs that turn a text reach the terminal"))
def test_nothing_that_a_command_prints_turns_the_direction_of_a_text(name: str, evil: Path):
    text = shown(changeover(*COMMANDS[name], at=evil))
    assert [sign for sign in SIGNS if sign in text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_that_a_command_prints_is_an_escape_sequence(name: str, evil: Path):
    assert "\x1b" not in shown(changeover(*COMMANDS[name], at=evil, NO_COLOR="1"))


@pytest.mark.xfail(strict=True, reason="signs that turn a text are not shown as what they are")
def test_a_sign_that_is_taken_out_is_shown_as_what_it_is(evil: Path):
    """A person who approves sees that something was there: U+202E is shown as <U+202E>."""
    assert "<U+202E>" in shown(changeover("approvals", "list", at=evil))


SECRETS = {
    "in the address": "postgresql://ada:hush-hush@localhost:1/desk",
    "as a parameter": "postgresql://localhost:1/desk?user=ada&password=hush-hush",
    "of a key file": "postgresql://localhost:1/desk?sslpassword=hush-hush",
    "with an encoded name": "postgresql://localhost:1/desk?%70assword=hush-hush",
}


@pytest.mark.parametrize("where", SECRETS)
@pytest.mark.xfail(strict=True, reason="the address is shown with its password")
def test_a_store_is_shown_without_its_password(where: str):
    assert "hush-hush" not in repr(Store(SECRETS[where]))
    assert "hush-hush" not in str(Store(SECRETS[where]))


LIBPQ = {
    "a connection string": "host=localhost port=1 user=ada password=hush-hush dbname=desk",
    "a quoted password": "host=localhost password='hush-hush x' dbname=desk",
    "another scheme": "mysql:ada:hush-hush@localhost/desk",
}


@pytest.mark.parametrize("what", LIBPQ)
@pytest.mark.xfail(strict=True, reason="an error quotes the connection string")
def test_no_error_about_a_store_quotes_a_password(what: str):
    with pytest.raises(ChangeoverError) as caught:
        Store(LIBPQ[what])
    assert "hush-hush" not in f"{caught.value!r} {caught.value}"


UNREACHED = pytest.mark.xfail(strict=True, reason="an encoded name of a parameter hides that it is a password")


@pytest.mark.parametrize(
    "where", [pytest.param(each, marks=[UNREACHED] if "encoded" in each else []) for each in SECRETS]
)
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
