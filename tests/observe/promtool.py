"""promtool, which tells what is wrong with figures and rules; from Debian's package `prometheus`."""

import os
import shutil
import subprocess
from pathlib import Path


def promtool(*arguments: str, given: bytes = b"") -> str:
    """What promtool finds wrong; empty if it is content."""
    done = subprocess.run([_path(), *arguments], input=given, capture_output=True, check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).decode()


def _path() -> str:
    """The path of promtool, which is installed where the tests run as root on Debian."""
    if not (found := shutil.which("promtool")) and os.geteuid() == 0:
        # Only the files: the package would start a server.
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "prometheus"],
            check=False,
            capture_output=True,
        )
        found = shutil.which("promtool")
    assert found, "these tests need promtool on the PATH: install the package `prometheus`"
    return str(Path(found))
