"""The command line as people meet it: in a process of its own, in a pipe and on a terminal."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
QUIET = {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "TERM", "PYTHONIOENCODING"}
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
HEAVY = {"pydantic", "pydantic_ai", "sqlalchemy", "alembic", "fastapi"}


def environment(**settings: str) -> dict[str, str]:
    """This process's own, without what would change how things look."""
    return {name: value for name, value in os.environ.items() if name not in QUIET} | settings


def changeover(*args: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "changeover", *args]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=environment(**settings), timeout=50, check=False
    )


def on_a_terminal(*args: str, **settings: str) -> str:
    """What a terminal would be sent; a new one is 80 columns wide for Rich."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "changeover", *args]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**settings)) as process:
        os.close(theirs)
        sent = b""
        try:
            while piece := os.read(ours, 65_536):
                sent += piece
        except OSError:  # Linux says so when the other end is closed
            pass
        os.close(ours)
        assert process.wait() == 0
    return sent.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def demo() -> str:
    done = changeover("demo")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_demo_says_at_once_that_it_is_scripted(demo: str):
    assert re.search(r"Scripted: .*\n?.*no model", demo[:300])


def test_the_demo_shows_each_handoff_with_its_variables(demo: str):
    first, second = re.findall(r"^HANDOFF \d (\w+) ──▶ (\w+) .*\n((?: {10}.*\n)+)", demo, re.M)
    assert first[:2] == ("triage", "billing")
    assert re.search(r'order_id +"1042"\n +reason +"charged twice"', first[2])
    assert second[:2] == ("billing", "refunds")
    assert re.search(r'payment_id +"pay_72"\n +amount +24.95', second[2])


def test_the_demo_shows_who_answers_and_what_the_tools_gave(demo: str):
    speakers = re.findall(r"^(customer|triage|billing|refunds) ", demo, re.M)
    assert speakers == ["customer", "triage", "billing", "refunds", "customer", "refunds"]
    assert 'calls payments(order_id="1042")\n          └─ pay_71' in demo
    assert "24.95 EUR of order 1042 sent back, receipt to ada@example.org" in demo


def test_the_demo_ends_with_the_chain_and_the_totals(demo: str):
    assert "chain     triage ──▶ billing ──▶ refunds\n" in demo
    assert "2 handoffs, 6 model turns, 3 agents\n" in demo


def test_the_sections_that_the_demo_recommends_are_in_the_readme(demo: str):
    recommended = re.findall(r"^README +(.+?):", demo, re.M)
    headings = re.findall(r"^## (.+)$", README.read_text(), re.M)
    assert recommended
    assert set(recommended) <= set(headings)


def test_a_pipe_gets_plain_lines_of_at_most_80_columns(demo: str):
    assert CONTROL.findall(demo) == []
    assert max(map(len, demo.splitlines())) <= 80
    assert [line for line in demo.splitlines() if line != line.rstrip()] == []


def test_a_pipe_that_knows_no_unicode_gets_ascii():
    done = changeover("demo", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "triage --> billing --> refunds" in done.stdout
    assert done.stdout.isascii()


def test_a_terminal_gets_colour():
    sent = on_a_terminal("demo", "--pace", "0", TERM="xterm-256color")
    assert "\x1b[" in sent


def test_no_color_leaves_a_terminal_without_escape_codes(demo: str):
    assert on_a_terminal("demo", "--pace", "0", TERM="xterm-256color", NO_COLOR="1") == demo


def test_help_names_the_commands_and_imports_nothing_heavy():
    # -X importtime lists every module on stderr.
    command = [sys.executable, "-X", "importtime", "-m", "changeover", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=50, check=True)
    assert "demo" in done.stdout
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert imported & HEAVY == set()


def test_without_a_command_there_is_help():
    done = changeover()
    assert (done.returncode, done.stdout) == (0, changeover("--help").stdout)


def test_the_version_is_told():
    assert re.fullmatch(r"changeover \d+\.\d+\.\d+\n", changeover("--version").stdout)


def test_a_command_that_does_not_exist_is_told_so_without_a_traceback():
    done = changeover("dmeo")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'dmeo'" in done.stderr
    assert "Traceback" not in done.stderr
