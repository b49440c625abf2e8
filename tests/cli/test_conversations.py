"""Listings: tables that fit a terminal, plain lines in a pipe, JSON for programs."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.cli.process import CONTROL, Done, changeover, on_a_terminal, one_by_one

COMMANDS = {
    "conversations": ["conversations"],
    "with delegates": ["conversations", "--delegates", "--status", "completed"],
    "tasks": ["tasks", "list", "--limit", "2"],
    "tasks as JSON": ["tasks", "list", "--json", "--agent", "billing", "--status", "waiting", "--conversation", "ada"],
    "task": ["tasks", "show", "ada#5"],
    "task as JSON": ["tasks", "show", "ada#2", "--json"],
    "handoffs": ["handoffs", "list", "--mode", "delegate"],
    "handoffs as JSON": ["handoffs", "list", "--state", "working", "--json"],
    "handoff": ["handoffs", "show", "ada:3.0"],
    "flow": ["conversations", "flow", "ada"],
    "flow as JSON": ["conversations", "flow", "ada", "--json"],
    "drawn": ["graph", "ada"],
    "in Mermaid": ["graph", "ada", "--format", "mermaid"],
    "in SVG": ["graph", "ada", "--format", "svg"],
    "the team in SVG": ["graph", "desk.py", "--format", "svg"],
}


@pytest.fixture(scope="module")
def seen(folder: Path, waiting: Done) -> dict[str, Done]:
    assert waiting.returncode == 3
    return one_by_one(COMMANDS, folder)


def test_in_a_pipe_there_are_no_control_characters_and_nothing_is_cut(seen: dict[str, Done]):
    assert {name: done.returncode for name, done in seen.items() if done.returncode} == {}
    assert {name: found for name, done in seen.items() if (found := CONTROL.findall(done.stdout))} == {}


def test_conversations_are_roots_unless_delegates_are_asked_for(seen: dict[str, Done]):
    head, line = seen["conversations"].stdout.splitlines()
    assert head.split() == ["conversation", "status", "agent", "handoffs", "updated", "title"]
    assert line.split()[:4] == ["ada", "waiting", "billing", "2"]
    assert [line.split()[0] for line in seen["with delegates"].stdout.splitlines()[1:]] == ["ada/6.0"]


def test_the_handoffs_of_a_conversation_are_those_of_all_its_runs(folder: Path):
    again = ["run", "plain.py:make", "hi", "--agent", "front", "--conversation", "often"]
    commands = {"first": again, "second": again, "third": [*again[:3], "--conversation", "often"]}
    made = one_by_one(commands | {"listed": ["conversations", "--json"]}, folder)
    listed = {each["id"]: each for each in json.loads(made["listed"].stdout)}
    assert (listed["often"]["handoffs"], "turns" in listed["often"]) == (2, False)


def test_a_list_says_when_there_is_more(seen: dict[str, Done]):
    assert len(seen["tasks"].stdout.splitlines()) == 3
    assert seen["tasks"].stderr == "There are more than 2 rows: raise --limit to see them.\n"


def test_filters_and_json(seen: dict[str, Done]):
    (task,) = json.loads(seen["tasks as JSON"].stdout)
    assert (task["id"], task["parent_id"], task["context"]) == ("ada#5", "ada#2", {"order_id": "1042"})
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", task["created_at"])
    (handoff,) = json.loads(seen["handoffs as JSON"].stdout)
    assert (handoff["id"], handoff["state"], handoff["variables"]) == ("ada:3.0", "WORKING", {"order_id": "1042"})


def test_a_task_is_shown_with_its_messages(seen: dict[str, Done]):
    assert re.search(r"^context +\{\"order_id\": \"1042\"\}$", seen["task"].stdout, re.M)
    assert re.search(r"tool_result +billing +It was paid twice\.$", seen["task"].stdout, re.M)
    assert json.loads(seen["task as JSON"].stdout)["messages"][0]["kind"] == "user_message"


def test_the_flow_of_the_context_is_shown_by_hop(seen: dict[str, Done]):
    head, line = seen["flow"].stdout.splitlines()
    assert head.split() == ["name", "by", "agent", "hop", "from", "to"]
    assert line.split() == ["order_id", "handoff", "handoff_to_billing", "triage", "ada:3.0", "-", '"1042"']
    (flow,) = json.loads(seen["flow as JSON"].stdout)
    assert (flow["name"], flow["changes"][0]["after"]) == ("order_id", "1042")


def test_a_handoff_is_shown_with_its_message(seen: dict[str, Done]):
    assert re.search(r"^message +Charged twice\.$", seen["handoff"].stdout, re.M)
    assert re.search(
        r"^ada:6\.0 +RETURNED +delegate +billing +research +all about order 1042$", seen["handoffs"].stdout, re.M
    )


def test_a_conversation_is_drawn_with_its_reasons(seen: dict[str, Done]):
    assert '  └─▶ billing: Charged twice. (order_id="1042") [WORKING]\nbilling\n' in seen["drawn"].stdout
    assert "  └─▶ asks research: all about order 1042 [RETURNED]\n" in seen["drawn"].stdout
    assert seen["in Mermaid"].stdout.startswith("sequenceDiagram\n")
    for name in ("in SVG", "the team in SVG"):
        assert ET.fromstring(seen[name].stdout).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_terminal_of_80_columns_gets_ids_whole_and_lines_that_fit(folder: Path, waiting: Done):
    plain, code = on_a_terminal("approvals", "list", at=folder, NO_COLOR="1")
    assert (code, CONTROL.findall(plain)) == (0, [])
    assert max(map(len, plain.splitlines())) <= 80
    assert re.search(r"^ada:10\.0:[0-9a-f]{16}\b", plain, re.M)
    coloured, _ = on_a_terminal("approvals", "list", at=folder)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert coloured != plain


LONG = "0189c2f4-5b7e-7d3a-9c41-2f6f3a1b8e55"


@pytest.mark.parametrize(
    ("columns", "head", "title"),
    [
        (80, ["conversation", "status", "title"], "I was charged twice for order…"),
        (
            120,
            ["conversation", "status", "agent", "handoffs", "title"],
            "I was charged twice for order 1042, and nobody has…",
        ),
    ],
)
def test_a_terminal_shows_each_conversation_on_one_line(tmp_path: Path, columns: int, head: list[str], title: str):
    (tmp_path / "desk.py").write_text(
        'from changeover import Agent, Team\nteam = Team([Agent("a-desk")], model="offline")'
    )
    said = "I was charged twice for order 1042, and nobody has answered my letter yet"
    options = {"short": ["--conversation", "eve"], "long": ["--conversation", LONG, "--user", "ada"]}
    one_by_one({name: ["run", "desk.py", said, *more] for name, more in options.items()}, tmp_path)
    shown, code = on_a_terminal("conversations", at=tmp_path, columns=columns, NO_COLOR="1")
    lines = shown.splitlines()
    assert (code, lines[0].split()) == (0, head)
    assert [line.split()[0] for line in lines[1:]] == [LONG, "eve"]
    assert all(line.endswith(title) and len(line) <= columns for line in lines[1:])
    assert changeover("conversations", at=tmp_path).stdout.count(said) == 2  # a pipe gets all of it


def test_a_message_on_a_terminal_is_wrapped_between_words(tmp_path: Path):
    on_a_terminal("db", "upgrade", at=tmp_path)
    shown, _ = on_a_terminal("workflows", at=tmp_path, columns=40)
    assert shown.splitlines() == [
        "the store declares no workflows; to list",
        "those of a team: changeover workflows",
        "--team TEAM",
    ]


@pytest.mark.parametrize("what", ["ada", "desk.py"])
def test_a_drawing_fits_its_terminal_and_says_the_same(folder: Path, waiting: Done, what: str):
    shown, code = on_a_terminal("graph", what, at=folder, columns=30, NO_COLOR="1")
    assert (code, CONTROL.findall(shown)) == (0, [])
    assert max(map(len, shown.splitlines())) <= 30
    piped = changeover("graph", what, at=folder).stdout
    assert max(map(len, piped.splitlines())) > 30
    assert re.sub(r"[\s│]", "", shown) == re.sub(r"[\s│]", "", piped)
    if what == "ada":
        assert "  └─▶ asks research: all about\n      order 1042 [RETURNED]\n" in shown
    else:
        assert "  ├─ hands to  triage by\n  │            handoff\n" in shown


def test_without_a_store_it_says_where_it_looked(tmp_path: Path):
    done = changeover("conversations", at=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "changeover: which store? Give --store (a file or a URL) or set CHANGEOVER_STORE;"
        " there is no changeover.db here\n"
    )
    assert list(tmp_path.iterdir()) == []
