"""Public names: few in `changeover`, the others behind doors, and nothing else in the docs, examples and scaffold."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import changeover
from changeover.cli.init import FILES
from tests.docs.reference_pages import MODULES, ROOT, public_names

PUBLIC = {name: {*public_names(import_module(name))} for name in MODULES}
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERIC = {"Answer", "Context", "Decision", "Event", "Message", "Metadata", "Progress", "State", "Step", "Task"}
BLOCK = re.compile(r"^( *)```(?:python|py)\n(.*?)^\1```$", re.M | re.S)


def blocks(text: str) -> Iterator[str]:
    """The code in a text of Markdown."""
    for found in BLOCK.finditer(text):
        yield "\n".join(line.removeprefix(found[1]) for line in found[2].splitlines())


def docstrings(source: Path) -> Iterator[str]:
    """All docstrings of a module."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def internals(code: str) -> list[str]:
    """The imports and attributes of `changeover` in this code that are not public."""
    found = []
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Import(names=names):
                found += [each.name for each in names if _is_ours(each.name) and each.name not in PUBLIC]
            case ast.ImportFrom(module=str(module), names=names) if _is_ours(module):
                dotted = (f"{module}.{each.name}" for each in names)
                found += [each for each in dotted if not _is_public(each)]
            case ast.Attribute(value=ast.Name(id="changeover"), attr=attribute):
                found += [] if _is_public(f"changeover.{attribute}") else [f"changeover.{attribute}"]
            case _:
                pass
    return found


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "changeover"


def _is_public(dotted: str) -> bool:
    module, _, name = dotted.rpartition(".")
    return dotted in PUBLIC or dotted == "changeover.__version__" or name in PUBLIC.get(module, ())


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_shows_public_names_only(document: Path):
    assert [each for code in blocks(document.read_text()) for each in internals(code)] == []


def test_examples_docstrings_and_the_scaffold_show_public_names_only():
    code = {path.name: path.read_text() for path in EXAMPLES} | {f: FILES[f] for f in FILES if f.endswith(".py")}
    for source in (ROOT / "src").rglob("*.py"):
        code[str(source)] = "\n".join(block for text in docstrings(source) for block in blocks(text))
    assert len(EXAMPLES) > 1
    assert {where: found for where, each in code.items() if (found := internals(each))} == {}


def test_every_import_of_a_page_stands_in_a_block_that_is_read():
    for page in PAGES:
        told = set(re.findall(r"^\s*(?:from|import) changeover.*$", page.read_text(), re.M))
        read = "\n".join(blocks(page.read_text()))
        assert {line for line in told if line.strip() not in read} == set(), page


def test_internals_are_noticed():
    code = "import changeover.relay\nfrom changeover import Task, events\nfrom changeover.routing.load import Load"
    assert internals(code) == ["changeover.relay", "changeover.Task", "changeover.routing.load.Load"]
    assert internals("import changeover\nchangeover.State, changeover.Agent") == ["changeover.State"]
    assert [*blocks("- so:\n\n    ```python\n    import changeover\n    ```\n")] == ["import changeover"]


def test_the_front_door_has_what_first_programs_need_and_no_generic_name():
    assert len(changeover.__all__) <= 35
    assert not GENERIC.intersection(changeover.__all__)


def test_the_front_door_tells_type_checkers_what_it_imports():
    tree = ast.parse(Path(changeover.__file__).read_text())
    [typed] = [node for node in tree.body if isinstance(node, ast.If)]
    told = {each.names[0].name: each.module for each in typed.body if isinstance(each, ast.ImportFrom)}
    assert told == {name: f"changeover.{home}" for name, home in changeover._HOMES.items()}
    assert all(getattr(changeover, name) is not None for name in changeover.__all__)


def test_a_name_that_two_doors_have_is_one_thing():
    homes: dict[str, object] = {}
    for module, names in PUBLIC.items():
        for name in names:
            value = getattr(import_module(module), name)
            assert homes.setdefault(name, value) is value, f"{module}.{name}"
