"""`python -m tests.models.oldest_release`: tests the models with the oldest pydantic-ai that pyproject.toml allows.

Its Model layer changes weekly, so an untested lower bound is soon wrong.
"""

import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
BOUND = re.compile(r"pydantic-ai-slim>=([\d.]+)")


def main() -> int:
    """Make an environment that is thrown away, run the tests in it, and return pytest's exit code."""
    begun, oldest = time.monotonic(), oldest_allowed()
    with TemporaryDirectory() as folder:
        python = _installed(Path(folder), f"pydantic-ai-slim=={oldest}")
        show = "from importlib.metadata import version; print(version('pydantic-ai-slim'))"
        found = subprocess.run([python, "-c", show], capture_output=True, text=True, check=True).stdout.strip()
        print(f"pydantic-ai-slim {found}, installed in {time.monotonic() - begun:.0f} s", flush=True)
        tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--inline-snapshot=disable", "tests/models"]
        code = subprocess.run(tests, cwd=ROOT, check=False).returncode
    print(f"the models with pydantic-ai-slim {found}: {time.monotonic() - begun:.0f} s")
    return code


def oldest_allowed() -> str:
    """The lower bound of pyproject.toml."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    [bound] = [found[1] for each in declared if (found := BOUND.match(each))]
    return bound


def _installed(folder: Path, constraint: str) -> str:
    """An environment with our development tools under this constraint; its Python."""
    (folder / "constraints").write_text(constraint)
    venv, python = folder / "venv", str(folder / "venv/bin/python")
    if uv := shutil.which("uv"):
        make = [uv, "venv", "--quiet", "--python", sys.executable, str(venv)]
        install = [uv, "pip", "install", "--quiet", "--python", python]
    else:
        make = [sys.executable, "-m", "venv", str(venv)]
        install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run(make, check=True)
    constrained = ["--constraint", str(folder / "constraints"), "--editable", f"{ROOT}[dev]"]
    subprocess.run([*install, *constrained], check=True)
    return python


if __name__ == "__main__":
    sys.exit(main())
