"""What the store says to a database to forget a conversation."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from changeover.stores.sql.compiler import Compiler, bind
from changeover.stores.sql.schema import (
    approvals,
    conversations,
    entries,
    forgotten,
    handoffs,
    ledgers,
    measures,
    messages,
    refusals,
    tasks,
    tickets,
    trials,
)

c, e, f = conversations.c, entries.c, forgotten.c

STANDING = (c.number, c.id, c.status, c.owner)


class ForgetStatements:
    """Looking whether a tree is over, and removing it."""

    def __init__(self, say: Compiler) -> None:
        is_it = sa.and_(c.id == bind("root"), c.root == bind("root"))
        self.root = say(sa.select(*STANDING).where(is_it).with_for_update())
        below = sa.select(e.conversation).where(e.root == bind("number"))
        self.below = say(sa.select(*STANDING).where(c.number.in_(below)).order_by(c.id).with_for_update())
        self.tickets = say(sa.select(tickets.c.conversation).where(tickets.c.root == bind("root")))
        self.entries = say(sa.delete(entries).where(e.conversation == bind("number")))
        self.conversations = say(sa.delete(conversations).where(c.number == bind("number")))
        self.by_conversation = [
            say(sa.delete(table).where(table.c.conversation == bind("conversation")))
            for table in (tasks, messages, ledgers, refusals, trials, measures)
        ]
        self.by_id = [say(_of_a_conversation(table)) for table in (handoffs, approvals)]
        newest = sa.select(sa.func.max(f.number)).scalar_subquery()
        self.remember = None if say.postgresql else say(say.insert(forgotten).on_conflict_do_nothing())
        self.remember_only = None if say.postgresql else say(sa.delete(forgotten).where(f.number < newest))


def _of_a_conversation(table: sa.Table) -> sa.Delete:
    """The rows of one conversation, found by their ids, all of which begin like this."""
    begin = table.c.id >= bind("begin"), table.c.id < bind("beyond")
    which: list[sa.ColumnElement[Any]] = [*begin, table.c.conversation == bind("conversation")]
    return sa.delete(table).where(*which)
