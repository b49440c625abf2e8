"""The picture of the demo in the README and the docs, of a real run; run as a module to draw it again."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/demo.svg"
COMMAND = "python -m tests.docs.demo_picture"
WIDTH = 84
COLOURS = TerminalTheme(
    (30, 32, 36),
    (220, 222, 224),
    [
        (20, 20, 20),
        (240, 110, 110),
        (140, 200, 110),
        (230, 190, 90),
        (110, 165, 240),
        (200, 140, 220),
        (90, 200, 200),
        (230, 230, 230),
    ],
)


def shown() -> list[Text]:
    """What the demo prints on a terminal up to the end of its first request, line by line."""
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "changeover", "demo", "--pace", "0"]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=50, check=True)
    lines = [Text.from_ansi(line) for line in done.stdout.splitlines()]
    first, second, *_ = (number for number, line in enumerate(lines) if line.plain.startswith("customer"))
    return lines[first : second - 1]


def drawn(lines: list[Text]) -> str:
    """The lines as a terminal in SVG. Its fonts are those of the reader: none are fetched from another host."""
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        console.print(line, soft_wrap=True)
    svg = console.export_svg(title="changeover demo", unique_id="demo", theme=COLOURS)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
    return svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono").replace("\xa0", "&#160;")


def words(svg: str) -> list[str]:
    """The lines of text of a picture. Agents that work at the same time may print in any order, so they are sorted."""
    rows: dict[str, str] = {}
    for top, text in re.findall(r'<text [^>]*?y="([\d.]+)"[^>]*>(.*?)</text>', svg, re.S):
        rows[top] = rows.get(top, "") + text
    return sorted(row.replace("&#160;", " ").rstrip() for row in rows.values())


if __name__ == "__main__":
    PICTURE.write_text(drawn(shown()))
