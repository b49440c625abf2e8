"""Ctrl-C at any time: a short line, the command that continues where there is something to continue, exit code 130."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import changeover, environment, on_a_terminal

IMPORTING = """
import sys
import changeover.cli

class Interrupted:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
changeover.cli.main()
"""
LOADING = "raise KeyboardInterrupt\n"
OPENING = """
import asyncio
from changeover import Agent, Team
from changeover.stores.memory.log import MemoryLog

class SlowLog(MemoryLog):
    async def read(self, *args, **options):
        print("opening", flush=True)
        await asyncio.sleep(60)

team = Team([Agent("desk")], model="offline", store=SlowLog())
"""


def test_ctrl_c_while_the_commands_are_imported():
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING], capture_output=True, text=True, env=environment(), timeout=50, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nInterrupted.\n")


@pytest.mark.parametrize("command", [["run", "team.py", "hi"], ["chat", "team.py"], ["serve", "team.py"]])
def test_ctrl_c_while_the_team_is_loaded(command: list[str], tmp_path: Path):
    (tmp_path / "team.py").write_text(LOADING)
    done = changeover(*command, at=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nInterrupted.\n")


def test_ctrl_c_before_anything_is_recorded_names_no_conversation(tmp_path: Path):
    (tmp_path / "team.py").write_text(OPENING)
    sent, code = on_a_terminal("run", "team.py", "hi", at=tmp_path, types=[("opening", "\x03")], NO_COLOR="1")
    assert code == 130
    assert sent.endswith("\nInterrupted.\n")
    assert "resume" not in sent


def test_ctrl_c_stops_a_server_and_is_no_failure(tmp_path: Path):
    (tmp_path / "team.py").write_text(
        'from changeover import Agent, Team\nteam = Team([Agent("desk")], model="offline")\n'
    )
    types = [("Pages for people: ", "\x03")]
    sent, code = on_a_terminal("serve", "team.py", "--port", "0", at=tmp_path, types=types, NO_COLOR="1")
    assert code == 0
    assert sent.endswith("\nStopped.\n")
