"""The command line as people meet it: in a process of its own, in a pipe and on a terminal."""

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import CONTROL, changeover, environment, on_a_terminal


def finished(command: list[str], typed: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=typed,
        capture_output=True,
        encoding="utf-8",
        env=environment(**settings),
        timeout=50,
        check=False,
    )


def printed(*args: str, typed: str = "") -> str:
    """What a command that goes well prints in a pipe."""
    done = changeover("demo", *args, stdin=typed, NO_COLOR="1", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert CONTROL.findall(done.stdout) == []
    # Commands are not wrapped, so that they can be copied.
    assert [line for line in done.stdout.splitlines() if len(line) > 80 and " changeover " not in line] == []
    assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []
    return done.stdout


def chat(*typed: str, store: Path | None = None) -> str:
    return printed("--chat", *(["--store", str(store)] if store else []), typed="".join(f"{each}\n" for each in typed))


def handoffs(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^HANDOFF +(\w+) ──▶ (\w+)$", page, re.M)


def commands(page: str) -> list[list[str]]:
    """The commands that a page recommends."""
    return [shlex.split(line) for line in page.splitlines() if line.startswith("  ") and "--store" in line]


@pytest.fixture(scope="module", autouse=True)
def _temporary() -> Iterator[None]:
    """The demo leaves no file behind: neither temporary ones nor in the folder where it is called."""
    before = set(Path.cwd().iterdir())
    with tempfile.TemporaryDirectory(prefix="demo-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        yield
        assert [*Path(folder).iterdir()] == []
    assert {file.name for file in set(Path.cwd().iterdir()) - before if file.suffix == ".db"} == set()


@pytest.fixture(scope="module")
def demo() -> str:
    return printed()


def test_the_demo_says_at_once_that_it_is_scripted(demo: str):
    assert re.search(r"Scripted: .*\n?.*no model", demo[:300])


def test_the_demo_shows_each_handoff_with_its_reason_and_variables(demo: str):
    first, second, *_ = re.findall(r"^HANDOFF +(\w+) ──▶ (\w+)\n((?: {11}.*\n)+)", demo, re.M)
    assert first[:2] == ("triage", "billing")
    assert re.search(r'order_id +"1042"\n +amount +24.95\n +reason +"charged twice"', first[2])
    assert second[:2] == ("billing", "technical")
    assert re.search(r"message +Order 1042 is settled", second[2])


def test_the_demo_shows_who_answers_and_what_the_tools_gave(demo: str):
    names = "customer|triage|billing|technical|research|accounts|goodwill"
    speakers = re.findall(rf"^({names}) ", demo, re.M)
    first = "customer triage billing billing customer billing technical"
    assert " ".join(speakers) == f"{first} customer technical accounts accounts"
    assert 'payments(order_id="1042")\n           └─ pay_71' in demo
    assert "24.95 EUR of pay_72 sent back" in demo


def test_two_delegates_are_asked_at_once_and_both_come_back(demo: str):
    asked = [demo.index(f"┌ asks {who}") for who in ("technical", "research")]
    answered = [demo.index(f"└ {who} answers:") for who in ("technical", "research")]
    assert max(asked) < min(answered)
    assert re.search(r"│ technical: diagnose\(.*\n(.*\n)* +│ └─ (diagnose: )?order 1042", demo)


def test_a_refund_waits_for_a_yes(demo: str):
    order = [demo.index(words) for words in ("billing wants refund(", "approved by you", "pay_72 sent back")]
    assert order == sorted(order)


def test_a_rejected_handoff_finds_another_receiver(demo: str):
    tried = (
        r"^HANDOFF +technical ──▶ billing\n(?: {11}.*\n)+\n"
        r"REJECTED +billing rejects it: it may send back 100 EUR at most\n\n"
        r"HANDOFF +technical ──▶ accounts  try 2\n\n"
        r"accounts +Large amounts are ours\.\n"
    )
    assert re.search(tried, demo, re.M)


def test_a_task_that_no_agent_takes_is_decided_by_a_person(demo: str):
    escalated = (
        r"^REJECTED +billing rejects it: .*\n\n"
        r"ESCALATION no agent takes this from goodwill: declined by billing (.*\n)+"
        r" {11}given to accounts by you\n\n"
        r"HANDOFF +goodwill ──▶ accounts  try 2\n\n"
        r"accounts +The next month is on us"
    )
    assert re.search(escalated, demo, re.M)


def test_the_demo_ends_with_the_chain_drawn_and_the_totals(demo: str):
    drawn = demo[demo.index("── what happened") :]
    assert re.search(r"^triage\n└──▶ billing  order_id=.*\n     ├─ asked technical: .*\n", drawn, re.M)
    assert re.search(
        r"^     └──▶ technical\n          ├─ asked research: .*\n          ├─ tried billing: it may ", drawn, re.M
    )
    assert re.search(r"^          └──▶ accounts  order_id=\"1077\".*\n               └──▶ goodwill\n", drawn, re.M)
    totals = (
        r"8 handoffs \(3 to delegates\), 2 declined, 19 model turns, 7 tool\s+calls, 1 approval,\s+1 escalation,"
        r"\s+\d\.\d s\n"
    )
    assert re.search(totals, drawn)


def test_the_three_commands_that_a_demo_with_a_store_recommends_work(tmp_path: Path):
    page = printed("--store", str(tmp_path / "desk.db"))
    shown = [finished(command, NO_COLOR="1", COLUMNS="80") for command in commands(page)]
    assert [done.returncode for done in shown] == [0, 0, 0]
    conversations, chain, graph = (done.stdout for done in shown)
    assert re.search(r"demo +completed +accounts +8 ", conversations)  # as many handoffs as the totals say
    assert len(re.findall(r"triage|research", chain)) >= 3
    assert len(re.findall(r"\bREJECTED +transfer +\w+ +billing\b", chain)) == 2
    assert "tried billing: Money is for billing again." in graph


def test_commands_are_copyable_also_where_the_terminal_is_narrow(tmp_path: Path):
    page, _ = on_a_terminal("demo", "--pace", "0", at=tmp_path, columns=60, NO_COLOR="1")
    recommended = [line for line in page.splitlines() if line.startswith("  ") and " -m changeover " in line]
    verbs = [line.partition(" -m changeover ")[2].partition(" --store")[0] for line in recommended]
    kept = ["demo", "conversations", "handoffs", "graph demo"]
    assert verbs == [*kept, "demo --chat", "demo --crash", "init shop"]
    assert [line for line in page.splitlines() if len(line) > 60 and line not in recommended] == []
    assert [*tmp_path.iterdir()] == []


def test_a_store_that_was_chosen_may_hold_the_demo_several_times(tmp_path: Path):
    store = ["--store", str(tmp_path / "desk.db")]
    assert "graph demo --store" in printed(*store)
    assert "graph demo-2 --store" in printed(*store)


def test_a_store_that_cannot_be_opened_is_an_error_of_one_line(tmp_path: Path):
    done = changeover("demo", "--store", str(tmp_path / "no" / "such" / "desk.db"))
    assert done.returncode == 1
    assert done.stderr.startswith("changeover: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_pipe_that_knows_no_unicode_gets_ascii():
    done = finished([sys.executable, "-m", "changeover", "demo"], PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "triage --> billing\n" in done.stdout
    assert done.stdout.isascii()


def test_a_terminal_gets_colour(tmp_path: Path):
    sent, _ = on_a_terminal("demo", "--pace", "0", at=tmp_path)
    assert "\x1b[" in sent


def test_no_color_leaves_a_terminal_without_escape_codes(demo: str, tmp_path: Path):
    sent, code = on_a_terminal("demo", "--pace", "0", at=tmp_path, NO_COLOR="1")
    assert code == 0
    assert CONTROL.findall(sent) == []
    # Delegates that work at once come back in any order; when and where is another matter each time.
    varying = re.compile(r"desk-\w+|\d\.\d s")
    assert sorted(varying.sub("", sent).splitlines()) == sorted(varying.sub("", demo).splitlines())


def test_a_chat_says_that_its_model_is_offline_and_routes_what_is_typed():
    page = chat(
        "I was charged 24.95 EUR twice for order 1042",
        "And now the app shows error E42",
        "What does the manual say about E42?",
        "thanks",
        "back to my invoice, please",
    )
    assert re.search(r"Offline: no model, no key, no network", page)
    assert handoffs(page) == [("triage", "billing"), ("billing", "technical"), ("technical", "billing")]
    assert re.search(r'order_id +"1042"\n +amount +24.95', page)
    assert re.search(
        r"asks research: What does the manual say about E42\?(.*\n)+ +└ research answers: .*Errors, p. 12", page
    )


@pytest.mark.parametrize(
    ("sentence", "agent"),
    [
        ("Can I have my money back?", "billing"),
        ("I cannot log in any more", "technical"),
        ("Compare the Basic plan with the Team plan", "research"),
    ],
)
def test_a_reasonable_sentence_finds_its_agent(sentence: str, agent: str):
    assert handoffs(chat(sentence)) == [("triage", agent)]


def test_nonsense_is_asked_back():
    page = chat("asdf qwer zxcv")
    assert handoffs(page) == []
    assert "What is it about?" in " ".join(page.split())


@pytest.mark.parametrize(("answers", "sent"), [(["y"], True), (["n", "not today"], False)])
def test_a_refund_is_asked_about_in_the_chat(answers: list[str], sent: bool):
    page = chat("Please refund the second payment of order 1042", "perhaps", *answers)
    assert page.count("y(es), n(o), e(dit), r(espond), Enter for later: ") == 2
    assert re.search(rf"{'approved' if sent else 'rejected'} by \w+", page)
    assert ("└─ 24.95 EUR of pay_72 sent back" in page) is sent


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (["h", "accounts"], r"given to accounts by \w+\n\nHANDOFF    goodwill ──▶ accounts  try 2\n"),
        (["r", "A month for free"], r"answered by \w+: A month for free\n"),
    ],
)
def test_a_task_that_no_agent_takes_is_asked_about_in_the_chat(typed: list[str], shown: str):
    page = chat("Please refund 112 EUR for order 1077", "And what do I get for my trouble, goodwill?", "y", *typed)
    assert handoffs(page)[:3] == [("triage", "billing"), ("accounts", "goodwill"), ("goodwill", "billing")]
    assert "HANDOFF    triage ──▶ accounts  try 2\n" in page
    assert page.count("h(and over), r(espond), n(o), Enter for later: ") == 2
    assert re.search(shown, page)


def test_quitting_ends_the_chat_and_the_command_it_names_goes_on(tmp_path: Path):
    left = chat("The app shows error E42", "/quit", "never read", store=tmp_path / "desk.db")
    assert "never read" not in left
    again, graph = commands(left)
    page = finished(again, "thanks\n", NO_COLOR="1", COLUMNS="80").stdout
    assert "The conversation in this store continues." in page
    assert re.search(r"^technical  You are welcome\.", page, re.M)
    assert "technical" in finished(graph, NO_COLOR="1").stdout


def test_what_begins_with_a_slash_is_a_command(tmp_path: Path):
    page = chat("/help", "/agents", "/graph", "Can I have my money back?", "/graph", "/agents", "/nix", "/quit")
    assert re.search(r"/agents +the members of the team", page)
    assert page.count("billing     Looks after payments") == 1
    assert page.count("billing *   Looks after payments") == 1  # the active one
    assert "triage (start): Finds out" in page  # the team, as there were no handoffs yet
    assert re.search(r"conversation chat\n\n +triage\n +└─▶ billing: ", page)
    assert "/nix is not known here; /help lists what can be typed" in page


def test_a_user_who_leaves_at_a_request_is_asked_again_next_time(tmp_path: Path):
    left = chat("Please refund the second payment of order 1042", store=tmp_path / "desk.db")
    assert "sent back" not in left
    page = chat("y", store=tmp_path / "desk.db")
    assert "└─ 24.95 EUR of pay_72 sent back" in page
    assert page.count("wants refund(") == 1


def test_after_a_kill_another_process_goes_on_and_no_recorded_call_is_made_again():
    page = printed("--crash")
    killed, started = re.findall(r"^KILLED +process (\d+), by SIGKILL|Process (\d+) is started", page, re.M)
    first, second = killed[0], started[1]
    assert first != second
    assert re.search(r"recorded +34 events, 12 calls\n +active +billing\n", page)
    assert (
        page.index("pay_72 sent back") < page.index("KILLED") < page.index(f"billing    continues, in process {second}")
    )
    assert page.index("continues, in process") < page.index("Done: 24.95 EUR")
    (rows,) = re.findall(rf"^agent +calls +process {first} +process {second}\n((?:.+\n)+)", page, re.M)
    table = rows.splitlines()
    assert sum("recorded" in row[:46] for row in table) == 12
    assert [row.split() for row in table if "recorded" in row[46:]] in (
        [["billing", "model", "cut", "off", "recorded"]],
        [["billing", "model", "recorded"]],
    )
    assert sum(" refund " in row for row in table) == 1
    assert "12 calls were recorded before the kill; 0 of them were made again." in page


def test_a_chat_and_a_crash_at_once_are_refused():
    done = changeover("demo", "--chat", "--crash")
    assert (done.returncode, done.stdout) == (2, "")
    assert "choose one" in done.stderr


def test_without_a_command_there_is_help():
    done = changeover()
    assert (done.returncode, done.stdout) == (0, changeover("--help").stdout)


def test_the_version_is_printed():
    assert re.fullmatch(r"changeover \d+\.\d+\.\d+\n", changeover("--version").stdout)


def test_an_unknown_command_is_an_error_without_a_traceback():
    done = changeover("dmeo")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'dmeo'" in done.stderr
    assert "Traceback" not in done.stderr
