"""`breakers list`, `open` and `reset`: people see who is left alone, and have their say in it."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from changeover import Agent, Team, handoff
from changeover.errors import ModelError
from changeover.testing import ScriptedModel, fails, hands_off
from tests.cli.process import changeover

COUNT = hands_off("clerk", "count")
FAILING = ScriptedModel(lambda agent, messages, tools: fails("out", retryable=False) if agent == "clerk" else COUNT)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, on which a clerk has failed three times."""
    folder = tmp_path_factory.mktemp("shop")

    async def work() -> None:
        team = Team(
            [Agent("triage", handoffs=[handoff("clerk")]), Agent("clerk")],
            model=FAILING,
            store=f"sqlite:///{folder / 'changeover.db'}",
        )
        for _ in range(3):
            with pytest.raises(ModelError):
                await team.run("how many?")
        await team.close()

    asyncio.run(work())
    return folder


def test_breakers_are_listed_opened_and_reset(shop: Path):
    listed = changeover("breakers", "list", at=shop)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert re.fullmatch(
        r"receiver +state +failures +outages +since +retry\nclerk +open +3 +1 +[\d-]+ [\d:]+ +[\d-]+ [\d:]+\n",
        listed.stdout,
    )
    opened = changeover("breakers", "open", "deputy", at=shop)
    assert opened.stdout == "deputy gets no handoffs; to change that: changeover breakers reset deputy\n"
    told = json.loads(changeover("breakers", "list", "--json", at=shop).stdout)
    assert [(each["receiver"], each["state"], each["failures"], each["forced"]) for each in told] == [
        ("clerk", "open", 3, False),
        ("deputy", "open", 0, True),
    ]
    assert re.fullmatch(r"[\d-]+T[\d:.]+\+00:00", told[0]["until"])
    assert changeover("breakers", "reset", "clerk", at=shop).stdout == "clerk gets handoffs again\n"
    again = changeover("breakers", "reset", "clerk", at=shop)
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr == "'clerk' has no failures; see: changeover breakers list\n"


def test_a_store_without_failures_says_so(tmp_path: Path):
    assert changeover("db", "upgrade", at=tmp_path).returncode == 0
    done = changeover("breakers", "list", at=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no receiver has failed\n")
