"""The tables of a store: made, brought up to date, or refused."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from changeover.errors import StoreUnavailable
from changeover.faults import LimitFault
from changeover.relay.events import LimitReached, RunFailed, RunStopped, Started, UserSpoke
from changeover.stores import upgrade
from changeover.stores.codec import Events, encode
from changeover.stores.sql.database import Database
from changeover.stores.sql.dialects.sqlite import Sqlite
from changeover.stores.sql.log import SqlLog
from changeover.stores.sql.schema import METADATA, VERSION
from changeover.stores.store import Store, database_of, open_log, upgrade_store
from tests.stores.conftest import Opened
from tests.stores.entries import WORKING, opening, query
from tests.stores.tickets import taken

LATER = f"{int(VERSION) + 1:04}"
"""The version of the next migration."""
NEXT = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{LATER}", "{VERSION}"

def upgrade():
    op.add_column("conversations", sa.Column("mood", sa.Text))
"""


@pytest.fixture
def newer_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on this code is the next version's: it has one migration more."""

    def become() -> None:
        migrations = tmp_path / "migrations"
        shutil.copytree(upgrade.MIGRATIONS, migrations)
        (migrations / "versions" / f"{LATER}_mood.py").write_text(NEXT)
        monkeypatch.setattr(upgrade, "MIGRATIONS", migrations)
        monkeypatch.setattr(upgrade, "VERSION", LATER)

    return become


def version(store: str) -> str:
    [(found,)] = query(store, "SELECT version_num FROM changeover_version")
    return str(found)


def layout(store: str) -> list[tuple[object, ...]]:
    """Everything that a database knows of its tables."""
    if store.startswith("sqlite"):
        # Columns one by one: the text of a table that got a column later differs from one that was made with it.
        column = 'c.name, c.type, c."notnull", c.dflt_value, c.pk, c.cid'
        made = query(store, f"SELECT t.name, {column} FROM sqlite_master t, pragma_table_info(t.name) c")
        key = 't.name, i.name, i."unique", i.partial, c.name, c.seqno'
        listed = "sqlite_master t, pragma_index_list(t.name) i, pragma_index_info(i.name) c"
        keys = query(store, f"SELECT {key} FROM {listed}")
        indexes = query(store, "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index'")
        return sorted((*made, *keys, *indexes), key=str)
    columns = query(
        store,
        "SELECT table_name, column_name, data_type, is_nullable, column_default, character_maximum_length,"
        " collation_name FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2",
    )
    indexes = query(store, "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1")
    checks = query(
        store,
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE contype = 'c' AND connamespace = current_schema()::regnamespace ORDER BY 1",
    )
    schema = store.rpartition("=")[2]
    return [tuple(str(value).replace(schema, "…") for value in row) for row in (*columns, *indexes, *checks)]


async def test_the_tables_are_the_same_whether_made_at_once_or_by_migrations(bare_store: str, opened: Opened):
    upgrade.run_migrations(database_of(Store(bare_store)).engine())
    migrated = layout(bare_store)
    for table in METADATA.tables:
        query(bare_store, f"DROP TABLE {table}")
    await opened(bare_store).close()
    assert layout(bare_store) == migrated
    assert version(bare_store) == VERSION


async def test_conversations_and_tickets_of_a_store_without_teams_belong_to_the_default_team(
    bare_store: str, opened: Opened
):
    engine = database_of(Store(bare_store)).engine()
    upgrade.run_migrations(engine, "0001")
    names = "id, root, status, agent, position, seq, turns, handoffs, tokens, agents, created_at, updated_at"
    query(
        bare_store,
        f"INSERT INTO conversations (number, {names}) VALUES (1, 'old', 'old', 'running', '', 0, 0, 0, 0, 0, '', 1, 1)",
    )
    query(bare_store, "INSERT INTO tickets VALUES ('t', 'a', 'old', 'old', 'old', 0, 9, 1, 1, NULL, NULL, 0, FALSE)")
    told: list[tuple[int, int, str]] = []
    assert upgrade_store(Store(bare_store), lambda *each: told.append(each)) == ("0001", VERSION)
    assert [(done, total) for done, total, _ in told] == [(each, len(told)) for each in range(1, int(VERSION))]
    assert told[0][2].startswith("Migration 0002: ")
    log = opened(bare_store)
    assert (await log.unfinished("default"), await log.unfinished("sales")) == (["old"], [])
    assert (await taken(log, team="sales"), await taken(log, team="default")) == ([], ["t"])


