"""`init`, `db`, `doctor`, help and completion: what a newcomer meets first."""

import json
import re
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.process import changeover, environment, json_lines, one_by_one

HEAVY = {"pydantic", "pydantic_ai", "sqlalchemy", "alembic", "fastapi", "yaml", "msgspec"}
GROUPS = ("tasks", "handoffs", "approvals", "db")
COMMANDS = ("init", "run", "chat", "resume", "worker", "conversations", "graph", "doctor", "demo", *GROUPS)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new")
    done = changeover("init", "shop", at=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "changeover run team.py" in done.stdout
    return folder / "shop"


def test_the_test_of_a_new_project_passes(project: Path):
    assert {file.name for file in project.iterdir()} == {"team.py", "test_team.py", "README.md", ".gitignore"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(project)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


def test_a_new_project_works_offline_and_is_not_overwritten(project: Path):
    before = (project / "team.py").read_text()
    done = one_by_one(
        {
            "run": ["run", "team.py", "I was charged twice for order 1042", "--json"],
            "graph": ["graph", "team.py"],
            "again": ["init", "../shop"],
        },
        project,
    )
    assert json_lines(done["run"])[-1]["final_agent"] == "billing"
    assert "hands to  billing by handoff_to_billing(order_id)" in done["graph"].stdout
    assert "refund (after approval)" in done["graph"].stdout
    assert (done["again"].returncode, done["again"].stdout) == (1, "")
    assert done["again"].stderr == "changeover: ../shop/team.py exists already; nothing was written\n"
    assert (project / "team.py").read_text() == before


def test_what_to_type_next_can_be_typed_and_a_project_without_a_name_is_not_made(tmp_path: Path):
    done = one_by_one({"spaced": ["init", "my shop"], "nameless": ["init", ""]}, tmp_path)
    assert "\n  cd 'my shop'\n" in done["spaced"].stdout
    assert (done["nameless"].returncode, "is not a usable name for a project" in done["nameless"].stderr) == (1, True)
    assert [file.name for file in tmp_path.iterdir()] == ["my shop"]


def test_a_store_is_created_reported_and_checked(folder: Path):
    store = ["--store", "sqlite:///made.db"]
    commands = {
        "made": ["db", "upgrade", *store],
        "again": ["db", "upgrade", *store],
        "current": ["db", "current", *store],
        "run": ["run", "plain.py", "hi", "--conversation", "a", *store],
        "checked": ["db", "check", *store],
        "doctor": ["doctor", "--json", *store],
    }
    done = one_by_one(commands, folder)
    assert {name: each.returncode for name, each in done.items() if each.returncode} == {}
    assert re.search(r"made\.db: created, now at \d{4}\n$", done["made"].stdout)
    assert re.search(r"made\.db: already at \d{4}\n$", done["again"].stdout)
    assert re.fullmatch(r"\d{4}\n", done["current"].stdout)
    assert done["checked"].stdout == "1 conversations, none of them with a fault\n"
    assert {each["what"]: each["verdict"] for each in json.loads(done["doctor"].stdout)}["store"] == "ok"


def test_damage_is_found(folder: Path):
    store = ["--store", "sqlite:///damaged.db"]
    assert changeover("run", "plain.py", "hi", "--conversation", "a", *store, at=folder).returncode == 0
    with sqlite3.connect(folder / "damaged.db") as database:
        database.execute("UPDATE entries SET position = position + 1 WHERE position > 3")
    with sqlite3.connect(folder / "newer.db") as database:
        database.execute("CREATE TABLE changeover_version (version_num TEXT)")
        database.execute("INSERT INTO changeover_version VALUES ('9999')")
    newer = ["--store", "sqlite:///newer.db"]
    done = one_by_one(
        {
            "checked": ["db", "check", *store],
            "as JSON": ["db", "check", "--json", *store],
            "current": ["db", "current", *newer],
            "listed": ["conversations", *newer],
            "doctor": ["doctor", *newer],
        },
        folder,
    )
    assert {each.returncode for each in done.values()} == {1}
    assert re.search(r"^a: the log goes on at \d+, and should at \d+$", done["checked"].stdout, re.M)
    assert json.loads(done["as JSON"].stdout)["faults"].keys() == {"a"}
    assert done["current"].stdout == "9999\n"
    assert "has tables of version 9999" in done["listed"].stderr
    assert re.search(r"^store +wrong ", done["doctor"].stdout, re.M)


def test_the_doctor_names_keys_and_never_their_values(tmp_path: Path):
    done = changeover("doctor", at=tmp_path, OPENAI_API_KEY="sk-very-secret")
    assert done.returncode == 0
    assert re.search(r"^extra openai +ok +installed, OPENAI_API_KEY is set$", done.stdout, re.M)
    assert re.search(r"^extra anthropic +note +installed; to use its models, set ANTHROPIC_API_KEY$", done.stdout, re.M)
    assert "secret" not in done.stdout + done.stderr
    assert re.search(r"^store +note +none: ", done.stdout, re.M)
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_advises_only_extras_that_there_are(tmp_path: Path):
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    declared = project["project"]["optional-dependencies"].keys() - {"all", "dev", "docs"}
    assert set(re.findall(r"^extra (\w+)", changeover("doctor", at=tmp_path).stdout, re.M)) == declared


def test_help_is_light_names_every_command_and_the_exit_codes():
    look = "import sys, changeover.cli as cli\ntry: cli.main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", look, "--help"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=50,
        check=True,
    )
    assert set(done.stderr.split()) & HEAVY == set()
    assert [command for command in COMMANDS if f" {command} " not in done.stdout] == []
    assert "3 the run waits for a person or a worker" in " ".join(done.stdout.replace("│", "").split())
    assert "--install-completion" in done.stdout


def test_every_command_has_help_and_completion_can_be_shown(folder: Path):
    done = one_by_one({name: [name, "--help"] for name in COMMANDS}, folder)
    assert {name: each.returncode for name, each in done.items() if each.returncode} == {}
    shown = changeover("--show-completion", "bash", at=folder, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert shown.returncode == 0
    assert "COMPLETE" in shown.stdout
