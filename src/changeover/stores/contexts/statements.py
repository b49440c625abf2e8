"""What the store says to a database about contexts."""

from __future__ import annotations

import sqlalchemy as sa

from changeover.stores.sql.compiler import Compiler, bind
from changeover.stores.sql.schema import contexts

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
