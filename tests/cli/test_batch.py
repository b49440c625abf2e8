"""`batch`: a team or a workflow for each line of a file, results in order, and no line twice after a kill."""

import json
import re
import signal
from pathlib import Path

import pytest

from tests.cli.process import Done, Started, changeover, json_lines, on_a_terminal, wait_for

PRESS = """
import time
from pathlib import Path

from changeover import Agent, Team
from changeover.workflows import Workflow, WorkflowStep
from changeover.stores.store import Store
from changeover.testing import ScriptedModel, fails, says


def note(kind, ctx):
    with Path(f"{kind}.txt").open("a") as file:
        file.write(f"{ctx.conversation}\\n")


def first(ctx):
    note("first", ctx)
    return "first"


def last(ctx):
    while not Path("go").exists():
        time.sleep(0.01)
    note("last", ctx)
    return "last"


def answer(agent, messages, tools):
    if messages[-1].text == "mend" and not Path("mended").exists():
        return fails("no paper", retryable=False)
    return says(f"{agent}: {messages[-1].text}")


steps = [WorkflowStep("first", function=first), WorkflowStep("last", function=last, after=["first"])]
two = Workflow("two", steps=steps)
paper = Workflow("paper", steps=[WorkflowStep("print", agent="press", input="{inputs.word}")])
store = Store("sqlite:///press.db", lease=1)
team = Team([Agent("press"), Agent("fold")], model=ScriptedModel(answer), workflows=[two, paper], store=store)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "press.py").write_text(PRESS)
    return tmp_path


def batch(folder: Path, *options: str, lines: str) -> Done:
    (folder / "in.jsonl").write_text(lines)
    return changeover("batch", "press.py", "in.jsonl", *options, at=folder)


def test_results_come_in_the_order_of_the_lines_and_failures_with_their_numbers(folder: Path):
    lines = '{"word": "one"}\n\n{"word": "mend"}\n{"word": "two"}\n'
    done = batch(folder, "--workflow", "paper", lines=lines)
    assert done.returncode == 1
    results = json_lines(done)
    assert [(each["line"], each["status"]) for each in results] == [(1, "completed"), (3, "failed"), (4, "completed")]
    assert (results[0]["output"], results[2]["output"]) == ("press: one", "press: two")
    assert "3 of 3 done (1 not completed)\n" in done.stderr
    assert re.search(r"^line 3 failed: the step 'print' .*no paper \(batch-\w+-3\)$", done.stderr, re.M)


def test_a_rerun_of_failures_starts_nothing_else(folder: Path):
    first = batch(folder, "--workflow", "paper", lines='{"word": "one"}\n{"word": "mend"}\n')
    (folder / "mended").touch()
    more = '{"word": "one"}\n{"word": "mend"}\n{"word": "new"}\n'
    again = batch(folder, "--workflow", "paper", lines=more)
    assert (again.returncode, json_lines(again)[1]) == (1, json_lines(first)[1])  # the same run, which failed
    (folder / "in.jsonl").write_text(more + '{"word": "newer"}\n')
    mended = changeover(
        "batch", "press.py", "in.jsonl", "--workflow", "paper", "--failed", "--output", "out.jsonl", at=folder
    )
    assert (mended.returncode, mended.stdout) == (0, "")
    results = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [each["output"] for each in results] == ["press: one", "press: mend", "press: new"]
    assert "1 of 4 lines were not started; without --failed they are\n" in mended.stderr


def test_all_bad_lines_are_reported_before_anything_starts(folder: Path):
    done = batch(folder, "--workflow", "paper", lines='{"word": "one"}\n{"word"\n7\n')
    assert (done.returncode, done.stdout) == (1, "")
    assert "2 things are wrong:\n" in done.stderr
    assert re.search(r"in\.jsonl, line 2: it is not JSON: .*\n.*, line 3: it is neither a text nor", done.stderr)
    listed = changeover("conversations", "--store", "press.db", "--json", at=folder)
    assert json.loads(listed.stdout) == []


def test_without_a_workflow_each_line_is_a_message(folder: Path):
    lines = '"hello"\n{"text": "hi", "context": {"tier": "vip"}}\n'
    done = batch(folder, "--agent", "fold", "--concurrency", "1", lines=lines)
    assert [each["output"] for each in json_lines(done)] == ["fold: hello", "fold: hi"]
    assert done.stderr == "1 of 2 done\n2 of 2 done\n"
    wrong = batch(folder, "--agent", "nobody", lines=lines)
    assert wrong.stderr == "changeover: no agent is called 'nobody'; this team has: fold, press\n"


def test_a_terminal_gets_a_bar_and_then_the_results(folder: Path):
    (folder / "in.jsonl").write_text('"hello"\n"mend"\n')
    sent, code = on_a_terminal("batch", "press.py", "in.jsonl", at=folder, NO_COLOR="1", columns=120)
    assert code == 1
    assert "2/2 (1 not completed)" in sent
    assert '{"line": 1, "status": "completed"' in sent.splitlines()[-2]


def test_after_a_kill_the_same_command_starts_no_line_twice(folder: Path):
    (folder / "in.jsonl").write_text("".join(f'{{"n": {number}}}\n' for number in range(6)))
    words = ("batch", "press.py", "in.jsonl", "--workflow", "two", "--concurrency", "4")
    noted = lambda name: (folder / name).read_text().splitlines() if (folder / name).exists() else []  # noqa: E731
    with Started(*words, at=folder) as killed:
        wait_for(lambda: len(noted("first.txt")) == 4)  # four lines are within their second step, two have not begun
        killed.hears(signal.SIGKILL)
    (folder / "go").touch()
    done = changeover(*words, at=folder)
    assert (done.returncode, [each["output"] for each in json_lines(done)]) == (0, ["last"] * 6)
    last = noted("last.txt")
    assert len(last) == len({each.partition("/")[0] for each in last}) == 6
    runs = json.loads(changeover("tasks", "--store", "press.db", "--json", "--limit", "100", at=folder).stdout)
    begun = [each["conversation"] for each in runs if each["agent"] == "two"]
    assert sorted(begun) == sorted({each.partition("/")[0] for each in last})