async def test_an_older_store_gets_users_titles_and_times_from_its_logs(bare_store: str, opened: Opened):
    engine = database_of(Store(bare_store)).engine()
    upgrade.run_migrations(engine, "0003")
    bodies = {
        "old": '[{"event":"started"},{"event":"user_spoke","text":"Where is\\n my \\u0000parcel?","user":"ada"}]',
        "old/3.0": '[{"event":"started","root":"old"},{"event":"user_spoke","text":"look","user":"ada"}]',
        "bare": '[{"event":"started"},{"event":"cancel_requested"}]',
    }
    names = "id, root, parent, status, agent, position, seq, turns, handoffs, tokens, agents, created_at, updated_at"
    for number, (id, body) in enumerate(bodies.items(), 1):
        parent = "'old'" if "/" in id else "NULL"
        values = f"'{id}', '{id.partition('/')[0]}', {parent}, 'completed', '', 2, 2, 0, 0, 0, '', {number}, 9"
        query(bare_store, f"INSERT INTO conversations (number, {names}) VALUES ({number}, {values})")
        entry = f"{number}, 0, NULL, 'c', 1, 1, 1, '{body}'"
        query(bare_store, f"INSERT INTO entries VALUES ({entry})")
    said = "'old', 4, 0, 5, 'user_message', NULL, NULL, NULL, 7, 'more'"
    query(bare_store, f"INSERT INTO messages VALUES ({said})")
    assert upgrade_store(Store(bare_store)) == ("0003", VERSION)
    rows = query(bare_store, "SELECT id, user_name, title, said_at FROM conversations ORDER BY number")
    assert rows == [("old", "ada", "Where is my parcel?", 7), ("old/3.0", "", "look", 2), ("bare", "", "", 3)]


async def test_an_older_store_gets_the_limits_that_its_logs_say_were_reached(bare_store: str, opened: Opened):
    engine = database_of(Store(bare_store)).engine()
    upgrade.run_migrations(engine, "0004")
    steps = LimitFault("max_turns", 1)
    events: dict[str, Events] = {
        "asked": (Started(team="t"), LimitReached("max_handoffs", 3, spent=3)),
        "failed": (Started(team="t"), RunFailed(0, steps)),
        "stopped": (RunStopped(0, steps),),
        "fine": (Started(team="t"), UserSpoke('the "limit" of my card')),
    }
    names = "id, root, status, agent, position, seq, turns, handoffs, tokens, agents, created_at, updated_at"
    for number, (id, each) in enumerate(events.items(), 1):
        values = f"'{id}', '{id}', 'completed', '', 2, 2, 0, 0, 0, '', {number}, 9"
        query(bare_store, f"INSERT INTO conversations (number, {names}) VALUES ({number}, {values})")
        body, _ = encode(each)
        query(bare_store, f"INSERT INTO entries VALUES ({number}, 4, NULL, 'c', {number}, 1, 1, '{body}')")
    assert upgrade_store(Store(bare_store)) == ("0004", VERSION)
    found = query(bare_store, "SELECT conversation, position, at, agent, kind FROM limits ORDER BY at")
    assert found == [
        ("asked", 5, 1.0, "", "max_handoffs"),
        ("failed", 5, 2.0, "", "max_turns"),
        ("stopped", 4, 3.0, "", "max_turns"),
    ]
    await opened(bare_store).close()


def test_the_last_migration_is_the_version_of_the_schema():
    names = sorted(path.name for path in (upgrade.MIGRATIONS / "versions").glob("0*.py"))
    assert names[-1].startswith(f"{VERSION}_")


def test_opening_a_current_store_asks_one_question(bare_file: Path, opened: Opened):
    opened(f"sqlite:///{bare_file}")
    database = Sqlite(bare_file)
    session = database.connect()
    asked: list[str] = []
    session.connection.set_trace_callback(asked.append)
    upgrade.make_current(database, session)
    session.close()
    assert asked == ["SELECT version_num FROM changeover_version"]


