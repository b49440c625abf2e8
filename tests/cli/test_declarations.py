"""`agents`, `tools`, `skills`, `export`, `import`, `schema`: people declare a team as data."""

import json
from pathlib import Path

import pytest
import yaml

from changeover.documents.yaml_value import to_yaml
from tests.cli.process import changeover, json_lines, one_by_one
from tests.toolkits.mcp_process import ROOT, SHOP

TEAM = """\
model: offline
start: desk
agents:
  desk: {description: Greets everybody., tools: [shout]}
tools:
  shout: {type: internal, function: "shop_tools:shout"}
"""
TOOLS = '''
def shout(word: str) -> str:
    """Say it loudly."""
    return word.upper() + "!"


def hidden(context):
    return True
'''
CODE = """
from changeover import Agent, Team
from changeover.testing import ScriptedModel
import shop_tools

front = Agent("front", tools=[shop_tools.shout], skills=["skills/manners"])
team = Team([front], model="offline", tool_modules=[shop_tools])
scripted = Team([Agent("front", model=ScriptedModel({}))])
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHANGEOVER_TOOL_MODULES", "shop_tools")
    (tmp_path / "team.yaml").write_text(TEAM)
    (tmp_path / "shop_tools.py").write_text(TOOLS)
    (tmp_path / "code.py").write_text(CODE)
    folder = tmp_path / "skills" / "manners"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: manners\ndescription: How to greet.\n---\nBe polite.\n")
    (folder / "words.md").write_text("Good morning.")
    return tmp_path


def test_an_import_shows_what_would_change_and_writes_it_with_yes(shop: Path):
    changed = TEAM.replace("Greets everybody.", "Greets.") + "skills:\n  s: {description: d, instructions: i}\n"
    (shop / "changed.yaml").write_text(changed)
    done = one_by_one(
        {
            "upgrade": ("db", "upgrade"),
            "shown": ("import", "team.yaml"),
            "none": ("tools", "list"),
            "written": ("import", "team.yaml", "--yes", "--by", "ana"),
            "again": ("import", "team.yaml", "--yes"),
            "changed": ("import", "changed.yaml", "--yes"),
            "history": ("agents", "history", "desk", "--json"),
            "export": ("export",),
            "export as json": ("export", "--json"),
            "run": ("tools", "test", "shout", "--args", '{"word": "hello"}'),
        },
        at=shop,
    )
    assert [each.returncode for each in done.values()] == [0] * len(done), {n: d.stderr for n, d in done.items()}
    assert done["shown"].stdout == "+ agent desk\n+ tool shout\n+ team default\n"
    assert done["shown"].stderr == "nothing is written; to write it: --yes\n"
    assert done["none"].stderr == "no tools\n"
    assert done["written"].stderr == "written: 3; what is declared holds from the next run on\n"
    assert done["again"].stderr == "the store declares all of it already\n"
    assert done["changed"].stdout == "~ agent desk: description\n+ skill s\n"
    versions = json.loads(done["history"].stdout)
    assert [(each["version"], each["document"]["description"]) for each in versions] == [
        (1, "Greets everybody."),
        (2, "Greets."),
    ]
    assert versions[0]["by"] == "ana"
    assert yaml.safe_load(done["export"].stdout) == yaml.safe_load(changed) == json.loads(done["export as json"].stdout)
    assert done["run"].stdout == "HELLO!\n"


def test_a_team_that_only_the_store_declares_is_made_in_an_empty_folder_run_and_drawn(shop: Path):
    done = one_by_one(
        {
            "no store": ("run", "store", "hello"),
            "shown": ("import", "team.yaml"),
            "still no store": ("agents",),
            "import": ("import", "team.yaml", "--yes"),
            "add": ("agents", "add", "billing", "--description", "Payments, charges and refunds."),
            "run": ("run", "store", "Please shout hello"),
            "other": ("run", "store", "I was charged twice", "--json"),
            "graph": ("graph", "store"),
            "code and store": ("graph", "code.py:team", "--store", "changeover.db"),
            "unknown": ("run", "store:sales", "hello"),
        },
        at=shop,
    )
    assert [name for name, each in done.items() if each.returncode] == ["no store", "still no store", "unknown"]
    assert "which store? Give --store (a file or a URL)" in done["no store"].stderr
    assert (done["shown"].stdout, done["shown"].stderr) == (
        "+ agent desk\n+ tool shout\n+ team default\n",
        "nothing is written; to write it: --yes\n",
    )
    assert done["run"].stdout == "Please tell me the word, so that I can use shout.\n"
    assert json_lines(done["other"])[-1]["final_agent"] == "billing"
    assert done["graph"].stdout.startswith("desk (start): Greets everybody.\n  ├─ tool      shout\n")
    assert "billing: Payments, charges and refunds." in done["graph"].stdout
    drawn = done["code and store"].stdout
    assert [name in drawn for name in ("front\n", "desk (start): Greets", "billing: Payments")] == [True] * 3
    assert done["unknown"].stderr == "changeover: the store declares no team 'sales'; there are: default\n"


def test_an_agent_is_declared_changed_withdrawn_and_brought_back(shop: Path):
    done = one_by_one(
        {
            "add": ("agents", "add", "billing", "--instructions", "Send money back.", "--capability", "refunds"),
            "twice": ("agents", "add", "billing"),
            "edit": ("agents", "edit", "billing", "--set", "max_concurrency=2", "--set", "capabilities="),
            "stale": ("agents", "edit", "billing", "--set", "pull=true", "--expect", "1"),
            "wrong": ("agents", "edit", "billing", "--set", "handoffs=[nobody]"),
            "unknown": ("agents", "edit", "sales", "--set", "pull=true"),
            "show": ("agents", "show", "billing"),
            "disable": ("agents", "disable", "billing"),
            "list": ("agents", "list", "--json"),
            "remove": ("agents", "remove", "billing"),
            "enable": ("agents", "enable", "billing"),
            "json": ("agents", "show", "billing", "--json"),
            "remove again": ("agents", "remove", "billing"),
            "add again": ("agents", "add", "billing", "--instructions", "Send it all back."),
        },
        at=shop,
    )
    assert [name for name, each in done.items() if each.returncode] == ["twice", "stale", "wrong", "unknown"]
    assert done["add"].stdout == "agent billing is at version 1; it holds from the next run on\n"
    exists = "changeover: the store declares agent 'billing' already; to change it: changeover agents edit billing\n"
    assert done["twice"].stderr == exists
    assert done["add again"].stdout.startswith("agent billing is at version 7;")
    assert "and version 1 was expected; read it again, then change it" in done["stale"].stderr
    assert "agents.billing.handoffs[0]: expected the id of an agent (billing), found 'nobody'" in done["wrong"].stderr
    assert done["unknown"].stderr == "changeover: the store declares no agent 'sales'; there are: billing\n"
    assert "# agent billing, version 2, enabled," in done["show"].stdout
    assert "instructions: Send money back.\nmax_concurrency: 2\n" in done["show"].stdout
    [listed] = json.loads(done["list"].stdout)
    assert (listed["handoffs"], listed["source"], listed["max_concurrency"]) == ("disabled", "store", 2)
    row = json.loads(done["json"].stdout)["declaration"]
    assert (row["version"], row["state"]) == (5, "enabled")


def test_faults_of_a_file_have_lines_and_columns_and_nothing_is_written(shop: Path):
    (shop / "bad.yaml").write_text("type: http_api\nurl: ftp://x\nretrys: 2\nauth: {bearer: {token: sk-1}}\n")
    (shop / "bad_team.yaml").write_text(TEAM.replace("start: desk", "start: nobody").replace("[shout]", "[whisper]"))
    done = one_by_one(
        {
            "upgrade": ("db", "upgrade"),
            "tool": ("tools", "add", "get", "--file", "bad.yaml"),
            "key": (
                "tools",
                "add",
                "get",
                "--set",
                "type=http_api",
                "--set",
                "url=https://x.org",
                "--set",
                "auth={bearer: {token: sk-1}}",
            ),
            "team": ("import", "bad_team.yaml", "--yes"),
            "module": ("tools", "add", "rm", "--set", "type=internal", "--set", "function=shutil:rmtree"),
            "no file": ("tools", "add", "get", "--file", "none.yaml"),
            "no value": ("tools", "add", "get", "--set", "type"),
            "list": ("tools", "list"),
        },
        at=shop,
    )
    assert "bad.yaml, line 3, column 1: 'retrys' is not known here; did you mean 'retries'?" in done["tool"].stderr
    assert "the store, tools.get: tool 'get' has a literal token" in done["key"].stderr
    assert "bad_team.yaml, line 2, column 8: expected the id of an agent (desk), found 'nobody'" in done["team"].stderr
    assert "bad_team.yaml, line 4, column 50: expected the name of a tool (shout)" in done["team"].stderr
    assert "'shutil' is not among the modules that documents may name (shop_tools)" in done["module"].stderr
    assert done["no file"].stderr == "changeover: there is no file none.yaml\n"
    assert done["no value"].stderr == "changeover: --set 'type' is not KEY=VALUE\n"
    assert (done["list"].stdout, done["list"].stderr) == ("", "no tools\n")


def test_a_team_in_code_is_exported_with_its_skills_and_rows_beside_it(shop: Path):
    done = one_by_one(
        {
            "upgrade": ("db", "upgrade"),
            "skill": ("skills", "add", "manners", "--folder", "skills/manners"),
            "other name": ("skills", "add", "greeting", "--folder", "skills/manners"),
            "add": (
                "agents",
                "add",
                "back",
                "--set",
                "handoffs=[front]",
                "--set",
                "tools=[shout]",
                "--team",
                "code.py:team",
            ),
            "without team": ("agents", "add", "other", "--set", "handoffs=[front]"),
            "export": ("export", "--team", "code.py:team"),
            "code only": ("export", "--team", "code.py:scripted"),
            "partly": ("export", "--team", "code.py:scripted", "--partial"),
            "bad args": ("tools", "test", "shout", "--args", "[]"),
            "misfit": ("tools", "test", "shout", "--args", "{}", "--team", "code.py:team"),
            "unknown": ("tools", "test", "whisper"),
        },
        at=shop,
    )
    assert "the skill in skills/manners is called 'manners', not 'greeting'" in done["other name"].stderr
    assert "if code declares what it names, give --team TEAM" in done["without team"].stderr
    assert list(yaml.safe_load(done["export"].stdout)["agents"]) == ["front", "back"]
    manners = {"description": "How to greet.", "instructions": "Be polite.", "files": {"words.md": "Good morning."}}
    assert yaml.safe_load(done["export"].stdout) == {
        "model": "offline",
        "start": "front",
        "agents": {
            "back": {"handoffs": ["front"], "tools": ["shout"]},
            "front": {"tools": ["shop_tools:shout"], "skills": ["manners"]},
        },
        "skills": {"manners": manners},
    }
    assert (done["code only"].returncode, done["code only"].stdout) == (1, "")
    assert "only code can express agents.front.model: a model of type ScriptedModel" in done["code only"].stderr
    assert "front: {}" in done["partly"].stdout
    assert "is not a JSON object" in done["bad args"].stderr
    assert "word" in done["misfit"].stderr
    assert done["unknown"].stderr == "changeover: the store declares no tool 'whisper'; there are: none\n"


def test_what_was_written_in_an_editor_is_kept_if_it_cannot_be_stored(shop: Path, monkeypatch: pytest.MonkeyPatch):
    (shop / "wrong.sh").write_text("#!/bin/sh\necho 'pull: 5' > \"$1\"\n")
    (shop / "right.sh").write_text("#!/bin/sh\necho 'pull: true' > \"$1\"\n")
    for name in ("wrong.sh", "right.sh"):
        (shop / name).chmod(0o755)
    one_by_one({"upgrade": ("db", "upgrade"), "add": ("agents", "add", "billing")}, at=shop)
    monkeypatch.setenv("VISUAL", str(shop / "wrong.sh"))
    failed = changeover("agents", "edit", "billing", at=shop)
    assert "agent billing, line 1, column 7: expected true or false" in failed.stderr
    [kept] = [line for line in failed.stderr.splitlines() if line.startswith("what you wrote is in ")]
    file = Path(kept.removeprefix("what you wrote is in ").partition(";")[0])
    assert file.read_text() == "pull: 5\n"
    file.unlink()
    monkeypatch.setenv("VISUAL", str(shop / "right.sh"))
    assert changeover("agents", "edit", "billing", at=shop).stdout.startswith("agent billing is at version 2")
    assert "nothing is written" in changeover("agents", "edit", "billing", at=shop).stderr


def test_the_schema_is_printed(shop: Path):
    assert "agents" in json.loads(changeover("schema", at=shop).stdout)["properties"]


def test_a_server_and_its_tools_are_tried(shop: Path):
    (shop / "server.yaml").write_text(
        to_yaml({"type": "mcp_server", "command": list(SHOP), "cwd": str(ROOT), "env": {"PYTHONPATH": str(ROOT)}})
    )
    done = one_by_one(
        {
            "upgrade": ("db", "upgrade"),
            "add": ("tools", "add", "shop", "--file", "server.yaml"),
            "list": ("tools", "test", "shop"),
            "call": ("tools", "test", "shop_find_order", "--args", '{"number": 7}'),
            "fail": ("tools", "test", "shop_complain"),
        },
        at=shop,
    )
    assert "shop_find_order  Find an order by its number." in done["list"].stdout
    assert json.loads(done["call"].stdout) == {"number": 7, "note": ""}
    assert done["fail"].returncode == 1
    assert "shop_complain failed: " in done["fail"].stderr
