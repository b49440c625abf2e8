"""Everything that the README and the docs show in Python runs, and prints what they say it prints.

The blocks of a page run in order and share their names, as if typed one after another; tests they define run as well.
An output block counts as a promise where `<!-- prints -->` stands above it. Code that needs other libraries is in
blocks of the language `py`, which do not run.
"""

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/changeover"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n+<!-- prints -->\n```(?:text|console)\n(?P<output>.*?)^```$)?", re.M | re.S
)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


class Block(NamedTuple):
    """A block of Python, its first line, and its output if the page shows one."""

    line: int
    code: str
    output: str | None


def blocks(page: str) -> list[Block]:
    return [
        Block(page.count("\n", 0, found.start("code")) + 1, found["code"], found["output"])
        for found in BLOCK.finditer(page)
    ]


@pytest.mark.parametrize("document", PAGES, ids=name)
def test_every_python_block_runs_and_prints_what_the_page_says(document: Path, capsys: pytest.CaptureFixture[str]):
    names: dict[str, Any] = {"__name__": document.stem}
    for block in blocks(document.read_text()):
        known = list(names)
        # Blank lines before the code: a traceback then shows the line of the page.
        exec(compile("\n" * (block.line - 1) + block.code, str(document), "exec"), names)
        for name in [name for name in names if name.startswith("test_") and name not in known]:
            outcome = names[name]()
            if inspect.iscoroutine(outcome):
                asyncio.run(outcome)
        printed = capsys.readouterr().out
        if block.output is not None:
            assert printed == block.output, f"{document.name}, line {block.line}"


@pytest.mark.parametrize("document", PAGES, ids=name)
def test_no_promise_of_output_is_overlooked(document: Path):
    text = document.read_text()
    assert text.count("<!-- prints -->") == sum(block.output is not None for block in blocks(text))
    assert text.count("```python") == len(blocks(text))


@pytest.mark.parametrize("document", PAGES, ids=name)
def test_a_sentence_names_who_acts(document: Path):
    prose = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.M | re.S)
    assert re.findall(r"\b(?:(?:who|whom|what|which)ever|(?:some|any|every|no)body|someone)\b", prose, re.I) == []


@pytest.mark.parametrize("document", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=name)
def test_every_link_to_a_file_leads_somewhere(document: Path):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", PAGES, ids=name)
def test_every_source_file_that_is_named_exists(document: Path):
    named = set(re.findall(r"`([a-z_/]+\.py)`", document.read_text()))
    assert [file for file in sorted(named) if not ((PACKAGE / file).is_file() or (ROOT / file).is_file())] == []


def test_the_handoff_that_is_followed_through_five_files_meets_functions_that_are_there():
    steps = re.findall(
        r"^\d\. \*\*`(.+?)`\*\*(.*?)(?=^\d\. |^#)", (ROOT / "docs/architecture.md").read_text(), re.M | re.S
    )
    assert [file for file, _ in steps] == re.findall(r"^\| `(.+?\.py)` \|", (ROOT / "README.md").read_text(), re.M)
    for file, told in steps:
        source = (PACKAGE / file).read_text()
        missing = [name for name in re.findall(r"`(\w+)\(\)`", told) if f"def {name}(" not in source]
        assert missing == [], file
