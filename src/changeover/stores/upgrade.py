"""Bringing the tables of a store up to date."""

from __future__ import annotations

from changeover.stores.database import Database, Session
from changeover.stores.schema import METADATA, VERSION


def make_current(database: Database, session: Session) -> None:
    import sqlalchemy as sa

    url = "sqlite://" if database.dialect == "sqlite" else "postgresql+psycopg://"
    engine = sa.create_engine(url, creator=lambda: session.connection)
    METADATA.create_all(engine)
