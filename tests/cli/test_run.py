"""`run`, `resume` and `approvals`: one message, its answer, and an exit code that a script can use."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.process import Done, Started, changeover, json_lines, on_a_terminal, one_by_one

LINK = "https://example.org/cat.png"


def test_a_run_that_waits_for_a_person_ends_with_3_and_says_what_to_type(waiting: Done):
    assert (waiting.returncode, waiting.stdout) == (3, "")
    assert "billing wants refund(amount=500.0)" in waiting.stderr
    assert re.search(r"changeover approvals approve ada:\S+ --team desk\.py\n", waiting.stderr)


def test_an_approved_run_goes_on_and_an_answer_is_all_that_standard_output_gets(waiting: Done, folder: Path):
    found = json.loads(changeover("approvals", "list", "--json", at=folder).stdout)
    id = next(each["id"] for each in found if each["conversation"] == "ada")
    done = changeover("approvals", "approve", id, "--team", "desk.py", "--by", "lea", at=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Done, as you wished.\n", "")
    after = one_by_one(
        {
            "again": ["approvals", "reject", id, "--team", "desk.py:team", "--note", "no"],
            "all": ["approvals", "list", "--status", "all"],
            "none": ["approvals", "list", "--conversation", "ada"],
            "resumed": ["resume", "desk.py", "ada"],
        },
        folder,
    )
    assert after["again"].returncode == 1
    assert after["again"].stderr == "changeover: this was approved already, by lea\n"
    assert re.search(rf"^{id} +approved +billing .* refund\(amount=500\.0\)$", after["all"].stdout, re.M)
    assert (after["none"].stdout, after["none"].stderr) == ("", "no request is pending\n")
    assert after["resumed"].stdout == "Done, as you wished.\n"


def test_the_agent_reads_that_its_call_was_rejected(folder: Path):
    asked = changeover("run", "desk.py", "twice!", "--conversation", "bob", "--json", at=folder)
    assert asked.returncode == 3
    (pending,) = json_lines(asked)[-1]["pending"]
    commands = {
        "rejected": ["approvals", "reject", pending["id"], "--team", "desk.py", "--note", "too much"],
        "listed": ["approvals", "list", "--status", "rejected", "--json"],
    }
    done = one_by_one(commands, folder)
    assert done["rejected"].returncode == 0
    listed = json.loads(done["listed"].stdout)
    assert [(each["id"], each["note"]) for each in listed] == [(pending["id"], "too much")]


@pytest.fixture(scope="module")
def tried(folder: Path) -> dict[str, Done]:
    noted = ["--context", "n=7", "--context", "who=Ada L.", "--context", "car=Infinity", "--user", "ada"]
    commands = {
        "json": ["run", "plain.py", "hi", "--json", *noted],
        "alone": ["run", "plain.py:make", "hi", "--agent", "echo", "--no-handoffs"],
        "module": ["run", "plain:one", "hi", "--store", "sqlite:///other.db", "--conversation", "here"],
        "failed": ["run", "plain.py:one", "hi", "--agent", "broken", "--conversation", "b"],
        "failed as JSON": ["run", "plain.py", "hi", "--agent", "broken", "--json"],
        "drawn alone": ["graph", "plain.py"],
        "attached": ["run", "plain.py", "Look", "--attach", "plain.py", "--attach", LINK, "--conversation", "shown"],
        "shown": ["tasks", "show", "shown#2"],
    }
    return one_by_one(commands, folder)


def test_a_result_as_json_has_everything_that_a_program_asks_for(tried: dict[str, Done]):
    *events, result = json_lines(tried["json"])
    assert [each["event"] for each in events][:3] == ["started", "user_spoke", "run_started"]
    assert result["event"] == "result"
    assert (result["status"], result["final_agent"], result["output"]) == ("completed", "echo", "I am here.")
    assert (result["context"]["n"], result["context"]["who"]) == (7, "Ada L.")
    assert result["context"]["car"] == "Infinity"
    assert [(each["sender"], each["receiver"]) for each in result["handoff_chain"]] == [("front", "echo")]
    assert {"conversation_id", "run_id", "usage", "cost", "ledger", "pending"} <= result.keys()


def test_a_team_is_found_in_a_file_or_a_module_and_made_by_a_function(tried: dict[str, Done]):
    assert (tried["alone"].returncode, tried["alone"].stdout) == (0, "I am here.\n")
    assert (tried["module"].returncode, tried["module"].stdout) == (0, "I am here.\n")


def test_files_are_sent_with_the_message(tried: dict[str, Done]):
    assert (tried["attached"].returncode, tried["attached"].stdout) == (0, "I am here.\n")
    assert re.search(
        r" user_message +Look\n +\[plain\.py \(text/plain\)\]\n +\[cat\.png \(image/png\)\]\n", tried["shown"].stdout
    )


def test_a_store_can_be_chosen(tried: dict[str, Done], folder: Path):
    assert tried["module"].returncode == 0
    listed = changeover("conversations", "--store", "sqlite:///other.db", "--json", at=folder)
    assert [each["id"] for each in json.loads(listed.stdout)] == ["here"]


def test_a_failed_run_ends_with_1_and_can_be_resumed(tried: dict[str, Done], folder: Path):
    failed = tried["failed"]
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "'broken' got no usable reply from its model: no line" in failed.stderr
    assert "changeover resume plain.py:one b" in failed.stderr
    assert "Traceback" not in failed.stderr
    as_json = tried["failed as JSON"]
    assert as_json.returncode == 1
    assert json_lines(as_json)[-1]["error"]["type"] == "ModelError"
    again = changeover("resume", "plain.py", "b", "--json", at=folder)
    assert again.returncode == 0
    assert json_lines(again)[-1]["output"] == "Now it works."


def test_on_a_terminal_a_run_shows_its_handoffs_beside_the_answer(folder: Path):
    sent, code = on_a_terminal("run", "desk.py", "I was charged twice", at=folder, NO_COLOR="1")
    assert code == 3
    assert 'triage     Charged twice.\n\nHANDOFF    triage ──▶ billing\n           order_id    "1042"\n' in sent
    assert "           └ research answers: It was paid twice.\n" in sent


def test_the_message_may_come_from_standard_input(folder: Path):
    said = changeover("run", "plain.py", "-", "--conversation", "piped", at=folder, stdin="from a pipe\nof two lines\n")
    assert (said.returncode, said.stdout) == (0, "I am here.\n")
    task = changeover("tasks", "show", "piped#2", at=folder)
    assert re.search(r" user_message +from a pipe\n +of two lines\n", task.stdout)


def test_a_call_can_be_approved_with_other_arguments(folder: Path):
    asked = changeover("run", "desk.py", "twice!", "--conversation", "eve", "--json", at=folder)
    (pending,) = json_lines(asked)[-1]["pending"]
    edit = ["approvals", "edit", pending["id"], '{"amount": 5}', "--team", "desk.py", "--json"]
    *events, result = json_lines(changeover(*edit, at=folder))
    assert [each["event"] for each in events][:2] == ["approval_decided", "tool_finished"]  # only what is new
    assert (events[1]["text"], result["output"]) == ("5.0 EUR sent back", "Done, \x1b[31mas you wished.")


def test_every_noun_lists_by_itself_and_a_store_may_be_a_file(folder: Path, waiting: Done):
    assert waiting.returncode == 3
    nouns = "tasks handoffs approvals conversations breakers agents experiments router tools skills tokens"
    store = ["--store", "changeover.db"]
    for noun in [*nouns.split(), "bus", "schedules", "workflows"]:
        short, whole = (changeover(*words, *store, at=folder) for words in ([noun], [noun, "list"]))
        assert (short.returncode, short.stdout, short.stderr) == (0, whole.stdout, whole.stderr), noun


CAFE = """
from changeover import Agent, Team
from changeover.testing import ScriptedModel, says

team = Team([Agent("bar")], model=ScriptedModel({"bar": [says("A caf\u00e9 \u2615?")] * 2}))
"""


def test_what_an_encoding_does_not_have_is_replaced(folder: Path):
    (folder / "cafe.py").write_text(CAFE)
    with Started("chat", "cafe.py", at=folder, PYTHONIOENCODING="ascii") as chat:
        chat.types("hi\n")
        chat.until("bar        A caf? ??\n")
