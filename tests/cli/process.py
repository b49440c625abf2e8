"""The command line in processes of its own: piped, on a terminal, several at once."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

LOOKS = {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "TERM", "PYTHONIOENCODING"}
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
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

# Without tools: what makes a schema of a function takes most of the time that a command takes.
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
    """This process's own, without what would change how things look or which store is meant."""
    hidden = LOOKS | {"CHANGEOVER_STORE", "CHANGEOVER_TEAM", "CHANGEOVER_HANDOFFS"}
    return {name: value for name, value in os.environ.items() if name not in hidden} | settings


def changeover(*args: str, at: Path, stdin: str = "", **settings: str) -> Done:
    return subprocess.run(
        [sys.executable, "-m", "changeover", *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        input=stdin,
        cwd=at,
        env=environment(**settings),
        timeout=50,
        check=False,
    )


FORKS = """
import json, os, sys
import changeover.cli.chatting, changeover.cli.yaml_team, changeover.stores.views, changeover.stores.sqlite
import pydantic_ai.tools

for number, args in enumerate(json.loads(sys.stdin.read())):
    if (pid := os.fork()) == 0:
        for stream in (1, 2):
            os.dup2(os.open(f"{sys.argv[1]}/{number}.{stream}", os.O_WRONLY | os.O_CREAT), stream)
        sys.argv[:] = ["changeover", *args]
        code = 0
        try:
            changeover.cli.main()
        except SystemExit as end:
            code = end.code or 0
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def one_by_one(commands: Mapping[str, Sequence[str]], at: Path) -> dict[str, Done]:
    """Each command in a process of its own, all forked from one that has imported everything: that takes the time."""
    with TemporaryDirectory() as kept:
        listed = json.dumps(list(commands.values()))
        codes = subprocess.run(
            [sys.executable, "-c", FORKS, kept],
            input=listed,
            stdout=subprocess.PIPE,
            text=True,
            cwd=at,
            env=environment(),
            timeout=50,
            check=True,
        ).stdout.split()
        return {
            name: Done(args, int(code), *(Path(kept, f"{number}.{stream}").read_text("utf-8") for stream in (1, 2)))
            for number, ((name, args), code) in enumerate(zip(commands.items(), codes, strict=True))
        }


class Started:
    """A command that goes on until it is told to end."""

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
            )

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=20)

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return self._shown.read_text("utf-8")

    def until(self, text: str) -> None:
        """Wait until it has printed this."""
        wait_for(lambda: text in self.text or self.process.poll() is not None)
        assert text in self.text, self.text

    def hears(self, which: signal.Signals) -> None:
        self.process.send_signal(which)

    def types(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def ends(self) -> tuple[int, str]:
        """Its exit code, when it has ended, and all that it printed."""
        return self.process.wait(20), self.text


def wait_for(happened: Callable[[], bool], seconds: float = 20) -> None:
    """Look until it has; a test that waits in vain fails."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.02)


def on_a_terminal(
    *args: str, at: Path, types: Sequence[tuple[str, str]] = (), columns: int = 80, **settings: str
) -> tuple[str, int]:
    """What a terminal shows, and the exit code; after each text that is awaited, something is typed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(at)
        # A terminal's programs hear Ctrl-C, also if whoever runs these tests does not.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        shown = {"TERM": "xterm-256color"} | settings
        os.execve(sys.executable, [sys.executable, "-m", "changeover", *args], environment(**shown))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    sent, mark, left, deadline = b"", 0, list(types), time.monotonic() + 40
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                sent += os.read(terminal, 65_536)
            except OSError:  # Linux says so when the other end is closed
                break
        elif left and left[0][0].encode() in sent[mark:]:
            # Silent for a tenth of a second: it does wait for what is typed.
            mark = len(sent)
            os.write(terminal, left.pop(0)[1].encode())
    else:
        os.kill(pid, 9)
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return sent.decode().replace("\r\n", "\n"), code
