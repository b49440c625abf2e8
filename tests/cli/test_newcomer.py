"""The newcomer's path in a real terminal: demo, init, run, chat with an approval, graph, kill, resume."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.process import changeover, environment, json_lines, on_a_terminal, wait_for

SAID = "I was charged twice for order 1042"
ASKED = "Enter for later: "
SLOW = '''
import asyncio

from team import billing, technical, triage

from changeover import Store, Team, tool
from changeover.testing import ScriptedModel, calls, hands_off, says


@tool(read_only=True)
async def audit(order_id: str) -> str:
    """Look into the books."""
    await asyncio.sleep(600 if open("pace.txt").read() == "slow" else 0)
    return "paid twice"


script = {
    "triage": [hands_off("billing", "Charged twice.", order_id="1042")],
    "billing": [calls(("audit", {"order_id": "1042"})), says("You paid twice.")],
}
auditor = type(billing)("billing", tools=[audit])
team = Team([triage, auditor, technical], model=ScriptedModel(script), store=Store("sqlite:///changeover.db", 16))
'''


@pytest.fixture(params=[80, 120])
def columns(request: pytest.FixtureRequest) -> int:
    width: int = request.param
    return width


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A new project."""
    assert changeover("init", "shop", at=tmp_path).returncode == 0
    return tmp_path / "shop"


def screen(*args: str, at: Path, columns: int, types: tuple[tuple[str, str], ...] = ()) -> tuple[str, int]:
    """What a command shows on a terminal of this width without colours; no line is wider, but for commands to copy."""
    sent, code = on_a_terminal(*args, at=at, types=types, columns=columns, NO_COLOR="1")
    wide = [line for line in sent.splitlines() if len(line) > columns and " changeover" not in f" {line}"]
    assert wide == []
    assert "Traceback" not in sent
    return sent, code


def test_the_demo_fits_the_terminal_and_leaves_nothing_behind(tmp_path: Path, columns: int):
    shown, code = screen("demo", "--pace", "0", at=tmp_path, columns=columns)
    assert code == 0
    assert "HANDOFF    triage ──▶ billing\n" in shown
    assert "approved by you" in shown
    assert [*tmp_path.iterdir()] == []


def test_a_new_project_hands_off_calls_its_tool_and_answers(shop: Path, columns: int):
    shown, code = screen("run", "team.py", SAID, at=shop, columns=columns)
    assert code == 0
    assert shown.count("no real model is set") == 1
    order = [
        "triage     Billing can help",
        "HANDOFF    triage ──▶ billing\n",
        'order_id    "1042"',
        "payments(order_id=",
    ]
    places = [shown.index(each) for each in [*order, "└─ order 1042: 24.95 EUR", "I used payments: order 1042: 24.95"]]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("said", "agent", "answer"),
    [
        (SAID, "billing", "24.95 EUR at 09:14"),
        ("Why was order 7 charged twice?", "billing", "order 7: 24.95 EUR"),
        ("I paid two times for order #1042", "billing", "order 1042: 24.95 EUR"),
        ("Can I see the payments of order 88?", "billing", "order 88: 24.95 EUR"),
        ("Where is my invoice?", "billing", "Please tell me the order id"),
        ("The app crashes when I log in", "technical", "Technical here."),
        ("hello", "triage", "What is it about?"),
    ],
)
def test_other_sentences_are_answered_sensibly_too(shop: Path, said: str, agent: str, answer: str):
    done = changeover("run", "team.py", said, "--json", at=shop)
    result = json_lines(done)[-1]
    assert (result["final_agent"], answer in result["output"]) == (agent, True), result["output"]
    assert not any(words in result["output"] for words in ("Look at the payments", "Find out", "one step at a time"))


def test_a_chat_asks_for_approval_and_draws_the_conversation(shop: Path, columns: int):
    types = (
        ("you  ", "Please refund order 1042\n"),
        (ASKED, "y\n"),
        ("you  ", "/graph\n"),
        ("you  ", "/quit\n"),
    )
    shown, code = screen("chat", "team.py", "--conversation", "ada", at=shop, columns=columns, types=types)
    assert code == 0
    assert 'APPROVAL   billing wants refund(order_id="1042")\n' in shown
    assert "└─ 24.95 EUR of order 1042 sent back" in shown
    assert '└─▶ billing: Billing can help with that. (order_id="1042")' in " ".join(shown.split())
    assert re.search(r"^ {13}└─▶ billing: .*(?:\n {17}| )\[COMPLETE\]$", shown, re.M)  # wrapped below its branch
    asked = shown[shown.index("└─ order 1042: 24.95 EUR") : shown.index(ASKED)]
    assert 'billing wants refund(order_id="1042")' in asked  # again, because a tool's result stands below the request
    assert shown.endswith("To continue it:\n  changeover chat team.py --conversation ada\n")
    drawn, code = screen("graph", "ada", at=shop, columns=columns)
    assert (code, "└─▶ billing: Billing can help" in drawn) == (0, True)


def test_a_run_that_is_killed_is_resumed_once_its_lease_ends(shop: Path, columns: int):
    (shop / "slow.py").write_text(SLOW)
    (shop / "pace.txt").write_text("slow")
    run = [sys.executable, "-m", "changeover", "run", "slow.py", SAID, "--conversation", "bob", "--json"]
    with (shop / "out.txt").open("w") as out:
        process = subprocess.Popen(run, cwd=shop, env=environment(), stdout=out, stderr=out)
    wait_for(lambda: '"audit"' in (shop / "out.txt").read_text(), 40)
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (shop / "pace.txt").write_text("fast")
    shown, code = screen("resume", "slow.py", "bob", at=shop, columns=columns)
    assert code == 0
    assert f"Process {process.pid} has ended while it worked on bob. This one continues in " in shown
    assert shown.index("continues in ") < shown.index('audit(order_id="1042")') < shown.index("└─ paid twice")
    assert "You paid twice.\n" in shown


def test_after_ctrl_c_the_command_that_continues_can_be_pasted(shop: Path):
    (shop / "slow.py").write_text(SLOW)
    (shop / "pace.txt").write_text("slow")
    types = (('audit(order_id="1042")', "\x03"),)
    sent, code = on_a_terminal("run", "slow.py", SAID, "--conversation", "eve", at=shop, types=types)
    assert code == 130
    assert "To continue:\n  changeover resume slow.py eve\n" in sent
    assert "⠋" in sent or "audit 0 s" in sent or " s\x1b" in sent  # the spinner, with the seconds