async def test_many_who_open_an_empty_store_at_once_all_succeed(bare_store: str):
    logs: list[SqlLog] = []
    failed: list[Exception] = []

    def open_it() -> None:
        try:
            logs.append(open_log(Store(bare_store)))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    await logs[0].append(opening(), WORKING)
    for log in logs:
        await log.close()


async def test_an_older_file_is_brought_up_to_date_when_it_is_opened(
    bare_file: Path, opened: Opened, newer_code: Callable[[], None]
):
    store = f"sqlite:///{bare_file}"
    log = opened(store)
    await log.append(opening(), WORKING)
    await log.close()
    newer_code()
    log = opened(store)
    assert len(await log.read("c")) == 1
    assert version(store) == LATER
    assert query(store, "SELECT id, mood FROM conversations") == [("c", None)]


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    bare_file: Path, opened: Opened, newer_code: Callable[[], None]
):
    store = f"sqlite:///{bare_file}"
    await opened(store).close()
    before = layout(store)
    newer_code()
    broken = upgrade.MIGRATIONS / "versions" / f"{LATER}_mood.py"
    broken.write_text(NEXT + '    op.execute("SELECT * FROM nowhere")\n')
    with pytest.raises(StoreUnavailable, match="nowhere"):
        open_log(Store(store))
    assert layout(store) == before
    assert version(store) == VERSION


async def test_an_older_server_is_refused_with_the_command_to_type(
    bare_postgres: str, opened: Opened, newer_code: Callable[[], None]
):
    await opened(bare_postgres).close()
    newer_code()
    secret = bare_postgres.replace("postgres@", "postgres:secret@")
    with pytest.raises(StoreUnavailable) as caught:
        open_log(Store(secret))
    assert "changeover db upgrade --store postgresql://postgres:***@" in str(caught.value)
    assert version(bare_postgres) == VERSION
    assert upgrade_store(Store(bare_postgres)) == (VERSION, LATER)
    await opened(bare_postgres).append(opening(), WORKING)
    assert upgrade_store(Store(bare_postgres)) == (LATER, LATER)


def test_a_newer_store_is_refused(bare_store: str, opened: Opened):
    opened(bare_store)
    query(bare_store, "UPDATE changeover_version SET version_num = '0999'")
    with pytest.raises(StoreUnavailable, match=r"newer version of changeover: its tables are at 0999"):
        open_log(Store(bare_store))


@pytest.mark.parametrize("use", [open_log, upgrade_store])
def test_a_store_that_we_may_not_read_says_so(bare_postgres: str, use: Callable[[Store], object]):
    upgrade_store(Store(bare_postgres))
    schema, somebody = bare_postgres.rpartition("=")[2], "pg_monitor"  # a role that every server has
    query(bare_postgres, f"GRANT USAGE ON SCHEMA {schema} TO {somebody}")
    theirs = bare_postgres.replace("options=", f"options=-crole%3D{somebody}%20")
    with pytest.raises(StoreUnavailable, match="cannot be opened: permission denied for table changeover_version"):
        use(Store(theirs))


def test_a_store_whose_version_is_missing_is_damaged(bare_store: str, opened: Opened):
    opened(bare_store)
    query(bare_store, "DELETE FROM changeover_version")
    with pytest.raises(StoreUnavailable, match="damaged"):
        open_log(Store(bare_store))


def test_tables_of_the_users_own_are_not_touched(bare_store: str, opened: Opened):
    query(bare_store, "CREATE TABLE customers (id INTEGER)")
    opened(bare_store)
    assert query(bare_store, "SELECT count(*) FROM customers") == [(0,)]


def test_a_database_with_other_tables_of_our_names_is_refused(bare_store: str):
    query(bare_store, "CREATE TABLE tasks (id INTEGER)")
    with pytest.raises(StoreUnavailable, match="tasks; give changeover a database of its own"):
        open_log(Store(bare_store))
    assert query(bare_store, "SELECT count(*) FROM tasks") == [(0,)]


def test_an_empty_store_can_be_made_by_the_upgrade_too(bare_store: str):
    assert upgrade_store(Store(bare_store)) == (None, VERSION)
    assert version(bare_store) == VERSION


def test_a_database_is_what_the_store_needs(bare_store: str):
    database: Database = database_of(Store(bare_store))
    assert database.dialect == bare_store.partition(":")[0]
