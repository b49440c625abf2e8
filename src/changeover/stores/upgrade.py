"""Schema upgrade: creates the tables, checks their version and runs missing migrations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from changeover.errors import ChangeoverError, StoreUnavailable
from changeover.stores.sql.compiler import Compiler
from changeover.stores.sql.database import Call, Database, Session, Trouble
from changeover.stores.sql.schema import METADATA, VERSION, version

MIGRATIONS = Path(__file__).parent / "migrations"
Progress = Callable[[int, int, str], None]
"""Gets the number of a migration that has run, the number of all, and its docstring."""
MARKER: Call = ("SELECT version_num FROM changeover_version", ())
TABLES: dict[str, Call] = {
    "sqlite": ("SELECT name FROM sqlite_master WHERE type = 'table'", ()),
    "postgresql": ("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()", ()),
}
# SQLite has one writer at a time. On PostgreSQL, processes that open the store wait here until one of them has created
# the tables, without the timeouts that a session otherwise has.
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
    """Create missing tables, and migrate a SQLite file of an older version. Raises StoreUnavailable."""
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


def migrate(database: Database, session: Session, progress: Progress | None = None) -> tuple[str | None, str]:
    """Create or migrate the tables in any database; returns the version before (None if new) and the version now."""
    found = version_found(database, session)
    if found is None:
        _create(database, session)
    elif _older(database, found):
        run_migrations(database.engine(), progress=_counted(int(found), progress) if progress else None)
    return found, VERSION


def _counted(found: int, progress: Progress) -> Callable[..., None]:
    """The function that Alembic calls after each migration of a store of this version."""

    def applied(*, step: Any, **_: Any) -> None:
        done = int(step.up_revision_id) - found
        progress(done, int(VERSION) - found, step.up_revision.doc)

    return applied


def run_migrations(engine: sa.Engine, to: str = "head", progress: Callable[..., None] | None = None) -> None:
    """Run the migrations that a database does not have yet."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes.update(engine=engine, progress=progress)
    command.upgrade(config, to)


def version_found(database: Database, session: Session) -> str | None:
    """The version of the store's tables; None if there are none."""
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
                f"the store {database.shown} has tables of other programs under names that changeover"
                f" uses: {', '.join(sorted(taken))};"
                " give changeover a database of its own"
            )
        session.run([*_ddl(database.dialect), _stamp(database.dialect)])
        session.commit()
    except Exception:
        session.rollback()
        raise


def _read_marker(database: Database, session: Session) -> None:
    """Raise StoreUnavailable if this user may not read the version table that another process created."""
    try:
        session.ask(MARKER)
    except Exception as error:
        raise StoreUnavailable(f"the store {database.shown} cannot be opened: {error}") from error


def _ddl(dialect: str) -> list[Call]:
    compiler = Compiler(dialect)
    tables = [compiler.ddl(CreateTable(table)) for table in METADATA.sorted_tables]
    indexes = [compiler.ddl(CreateIndex(index)) for table in METADATA.sorted_tables for index in table.indexes]
    return [(sql, ()) for sql in (*tables, *indexes)]


def _stamp(dialect: str) -> Call:
    compiler = Compiler(dialect)
    return compiler(compiler.insert(version))(version_num=VERSION)


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
    """True if the store must be migrated; raises StoreUnavailable if it is newer than this version."""
    if not found.isdigit() or int(found) > int(VERSION):
        raise StoreUnavailable(
            f"the store {database.shown} was made by a newer version of changeover: its tables are at {found}, and"
            f" this version knows {VERSION}; upgrade changeover"
        )
    return int(found) < int(VERSION)
