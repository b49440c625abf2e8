"""`workflows`: list and draw them, start one, retry a step."""

import json
from pathlib import Path

import pytest

from tests.cli.process import Done, changeover, json_lines, on_a_terminal, one_by_one

BAKERY = """
from pathlib import Path

from changeover import Agent, Team
from changeover.workflows import Workflow, WorkflowStep
from changeover.testing import ScriptedModel, fails, says


def answer(agent, messages, tools):
    if "stale" in messages[-1].text and not Path("fresh").exists():
        return fails("no flour", retryable=False)
    return says(f"{agent}: {messages[-1].text}")


def clean(ctx):
    return "cleaned"


after = {"after": ["knead", "nuts"], "retry": 1}
bread = Workflow(
    "bread",
    name="Bread",
    description="Bake and sell.",
    steps=[
        WorkflowStep("knead", agent="baker", input="knead {inputs.kind}", on_rollback=clean),
        WorkflowStep("nuts", agent="baker", after=["knead"], when="inputs.nuts", input="nuts"),
        WorkflowStep("sell", agent="seller", input="sell {inputs.kind} {inputs.state}", **after),
    ],
)
team = Team([Agent("baker"), Agent("seller")], model=ScriptedModel(answer), workflows=[bread])
"""
DRAWN = """\
workflow bread: Bread
Bake and sell.

knead: baker
  ├─ input     knead {inputs.kind}
  ├─ undo      a function
  ├─ then      nuts
  └─ then      sell

nuts: baker
  ├─ input     nuts
  ├─ when      inputs.nuts
  └─ then      sell

sell: seller
  ├─ input     sell {inputs.kind} {inputs.state}
  └─ retries   1
"""
TEAM = ("--team", "bakery.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bakery")
    (made / "bakery.py").write_text(BAKERY)
    (made / "rye.json").write_text('{"kind": "rye", "state": "warm"}')
    return made


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, Done]:
    commands = {
        "noun": ["workflows", *TEAM],
        "list": ["workflows", "list", *TEAM],
        "json": ["workflows", "show", "bread", *TEAM, "--json"],
        "drawn": ["workflows", "show", "bread", *TEAM],
        "unknown": ["workflows", "show", "cake", *TEAM],
        "no team": ["workflows", "list"],
        "started": ["workflows", "start", "bread", "kind=rye", "state=warm", *TEAM],
        "file": ["workflows", "start", "bread", "kind=oat", "--inputs", "rye.json", *TEAM, "--json"],
        "wrong": ["workflows", "start", "bread", "kind", *TEAM],
        "no json": ["workflows", "start", "bread", "--inputs", "bakery.py", *TEAM],
    }
    return one_by_one(commands, folder)


def test_workflows_are_listed_and_drawn(said: dict[str, Done]):
    assert said["noun"].stdout == said["list"].stdout == "workflow  steps  about\nbread     3      Bake and sell.\n"
    assert said["drawn"].stdout == DRAWN
    shown = json.loads(said["json"].stdout)
    assert ([step["id"] for step in shown["steps"]], shown["inputs"]) == (
        ["knead", "nuts", "sell"],
        ["kind", "nuts", "state"],
    )
    assert said["unknown"].stderr == "changeover: no workflow is called 'cake'; there are: bread\n"
    assert said["no team"].returncode == 2


def test_inputs_are_given_by_name_or_as_a_file(said: dict[str, Done]):
    assert (said["started"].returncode, said["started"].stdout) == (0, "seller: sell rye warm\n")
    *events, result = json_lines(said["file"])
    assert result["output"] == "seller: sell oat warm"
    steps = [each["step"] for each in events if each["event"] in ("step_began", "step_skipped")]
    assert steps == ["knead", "nuts", "sell"]
    assert said["wrong"].returncode == 2
    assert "bakery.py is not JSON: " in said["no json"].stderr


def test_a_failed_workflow_is_undone_and_one_step_can_be_retried(folder: Path):
    start = ["workflows", "start", "bread", "kind=rye", "state=stale", *TEAM, "--conversation", "old"]
    sent, code = on_a_terminal(*start, at=folder, NO_COLOR="1")
    assert code == 1
    for words in (
        "bread      step knead\n",
        "step nuts is skipped: its condition is not met",
        "step sell failed, and is tried again: ",
        "the steps that are done are undone",
        "undoes the step knead",
        "To retry the failed step: changeover resume bakery.py old",
    ):
        assert words in sent, words
    metrics = changeover("metrics", "--json", at=folder)
    steps = {each["step"]: each for each in json.loads(metrics.stdout)["steps"]}
    assert (steps["knead"]["compensated"], steps["sell"]["failed"], steps["sell"]["retries"]) == (1, 1, 1)
    assert "workflow step" in changeover("metrics", at=folder).stdout
    (folder / "fresh").touch()
    again = changeover("workflows", "retry", "old", "knead", *TEAM, at=folder)
    assert (again.returncode, again.stdout) == (0, "seller: sell rye stale\n")
    wrong = changeover("workflows", "retry", "old", "eat", *TEAM, at=folder)
    assert (wrong.returncode, "eat" in wrong.stderr, "Traceback" in wrong.stderr) == (1, True, False)
    same = [*start[:-1], "keyed", "--key", "k"]
    assert changeover(*same, at=folder).stdout == changeover(*same, at=folder).stdout == "seller: sell rye stale\n"
