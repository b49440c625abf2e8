"""The examples run as their docstrings say, from the project's root, and show what they promise."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def shown(name: str) -> list[str]:
    """The lines that an example prints, without their indent, and nothing on standard error."""
    command, pipe = [sys.executable, "-W", "error", f"examples/{name}"], subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, stdout=pipe, stderr=pipe, encoding="utf-8", start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=50)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # workers that an example started, if it did not come to its end
    assert (process.returncode, errors) == (0, "")
    return [line.strip() for line in output.splitlines() if line.strip()]


def test_a_pipeline_goes_through_its_steps_in_order():
    lines = shown("pipeline.py")
    assert [line.split()[:3] for line in lines if "──▶" in line] == [
        ["researcher", "──▶", "writer"],
        ["writer", "──▶", "reviewer"],
    ]
    assert "The sky is blue because air scatters blue light most." in lines
    assert lines[-3:] == [
        "phase      published",
        "done       research, write, review",
        "artifacts  notes at shelf://notes, draft at shelf://draft",
    ]


def test_a_dispatcher_chooses_who_answers():
    lines = shown("dispatcher.py")
    assert [line for line in lines if line.startswith("──▶")] == [
        "──▶ billing, who knows {'order': '1042'}",
        "──▶ shipping, who knows {'order': '2077'}",
    ]
    assert [line.split()[0] for line in lines if not line.startswith(("──▶", "customer"))] == [
        "billing",
        "shipping",
        "dispatcher",
    ]


def test_a_score_gate_opens_or_gives_up():
    lines = shown("score_gate.py")
    assert [int(line.split()[2]) for line in lines if line.startswith("try")] == [0, 33, 100, 0, 0, 0]
    assert [line for line in lines if " after " in line] == ["accepted after 3 tries", "given up after 3 tries"]
    assert sum(line.startswith("gate ──▶ writer: It does not say") for line in lines) == 4


def test_a_fan_out_keeps_its_order_and_what_did_not_fail():
    lines = shown("fan_out.py")
    assert [line.split()[3] for line in lines if "──▶ taster" in line] == ["Assam", "Darjeeling", "Lapsang", "Sencha"]
    assert any("Lapsang" in line and "the smoke alarm went off" in line for line in lines)
    assert "writer: Of 4 teas we could taste 3: Assam malty, Darjeeling flowery, Sencha grassy." in lines


def test_an_alert_becomes_a_handoff_an_approval_and_a_signed_message():
    assert shown("alert.py") == [
        "security wants lock_account({'user': 'ada'}); a person approves",
        "the chat gets a signed event: changeover.run.completed",
    ]


def test_a_worker_that_is_killed_loses_nothing():
    lines = shown("worker.py")
    assert "killed: the first, which had it" in lines
    told = [line.split("  ")[1:] for line in lines if re.match(r"\d{4}-\d\d-\d\d ", line)]
    assert [what[-1] for what in told if what[0] == "takes"][-1] == "attempt 2"
    assert [what[0] for what in told][-1] == "done"
    assert lines[-1] == "archive: Two, both of Monday."


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_says_how_to_run_it_and_is_short(example: Path):
    source = example.read_text()
    assert f"    python examples/{example.name}\n" in source
    assert "def main() -> None:" in source
    assert source.count("\n") <= 65


def test_every_example_has_a_test():
    tested = re.findall(r'shown\("(\w+\.py)"\)', Path(__file__).read_text())
    assert sorted(tested) == [example.name for example in EXAMPLES]
