"""Connections that break at the worst moment."""

from collections.abc import Sequence

import psycopg

from changeover.stores.sql.database import Call, Row, Session, Write
from changeover.stores.sql.log import SqlLog


def losing_once(log: SqlLog) -> list[Session]:
    """From now on, the connection of the next commit is lost after it; what comes back holds it then."""
    session = log._writer._session
    commit, lost = session.commit, list[Session]()

    def commit_and_lose(writes: Sequence[Write] = ()) -> None:
        commit(writes)
        if not lost:
            lost.append(session)
            session.close()
            raise psycopg.OperationalError("the connection was lost")

    session.commit = commit_and_lose  # type: ignore[method-assign]
    return lost


def losing_at_once(log: SqlLog) -> None:
    """The connection of the next transaction is lost before it has read anything."""
    session = log._writer._session

    def lose(calls: Sequence[Call]) -> list[list[Row]]:
        session.close()
        raise psycopg.OperationalError("the connection was lost")

    session.run = lose  # type: ignore[method-assign]
