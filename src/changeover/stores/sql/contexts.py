"""The table `contexts`: its statements and the writer's jobs."""

from __future__ import annotations

from typing import TypeVar

import sqlalchemy as sa

from changeover.relay.sanitize import text_of
from changeover.stores.sql.compiler import Compiler, bind
from changeover.stores.sql.database import Row
from changeover.stores.sql.schema import contexts
from changeover.stores.sql.side_jobs import Beside

MOST = 4_000_000
"""How many characters are written in one transaction, if they are of several contexts: whoever appends waits for it."""

T = TypeVar("T")


class ContextJob(Beside[T]):
    """Something about contexts."""

    __slots__ = ()


class Put(ContextJob[None]):
    """Keep a context."""

    __slots__ = ("row",)

    def __init__(self, root: str, id: str, body: str, expires_at: float | None) -> None:
        super().__init__(None, share=len(body) / MOST, root=root)
        self.row: Row = (root, id, expires_at, text_of(body))


class Sweep(ContextJob[int]):
    """Remove some of what has expired."""

    __slots__ = ("now",)

    def __init__(self, now: float) -> None:
        super().__init__(0, share=1.0)
        self.now = now


k = contexts.c

ZERO: sa.ColumnElement[int] = sa.literal_column("0")


class ContextStatements:
    """Keeping, finding and sweeping away."""

    def __init__(self, say: Compiler) -> None:
        self.put = say(_put(say))
        self.get = say(sa.select(k.body, k.expires_at).where(k.root == bind("root"), k.id == bind("id")))
        self.sweep = say(_sweep())
        self.forget = say(sa.delete(contexts).where(k.root == bind("root")))


def _put(say: Compiler) -> sa.ClauseElement:
    """Keep it; if it is there, it only lives longer, and its body is not written again."""
    put = say.insert(contexts)
    until = put.excluded.expires_at
    longer = sa.and_(k.expires_at.is_not(None), sa.or_(until.is_(None), k.expires_at < until))
    return put.on_conflict_do_update(index_elements=[k.root, k.id], set_={"expires_at": until}, where=longer)


def _sweep() -> sa.ClauseElement:
    """Remove some of those that have expired."""
    expired = sa.select(k.root, k.id).where(k.expires_at <= bind("now", sa.Double))
    some = expired.limit(bind("limit", sa.Integer)).offset(ZERO)
    # What somebody gives a longer life just now is theirs; what somebody else removes need not be waited for.
    found = sa.tuple_(k.root, k.id).in_(some.with_for_update(skip_locked=True))
    return sa.delete(contexts).where(found).returning(sa.literal_column("1"))
