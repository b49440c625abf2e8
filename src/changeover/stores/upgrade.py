"""Schema upgrade: creates the tables, checks their version and runs missing migrations."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from changeover.errors import ChangeoverError, StoreUnavailable
from changeover.stores.sql.compiler import Compiler
from changeover.stores.sql.database import Call, Database, Session, Trouble
from changeover.stores.sql.schema import METADATA, VERSION, version

MIGRATIONS = Path(__file__).parent / "migrations"
MARKER: Call = ("SELECT version_num FROM changeover_version", ())
TABLES: dict[str, Call] = {
    "sqlite": ("SELECT name FROM sqlite_master WHERE type = 'table'", ()),
    "postgresql": ("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()", ()),
}
# SQLite lets one writer in at a time; of PostgreSQL's, one makes the tables and the others wait for it here. They may
# take their time, which a session otherwise may not.
ALONE: dict[str, list[Call]] = {
    "sqlite": [],
    "postgresql": [
        (
            "SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('transaction_timeout', 'lock_timeout')",
            (),
        ),
        ("SELECT pg_advisory_xact_lock(7226349218)", ()),
    ],
}


def make_current(database: Database, session: Session) -> None:
    """Make the tables if there are none, bring them up to date if that is harmless, else raise StoreUnavailable."""
    try:
        found = version_found(database, session)
        if found is None:
            _create(database, session)
        elif found != VERSION:
            _migrate(database, found)
    except ChangeoverError:
        raise
    except Exception as error:
        raise StoreUnavailable(f"the store {database.shown} cannot be opened: {error}") from error


def migrate(database: Database, session: Session) -> tuple[str | None, str]:
    """Bring the tables up to date, whatever the database; the version they had, if any, and the one they have."""
    found = version_found(database, session)
    if found is None:
        _create(database, session)
    elif _older(database, found):
        run_migrations(database.engine())
    return found, VERSION


def run_migrations(engine: sa.Engine, to: str = "head") -> None:
    """Carry out the migrations that a database has not seen yet."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["engine"] = engine
    command.upgrade(config, to)


def version_found(database: Database, session: Session) -> str | None:
    """The version that the store is at, None if it has no tables yet."""
    try:
        rows = session.ask(MARKER)
    except Exception as error:
        if database.trouble(error) is not Trouble.MINE:
            raise
        return None  # there is no such table
    if not rows:
        raise StoreUnavailable(f"the store {database.shown} is damaged: its version is missing")
    return str(rows[0][0])


def _create(database: Database, session: Session) -> None:
    session.begin()
    try:
        *_, tables = session.run([*ALONE[database.dialect], TABLES[database.dialect]])
        taken = {name for (name,) in tables} & METADATA.tables.keys()
        if version.name in taken:
            session.rollback()  # another process was quicker
            _read_marker(database, session)
            return make_current(database, session)
        if taken:
            raise StoreUnavailable(
                f"the store {database.shown} has tables of ours that we did not make: {', '.join(sorted(taken))};"
                " give changeover a database of its own"
            )
        session.run([*_ddl(database.dialect), _stamp(database.dialect)])
        session.commit()
    except Exception:
        session.rollback()
        raise


def _read_marker(database: Database, session: Session) -> None:
    """See that the table which was not found is there for us, too: we may not be allowed to read it."""
    try:
        session.ask(MARKER)
    except Exception as error:
        raise StoreUnavailable(f"the store {database.shown} cannot be opened: {error}") from error


def _ddl(dialect: str) -> list[Call]:
    say = Compiler(dialect)
    made = [say.ddl(CreateTable(table)) for table in METADATA.sorted_tables]
    indexed = [say.ddl(CreateIndex(index)) for table in METADATA.sorted_tables for index in table.indexes]
    return [(sql, ()) for sql in (*made, *indexed)]


def _stamp(dialect: str) -> Call:
    say = Compiler(dialect)
    return say(say.insert(version))(version_num=VERSION)


def _migrate(database: Database, found: str) -> None:
    if not _older(database, found):
        return
    if database.dialect != "sqlite":
        raise StoreUnavailable(
            f"the store {database.shown} has the tables of an older version ({found}, this one needs {VERSION}); once"
            f" no older process uses it, type: changeover db upgrade --store {database.shown}"
        )
    run_migrations(database.engine())


def _older(database: Database, found: str) -> bool:
    """Whether the store must be brought up to date; raises if it is newer than this version."""
    if not found.isdigit() or int(found) > int(VERSION):
        raise StoreUnavailable(
            f"the store {database.shown} was made by a newer version of changeover: its tables are at {found}, and"
            f" this version knows {VERSION}; upgrade changeover"
        )
    return int(found) < int(VERSION)
