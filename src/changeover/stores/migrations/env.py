"""Alembic environment: runs all missing migrations in one transaction, one process at a time."""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

from changeover.stores.sql.schema import METADATA, version
from changeover.stores.upgrade import ALONE

with context.config.attributes["engine"].connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        version_table=version.name,
        transactional_ddl=True,
        on_version_apply=context.config.attributes.get("progress"),
    )
    with context.begin_transaction():
        for sql, _ in ALONE[connection.dialect.name]:
            connection.execute(text(sql))
        context.run_migrations()
