"""`router show` and `reset`: people see what was learnt of whom, and can have it forgotten."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from changeover import Agent, Team, specialist
from changeover.messages import Message, ToolResult
from changeover.models import Usage
from changeover.testing import Reply, ScriptedModel, calls, fails, says
from changeover.tools.tool import ToolDefinition
from tests.cli.process import changeover

TASKS = 6
COST = Usage(10, 10, 1, 0.25)


def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """The desk asks for whoever can do what it is told; the lawyer fails."""
    if agent == "clerk":
        return says("Done.", usage=COST)
    if agent == "lawyer":
        return fails("out of order", retryable=False)
    if isinstance(messages[-1], ToolResult):
        return says("There you are.")
    wanted = {"specialist_type": messages[-1].text, "task": "Do it.", "reason": "I cannot."}
    return calls(("handoff_to_specialist", wanted))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a store, on which a clerk has filed all that it was given, and a lawyer failed once."""

    async def work() -> None:
        able = {"clerk": "filing", "lawyer": "contract law"}
        members = [Agent(name, capabilities=[what], handoffs=()) for name, what in able.items()]
        team = Team(
            [Agent("desk", handoffs=[specialist()]), *members],
            model=ScriptedModel(play),
            store=f"sqlite:///{tmp_path / 'changeover.db'}",
        )
        for text in (*["filing"] * TASKS, "contract law"):
            await team.run(text)
        await team.close()

    asyncio.run(work())
    return tmp_path


def test_standings_are_shown_as_a_table(shop: Path):
    shown = changeover("router", "list", at=shop)
    assert (shown.returncode, shown.stderr) == (0, "")
    head, lawyer, clerk = shown.stdout.splitlines()
    assert head.split() == ["capability", "agent", "tasks", "successes", "worth", "range", "seconds", "cost"]
    assert re.fullmatch(r"contractlaw +lawyer +1 +0 +0\.33 ###\.{7} +0\.\d\d-0\.\d\d +\d+\.\d", lawyer)
    assert re.fullmatch(r"filing +clerk +6 +6 +0\.\d\d #{8}\.\. +0\.\d\d-0\.\d\d +\d+\.\d +\$0\.2500", clerk)


def test_json_has_the_same_standings_and_filters_hold(shop: Path):
    [told] = json.loads(changeover("router", "--json", "--capability", "Filing", at=shop).stdout)
    assert {name: told[name] for name in ("capability", "agent", "tasks", "successes", "cost")} == {
        "capability": "filing",
        "agent": "clerk",
        "tasks": TASKS,
        "successes": TASKS,
        "cost": 0.25,
    }
    assert 0 < told["low"] < told["worth"] < told["high"] < 1
    [other] = json.loads(changeover("router", "--json", "--agent", "lawyer", at=shop).stdout)
    assert (other["agent"], other["successes"], other["cost"]) == ("lawyer", 0, None)
    assert json.loads(changeover("router", "--json", "--agent", "nobody", at=shop).stdout) == []


def test_a_reset_forgets_one_agent_or_all_of_them(shop: Path):
    one = changeover("router", "reset", "--capability", "contract-law", at=shop)
    assert (one.returncode, one.stdout) == (0, "1 task of lawyer at contractlaw forgotten\n")
    again = changeover("router", "reset", "--agent", "lawyer", at=shop)
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr == "nothing to forget; see: changeover router\n"
    assert changeover("router", "reset", at=shop).stdout == f"{TASKS} tasks of clerk at filing forgotten\n"
    shown = changeover("router", "list", at=shop)
    assert (shown.returncode, shown.stdout) == (0, "")
    assert shown.stderr == "no routed task has an outcome yet\n"
