"""What the README shows is what happens: its program with a real model, the picture of the demo, the kill."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.docs.demo_picture import COMMAND, PICTURE, drawn, shown, words
from tests.docs.test_code_blocks import ROOT
from tests.models.aimock import serving

README = (ROOT / "README.md").read_text()
ASKED = "I paid 24.95 EUR twice for order 1042!"


def reply(agent: str, response: dict[str, Any], **match: Any) -> dict[str, Any]:
    """What the server answers to an agent, known by its instructions."""
    return {"match": {"systemMessage": agent, **match}, "response": response}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"toolCalls": [{"id": f"call_{name}", "name": name, "arguments": arguments}]}


def test_the_program_with_a_real_model_hands_over_asks_and_answers(tmp_path: Path):
    (program,) = re.findall(r"^```py\n(.*?)^```$", README, re.M | re.S)
    assert len([line for line in program.splitlines() if line.strip()]) <= 20
    (tmp_path / "desk.py").write_text(program)
    fixtures = [
        reply("Find out what", call("handoff", '{"to": "billing", "message": "Order 1042 was paid twice."}')),
        reply("Look after", {"content": "Your money is on its way."}, hasToolResult=True),
        reply("Look after", call("refund", '{"order": "1042", "amount": 24.95}')),
    ]
    with serving(fixtures, tmp_path) as server:
        done = subprocess.run(
            [sys.executable, "desk.py"],
            cwd=tmp_path,
            env={"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": f"{server.url}/v1", "PATH": ""},
            input="yes\n",
            capture_output=True,
            encoding="utf-8",
            timeout=50,
            check=False,
        )
        read = server.requests("24.95 EUR sent back for order 1042")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "billing wants refund with {'order': '1042', 'amount': 24.95}. Yes or no? billing: Your money is on its way."
    ]
    assert len(read) == 1


def test_the_picture_of_the_demo_is_of_the_demo_as_it_is():
    assert words(PICTURE.read_text()) == words(drawn(shown())), f"the demo has changed: run {COMMAND}"


def test_the_kill_is_told_as_it_happens(tmp_path: Path):
    (told,) = re.findall(r"^```text\n(billing    refund.*?)^```$", README, re.M | re.S)
    command = [sys.executable, "-m", "changeover", "demo", "--crash"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=50, check=True)
    happened = [alike(line) for line in done.stdout.splitlines()]
    assert [line for line in told.splitlines() if alike(line) not in happened] == []


def alike(line: str) -> str:
    """The line without the ids of processes."""
    return re.sub(r"process \d+", "process N", line)
