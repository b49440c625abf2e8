"""Commands in processes of their own: in a pipe, on a terminal, several at once."""

import atexit
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

LOOKS = {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "TERM", "PYTHONIOENCODING"}
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
YOU = "you  "
"""The prompt of a chat begins like this."""
Done = subprocess.CompletedProcess[str]

DESK = '''
from changeover import Agent, Team, Variable, delegate, handoff, tool
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says


@tool(approval=True)
def refund(amount: float) -> str:
    """Send money back."""
    return f"{amount} EUR sent back"


script = {
    "triage": [hands_off("billing", "Charged twice.", order_id="1042"), says("At your service.")],
    "billing": [
        delegates("research", "all about order 1042"),
        calls(("refund", {"amount": 500.0})),
        says("Done, \\x1b[31mas you wished."),
        says("You are welcome."),
    ],
    "research": [says("It was paid twice.")],
}
to_billing = handoff("billing", variables=[Variable("order_id")])
agents = [
    Agent("triage", description="First of all", handoffs=[to_billing]),
    Agent("billing", tools=[refund], handoffs=["triage", delegate("research")]),
    Agent("research", handoffs=()),
]
team = Team(agents, model=ScriptedModel(script))

'''

# Without tools: making the schema of a function takes most of a command's time.
PLAIN = """
from changeover import Agent, Team
from changeover.testing import ScriptedModel, fails, hands_off, says

script = {
    "front": [hands_off("echo", "for you")] * 9,
    "echo": [says("I am here.")] * 9,
    "broken": [fails("no line", retryable=False), says("Now it works.")],
}
agents = [Agent("front"), Agent("echo", handoffs=()), Agent("broken", handoffs=())]


def make():
    return Team(agents, model=ScriptedModel(script))


def wrong():
    return 7


another = one = make()
"""


def environment(**settings: str) -> dict[str, str]:
    """The environment of this process without the variables that change the output or the store."""
    hidden = LOOKS | {f"CHANGEOVER_{each}" for each in ("STORE", "TEAM", "HANDOFFS", "SERVER", "TOKEN")}
    return {name: value for name, value in os.environ.items() if name not in hidden} | settings


@cache
def _fork_server() -> str:
    """The socket of the process from which commands are forked; it ends with this process."""
    home = TemporaryDirectory(prefix="changeover-cli-")
    address = f"{home.name}/socket"
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("forking.py")), address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    atexit.register(home.cleanup)
    atexit.register(process.communicate)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return address


def changeover(*args: str, at: Path | None = None, stdin: str = "", **settings: str) -> Done:
    """Run a command in a process forked from one that has imported everything, which saves most of the time.

    Commands on a terminal, and commands that keep running, are started as users start them.
    """
    typed, typing = os.pipe()
    os.write(typing, stdin.encode())
    os.close(typing)
    order = {"args": args, "at": str(at or Path.cwd()), "environment": environment(**settings)}
    with socket.socket(socket.AF_UNIX) as connection, TemporaryFile() as out, TemporaryFile() as err:
        connection.settimeout(50)
        connection.connect(_fork_server())
        socket.send_fds(connection, [json.dumps(order).encode() + b"\n"], [typed, out.fileno(), err.fileno()])
        os.close(typed)
        code = _end(connection)
        return Done(args, code, *(os.pread(file.fileno(), 10_000_000, 0).decode() for file in (out, err)))


def _end(connection: socket.socket) -> int:
    """The exit code of the process at the other end of this connection."""
    with connection.makefile() as told:
        pid = int(told.readline())
        try:
            return int(told.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise


def json_lines(done: Done) -> list[dict[str, Any]]:
    """The events that a command with --json printed, one a line; the last is the result."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def one_by_one(commands: Mapping[str, Sequence[str]], at: Path) -> dict[str, Done]:
    return {name: changeover(*args, at=at) for name, args in commands.items()}


class Started:
    """A command that runs until it is stopped."""

    def __init__(self, *args: str, at: Path, **settings: str) -> None:
        self._shown = at / f"{'-'.join(args[:2])}-{time.monotonic_ns()}.txt"
        with self._shown.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "changeover", *args],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                cwd=at,
                env=environment(**settings),
                # A shell lets what it starts in the background ignore SIGINT, and that would be inherited.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
            )

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=20)

    @property
    def text(self) -> str:
        """Its output so far."""
        return self._shown.read_text("utf-8")

    def until(self, text: str) -> None:
        """Wait until its output contains this text."""
        wait_for(lambda: text in self.text or self.process.poll() is not None)
        assert text in self.text, self.text

    def hears(self, which: signal.Signals) -> None:
        self.process.send_signal(which)

    def types(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def ends(self) -> tuple[int, str]:
        """Wait for its end; returns its exit code and its output."""
        return self.process.wait(20), self.text


def wait_for(happened: Callable[[], bool], seconds: float = 20) -> None:
    """Poll until this is true; fail after so many seconds."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.02)


def on_a_terminal(
    *args: str, at: Path, types: Sequence[tuple[str, str]] = (), columns: int = 80, **settings: str
) -> tuple[str, int]:
    """Run a command on a pseudo-terminal; returns its output and exit code. `types` pairs a text to wait for with the
    input that follows it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(at)
        # Ctrl-C must work here even if the process that runs the tests ignores it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        shown = {"TERM": "xterm-256color"} | settings
        os.execve(sys.executable, [sys.executable, "-m", "changeover", *args], environment(**shown))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    sent, mark, left, deadline = b"", 0, list(types), time.monotonic() + 40
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                sent += os.read(terminal, 65_536)
            except OSError:  # Linux raises this when the other end is closed
                break
        elif left and left[0][0].encode() in sent[mark:]:
            # Silent for a tenth of a second: it waits for input.
            mark = len(sent)
            os.write(terminal, left.pop(0)[1].encode())
    else:
        os.kill(pid, 9)
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return sent.decode().replace("\r\n", "\n"), code
