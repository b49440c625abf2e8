"""The commands on the page about queues print what the page shows, apart from names, times and paths."""

import re
import shlex
from pathlib import Path

from tests.cli.process import changeover
from tests.docs.test_code_blocks import ROOT, blocks

PAGE = (ROOT / "docs/queue.md").read_text()
VARIES = {
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d": "TIME",
    r"\d+\.\d s\b": "SECONDS",
    r"sqlite:/\S+;": "STORE;",
}


def commands() -> list[tuple[list[str], str]]:
    """Every command on the page, and its output."""
    shown = "".join(re.findall(r"^```console\n(.*?)^```$", PAGE, re.M | re.S))
    found = re.findall(r"^\$ changeover (.*)\n((?:(?!\$ ).*\n)*)", shown, re.M)
    assert len(found) == shown.count("$ ")
    return [(shlex.split(args), output) for args, output in found]


def alike(text: str) -> str:
    """The text without the parts that differ in every run."""
    for pattern, name in VARIES.items():
        text = re.sub(pattern, name, text)
    return text


def test_every_command_prints_what_the_page_says(tmp_path: Path):
    (tmp_path / "desk.py").write_text(blocks(PAGE)[0].code)
    begin = ["run", "desk.py", "I was charged twice", "--conversation", "bob"]
    for args, output in commands():
        if args == ["handoffs", "stuck"]:
            assert changeover(*begin, at=tmp_path).returncode == 3
        done = changeover(*args, at=tmp_path)
        assert alike(done.stdout + done.stderr) == alike(output), args
