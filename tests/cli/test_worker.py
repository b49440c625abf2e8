"""`worker`: it takes what waits, tells what it does, and ends in good order or is killed without harm."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.process import (
    CONTROL,
    Done,
    Started,
    changeover,
    environment,
    json_lines,
    on_a_terminal,
    one_by_one,
    wait_for,
)
from tests.cli.queues import answer, asked, made

RETRY, LEFT = ["handoffs", "retry", "careful:2"], ["handoffs", "stuck"]
LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  (.+?)  +(\w+)  +(\S+:\S+)(?:  (.*))?$", re.M)
"""A line about a ticket: what, whose, which, and more."""


def lines(text: str) -> list[tuple[str, ...]]:
    return [tuple(found) for found in LINE.findall(text)]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return made(tmp_path)


@pytest.fixture(scope="module")
def drained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    folder = made(tmp_path_factory.mktemp("shop"))
    asked(folder, "triage", "boss", "hasty", "hopeful")
    commands = {
        "worker": ["worker", "shop.py", "--drain", "--name", "shop-1"],
        "triage": ["resume", "shop.py", "triage"],
        "boss": ["resume", "shop.py", "boss"],
        "hopeful": ["resume", "shop.py", "hopeful"],
        "again": ["worker", "shop.py", "--once", "--agents", "billing, research", "--concurrency", "1"],
    }
    return one_by_one(commands, folder)


def test_a_run_that_waits_for_a_worker_ends_with_3_and_says_what_to_type(shop: Path):
    done = changeover("run", "shop.py", "hi", "--conversation", "ada", at=shop)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "The conversation ada waits for a worker:\n"
        "  ada:3.0 for billing\n"
        "    changeover worker shop.py --agents billing\n"
        "  then, for the result:\n"
        "    changeover resume shop.py ada\n"
    )
    told = changeover("resume", "shop.py", "ada", "--json", at=shop)
    assert told.returncode == 3
    (pending,) = json_lines(told)[-1]["pending"]
    assert (pending["id"], pending["agent"], pending["kind"]) == ("ada:3.0", "billing", "claim")


def test_an_agent_without_a_model_waits_for_a_program_and_for_no_worker(tmp_path: Path):
    (tmp_path / "own.py").write_text(
        "from changeover import Agent, Team\n"
        "team = Team([Agent('front', model='offline'), Agent('papers', pull=True)], start='papers')\n"
    )
    done = changeover("run", "own.py", "hi", "--conversation", "ada", at=tmp_path)
    assert done.returncode == 3
    assert "ada:2 for papers, which has no model: a program of yours must claim it\n" in done.stderr
    assert "changeover worker" not in done.stderr


def test_a_worker_drains_the_queue_and_reports_each_ticket(drained: dict[str, Done]):
    worker = drained["worker"]
    assert (worker.returncode, worker.stderr, CONTROL.findall(worker.stdout)) == (0, "", [])
    first, *_, before_last, last = worker.stdout.splitlines()
    served = "shop-1 serves billing, research, broken, busy, careful, slow on sqlite:"
    assert re.fullmatch(rf"{served}\S+; 4 at once, lease 60 s, grace 30 s", first)
    told = lines(worker.stdout)
    assert {each[:3] for each in told if each[0] == "takes"} == {
        ("takes", "billing", "triage:3.0"),
        ("takes", "research", "boss:3.0"),
        ("takes", "broken", "hasty:3.0"),
        ("takes", "busy", "hopeful:3.0"),
    }
    ends = {ticket: (what, re.sub(r"\d+\.\d s", "N s", more)) for what, _, ticket, more in told if what != "takes"}
    assert ends == {
        "triage:3.0": ("done", "after N s"),
        "boss:3.0": ("done", "after N s"),
        "hasty:3.0": ("failed", "after N s: 'broken' got no usable reply from its model: no line"),
        "hopeful:3.0": ("declined", "after N s: no time"),
    }
    assert before_last == "stops: nothing is left to claim"
    assert re.fullmatch(r"2 done, 1 failed, 1 declined, in \d+\.\d s", last)


def test_the_sender_gets_the_result_of_a_worker(drained: dict[str, Done]):
    assert drained["triage"].stdout == "Sent back.\n"
    assert drained["boss"].stdout == "Found out.\n"
    assert drained["hopeful"].stdout == "Then I will.\n"


def test_a_worker_that_finds_nothing_to_do_says_so(drained: dict[str, Done]):
    first, *_, last = drained["again"].stdout.splitlines()
    assert " serves billing, research on " in first
    assert re.fullmatch(r"no tickets, in \d+\.\d s", last)


def test_the_queue_is_not_drained_while_a_sender_goes_on_with_what_came_back(shop: Path):
    asked(shop, "thorough")
    with Started("worker", "shop.py", "--drain", at=shop) as worker:
        worker.until("  done        research  thorough:3.0")
        wait_for((shop / "begun").exists)
        time.sleep(0.5)  # longer than it takes to see that nothing can be claimed
        assert worker.process.poll() is None
        (shop / "go").touch()
        assert worker.ends()[0] == 0
    (seen,) = json.loads(changeover("conversations", "--json", at=shop).stdout)
    assert (seen["id"], seen["status"]) == ("thorough", "completed")


def test_json_is_an_object_a_line(shop: Path):
    asked(shop, "triage", "hasty")
    done = changeover("worker", "shop.py", "--drain", "--json", "--agents", "billing,broken", "--lease", "7", at=shop)
    assert (done.returncode, done.stderr) == (0, "")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["event"] for each in told if each["event"] != "ended"] == [
        "serving",
        "taken",
        "taken",
        "stopping",
        "stopped",
    ]
    assert (told[0]["agents"], told[0]["lease"], told[0]["concurrency"]) == (["billing", "broken"], 7, 4)
    taken = next(each for each in told if each["event"] == "taken" and each["agent"] == "billing")
    assert (taken["ticket"], taken["conversation"], taken["attempt"]) == ("triage:3.0", "triage", 1)
    ended = {each["ticket"]: each for each in told if each["event"] == "ended"}
    assert (ended["triage:3.0"]["end"], ended["triage:3.0"]["reason"]) == ("done", "")
    assert ended["hasty:3.0"]["end"] == "failed"
    assert "no line" in ended["hasty:3.0"]["reason"]
    assert told[-1]["ends"] == {"done": 1, "failed": 1}


def test_on_a_terminal_lines_fit_and_are_coloured(shop: Path):
    asked(shop, "hasty")
    plain, code = on_a_terminal("worker", "shop.py", "--drain", at=shop, NO_COLOR="1")
    assert (code, CONTROL.findall(plain)) == (0, [])
    assert max(map(len, plain.splitlines())) <= 80
    assert re.search(
        r"^\d\d:\d\d:\d\d  failed +broken +hasty:3\.0  after \d+\.\d s: 'broken' got no usable\n {32}reply", plain, re.M
    )
    coloured, _ = on_a_terminal("worker", "shop.py", "--drain", "--agents", "billing", at=shop)
    assert "\x1b[1m" in coloured


def test_a_worker_serves_only_the_named_agents(shop: Path):
    asked(shop, "triage", "boss")
    done = changeover("worker", "shop.py", "--drain", "--agents", "research", at=shop)
    assert {agent for _, agent, *_ in lines(done.stdout)} == {"research"}
    left = json.loads(changeover("handoffs", "stuck", "--json", at=shop).stdout)
    assert [each["id"] for each in left] == ["triage:3.0"]


def test_a_ticket_that_waits_for_a_person_is_let_go_and_goes_on_when_that_is_decided(shop: Path):
    asked(shop, "careful")
    drain = ["worker", "shop.py", "--drain"]
    done = one_by_one({"first": drain, "asked": ["approvals", "list", "--json"], "retried": RETRY, "left": LEFT}, shop)
    told = lines(done["first"].stdout)
    assert [each[:3] for each in told] == [("takes", "careful", "careful:2"), ("waits", "careful", "careful:2")]
    assert told[1][3].endswith(" s: for a person or a delegate")
    assert (done["left"].returncode, done["left"].stderr) == (0, "nothing is stuck\n")
    assert done["retried"].stderr == (
        "changeover: careful:2 waits for a person or a delegate, not for a worker; see: changeover approvals list\n"
    )
    (request,) = json.loads(done["asked"].stdout)
    approve = ["approvals", "approve", request["id"], "--team", "shop.py"]
    after = one_by_one({"approved": approve, "second": drain}, shop)
    assert (after["approved"].returncode, after["second"].returncode) == (3, 0)
    assert re.search(r"careful:\S+ for billing\n    changeover worker shop.py --agents", after["approved"].stderr)
    assert answer(shop, "careful") == "Sent back."


def test_a_worker_that_is_stopped_finishes_what_it_has_and_takes_nothing_more(shop: Path):
    asked(shop, "patient")
    with Started("worker", "shop.py", at=shop) as worker:
        worker.until("takes       slow      patient:3.0")
        worker.hears(signal.SIGTERM)
        worker.until("stops: SIGTERM; 1 in work, for 30 s at most; a second signal gives them back at once\n")
        asked(shop, "triage")
        (shop / "go").touch()
        code, text = worker.ends()
    assert code == 0
    assert [what for what, *_ in lines(text)] == ["takes", "done"]
    assert re.search(r"^1 done, in \d+\.\d s$", text, re.M)
    assert answer(shop, "patient") == "At last."


def test_tickets_unfinished_after_the_grace_period_are_given_back(shop: Path):
    asked(shop, "patient")
    with Started("worker", "shop.py", "--grace", "0.2", at=shop) as worker:
        worker.until("takes")
        worker.hears(signal.SIGTERM)
        code, text = worker.ends()
    assert (code, [what for what, *_ in lines(text)]) == (0, ["takes", "given back"])
    (shop / "go").touch()
    again = changeover("worker", "shop.py", "--drain", at=shop)
    # As if it had never been taken: whoever gives back in good order costs it no attempt.
    what, *_, more = lines(again.stdout)[0]
    assert (what, more) == ("takes", "")
    assert answer(shop, "patient") == "At last."


def test_a_second_signal_ends_the_wait_at_once(shop: Path):
    asked(shop, "patient")
    with Started("worker", "shop.py", "--grace", "600", at=shop) as worker:
        worker.until("takes")
        worker.hears(signal.SIGINT)
        worker.until("stops: SIGINT; 1 in work, for 600 s at most")
        worker.hears(signal.SIGINT)
        code, text = worker.ends()
    assert (code, [what for what, *_ in lines(text)]) == (0, ["takes", "given back"])


def test_the_ticket_of_a_killed_worker_is_finished_by_another(shop: Path):
    asked(shop, "patient")
    with Started("worker", "shop.py", "--lease", "1", at=shop) as first:
        first.until("takes")
        first.hears(signal.SIGKILL)
        first.ends()
    with Started("worker", "shop.py", "--name", "second", at=shop) as second:
        second.until("takes       slow      patient:3.0  attempt 2\n")
        (shop / "go").touch()
        second.until("  done        slow      patient:3.0  after")
        second.hears(signal.SIGTERM)
        code, text = second.ends()
    assert (code, len(lines(text))) == (0, 2)
    assert answer(shop, "patient") == "At last."
    shown = json.loads(changeover("handoffs", "show", "patient:3.0", "--json", at=shop).stdout)
    assert shown["state"] == "COMPLETE"


def test_two_workers_share_a_queue_and_nothing_is_done_twice(shop: Path):
    asked(shop, "triage", "boss", "hopeful")
    single = ("worker", "shop.py", "--concurrency", "1")
    with Started(*single, at=shop) as one, Started(*single, at=shop) as two:
        wait_for(lambda: len(lines(one.text + two.text)) == 6)
        for worker in (one, two):
            worker.until(" serves ")
            worker.hears(signal.SIGTERM)
            assert worker.ends()[0] == 0
        told = lines(one.text + two.text)
    assert sorted(ticket for what, _, ticket, _ in told if what == "takes") == ["boss:3.0", "hopeful:3.0", "triage:3.0"]


def test_a_worker_continues_when_its_pipe_is_closed(shop: Path):
    asked(shop, "triage", "boss")
    command = [sys.executable, "-m", "changeover", "worker", "shop.py", "--drain", "--concurrency", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=shop, env=environment()) as worker:
        assert worker.stdout is not None
        worker.stdout.close()
        assert worker.wait(20) == 0
    assert answer(shop, "triage") == "Sent back."
    assert answer(shop, "boss") == "Found out."


def test_a_team_in_yaml_is_served_too(tmp_path: Path):
    (tmp_path / "shop.yaml").write_text("model: offline\nagents:\n  - {id: clerk, pull: true, handoffs: []}\n")
    assert changeover("run", "shop.yaml", "hi", "--conversation", "ada", at=tmp_path).returncode == 3
    done = changeover("worker", "shop.yaml", "--drain", at=tmp_path)
    assert [each[:3] for each in lines(done.stdout)] == [("takes", "clerk", "ada:2"), ("done", "clerk", "ada:2")]
    assert changeover("resume", "shop.yaml", "ada", at=tmp_path).returncode == 0


def test_agents_without_a_model_are_left_to_programs_of_the_user(tmp_path: Path):
    (tmp_path / "own.py").write_text(
        "from changeover import Agent, Team\n"
        "team = Team([Agent('front', model='offline', pull=True), Agent('papers', pull=True)])\n"
    )
    done = changeover("worker", "own.py", "--drain", at=tmp_path)
    assert done.returncode == 0
    assert done.stderr == "Not served: papers. Agents without a model need a program that claims their tickets.\n"
    assert " serves front on " in done.stdout
