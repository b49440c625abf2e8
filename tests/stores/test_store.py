"""Store: declared by users, checked and opened."""

import subprocess
import sys
from pathlib import Path

import pytest

from changeover.errors import MisconfiguredError, StoreUnavailable
from changeover.stores.store import Store, open_log
from tests.stores.conftest import Opened
from tests.stores.entries import WORKING, opening, query


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///store.db",
        "sqlite:////var/lib/store.db",
        "sqlite:///sub/my store.db",
        "postgresql://ana:pw@host:5432/db",
    ],
)
def test_a_store_is_a_file_or_a_server(url: str):
    assert Store(url).url == url


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("store.db", "sqlite:///file.db"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite://store.db", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("mysql://host/db", "postgresql://user@host/database"),
        ("postgresql+psycopg://host/db", "postgresql://user@host/database"),
        ("", "sqlite:///file.db"),
        (None, "not NoneType"),
    ],
)
def test_anything_else_is_refused_with_what_is_possible(url: str, says: str):
    with pytest.raises(MisconfiguredError) as caught:
        Store(url)
    assert says in str(caught.value)


@pytest.mark.parametrize("lease", [0, -1, float("inf"), float("nan"), "10", True, None])
def test_a_lease_is_a_positive_number_of_seconds(lease: float):
    with pytest.raises(MisconfiguredError, match="a lease is a number of seconds"):
        Store("sqlite:///store.db", lease)


@pytest.mark.parametrize("url", ["mysql://ana:secret@host/db", "postgresql://ana:secret@[host/db"])
def test_a_password_is_not_in_the_error(url: str):
    with pytest.raises(MisconfiguredError) as caught:
        Store(url)
    assert "secret" not in str(caught.value)


async def test_a_relative_path_is_a_file_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Opened
):
    monkeypatch.chdir(tmp_path)
    log = opened("sqlite:///my store.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    await log.append(opening(), WORKING)
    assert len(await log.read("c")) == 1
    assert (tmp_path / "my store.db").exists()


def run(code: str, *args: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_declaring_a_store_imports_no_database():
    loaded = "import sys; from changeover.stores.store import Store; Store('sqlite:///x.db'); print(*sys.modules)"
    assert not {"sqlalchemy", "alembic", "psycopg", "sqlite3"} & set(run(loaded).split())


def test_opening_a_file_imports_neither_psycopg_nor_alembic(bare_file: Path):
    loaded = (
        "import sys; from changeover.stores.store import Store, open_log\n"
        "log = open_log(Store('sqlite:///' + sys.argv[1])); print(*sys.modules)"
    )
    for _ in ("a fresh file", "a current file"):
        assert not {"alembic", "psycopg"} & set(run(loaded, str(bare_file)).split())


def test_without_psycopg_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from changeover.stores.store import Store, open_log\n"
        "try: open_log(Store('postgresql://host/db'))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = run(code)
    assert said.startswith("MisconfiguredError")
    assert "changeover[postgres]" in said


def test_a_process_that_ends_without_closing_gives_up_what_it_owns(bare_file: Path):
    code = (
        "import asyncio, sys\n"
        "from changeover.stores.store import Store, open_log\n"
        "from tests.stores.entries import WORKING, opening\n"
        "log = open_log(Store('sqlite:///' + sys.argv[1]))\n"
        "asyncio.run(log.append(opening(), WORKING))"
    )
    run(code, str(bare_file))
    assert query(f"sqlite:///{bare_file}", "SELECT owner FROM conversations") == [(None,)]
    assert query(f"sqlite:///{bare_file}", "SELECT * FROM processes") == []


def test_a_fork_cannot_use_the_store_of_its_parent(bare_file: Path):
    code = (
        "import asyncio, os, sys\n"
        "from changeover.stores.store import Store, open_log\n"
        "from tests.stores.entries import WORKING, more, opening\n"
        "log = open_log(Store('sqlite:///' + sys.argv[1]))\n"
        "asyncio.run(log.append(opening(), WORKING))\n"
        "if os.fork() == 0:\n"
        "    try: asyncio.run(log.append(more(3), WORKING))\n"
        "    except Exception as error: print(type(error).__name__, error, flush=True)\n"
        "    sys.exit()\n"
        "os.wait()\n"
        "asyncio.run(log.append(more(3), WORKING))\n"
        "print(len(asyncio.run(log.read('c'))))"
    )
    said = run(code, str(bare_file))
    assert "StoreUnavailable" in said
    assert "open it in each process" in said
    assert said.endswith("2")


def test_an_address_that_libpq_cannot_read_is_refused():
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        open_log(Store("postgresql://host/db?nonsense=1"))
