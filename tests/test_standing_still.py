"""A test that stands still for 60 seconds fails, and says what every task and every thread waits for."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_tests_have_60_seconds():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["pytest"]["timeout"] == "60"


def test_a_test_that_stands_still_dumps_all_tasks_and_threads_and_fails():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=0.5"]
    done = subprocess.run(
        [*command, "tests/standing_still.py"], cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )
    told = done.stdout + done.stderr
    assert done.returncode == 1, "the test run goes on, and the test has failed"
    assert "thread-that-waits" in told
    assert ("task-that-waits" in told, "waits_in_a_task" in told) == (True, True)
