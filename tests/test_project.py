"""What holds for the package as a whole: its version, its types, and how little importing it costs."""

import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files

import pytest

import changeover


def test_the_version_is_the_one_that_was_installed():
    assert changeover.__version__ == version("changeover")


def test_the_package_tells_type_checkers_that_it_is_typed():
    assert files("changeover").joinpath("py.typed").is_file()


@pytest.mark.parametrize("heavy", ["pydantic_ai", "fastapi", "sqlalchemy", "pydantic", "httpx2", "mcp", "psycopg"])
def test_import_changeover_leaves_heavy_libraries_alone(heavy: str):
    # In a process of its own: this one has imported half of them already.
    program = f"import changeover, sys; sys.exit({heavy!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
