"""Erasure: removes a finished conversation with its whole tree in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from changeover.errors import UnderWay
from changeover.ids import handoff_range
from changeover.relay.projection.admission import CLAIMABLE, ENDED, UNFINISHED
from changeover.stores.sql.database import Row, Session, Write
from changeover.stores.sql.jobs import SideJob, Transaction
from changeover.stores.sql.statements import Statements


class Forget(SideJob[str, bool]):
    """The job that removes a conversation."""

    __slots__ = ("number",)

    def __init__(self, transaction: Transaction[str, bool], root: str) -> None:
        super().__init__(transaction, root, False, share=1.0)
        self.number = 0
        """The number of the conversation, once it is found; a later conversation under the same id has another one."""


class Node(NamedTuple):
    """The status and owner of a conversation of the tree."""

    number: int
    id: str
    status: str
    owner: str | None


class Erasure:
    """Locks the root first: every transaction that appends to a tree, or puts a ticket there, locks its root."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql

    def write(self, session: Session, jobs: Sequence[SideJob[str, bool]]) -> None:
        """Carry out the job and set its result; raises the driver's error."""
        [forget] = jobs
        assert isinstance(forget, Forget)
        session.begin()
        [found] = session.run([self._sql.forget.root(root=forget.data)])
        root = Node(*found[0]) if found else None
        # An earlier try was committed but its result was lost: a conversation with another number began afterwards.
        done = forget.tried and forget.number not in (0, root.number if root else 0)
        forget.result = done or root is not None
        if root is None or done:
            session.commit([] if root else [self._contexts(forget.data)])
            return
        forget.number = root.number
        self._remove(session, forget, root)

    def _remove(self, session: Session, forget: Forget, root: Node) -> None:
        sql = self._sql.forget
        asked = [sql.below(number=root.number), self._sql.log.alive(), sql.tickets(root=root.id)]
        below, alive, tickets = session.run(asked)
        tree = [root, *(Node(*row) for row in below)]
        forget.error = _hindrance(tree, {name for (name,) in alive}, tickets)
        if forget.error is not None:
            session.rollback()
        else:
            session.commit([*self._rows_of(tree), *self._marks(tree), *self._news(root.id)])

    def _rows_of(self, tree: Sequence[Node]) -> list[Write]:
        """The statements that remove every row of these conversations."""
        sql = self._sql.forget
        numbers, ids = [(each.number,) for each in tree], [(each.id,) for each in tree]
        ranges: list[Row] = [sql.by_id[0](**_range(each.id))[1] for each in tree]
        return [
            (sql.entries.sql, numbers),
            *((each.sql, ids) for each in sql.by_conversation),
            *((each.sql, ranges) for each in sql.by_id),
            self._contexts(tree[0].id),
            (sql.conversations.sql, numbers),
        ]

    def _contexts(self, root: str) -> Write:
        return self._sql.contexts.forget.sql, [(root,)]

    def _marks(self, tree: Sequence[Node]) -> list[Write]:
        """The statements that keep their numbers from being used again, in databases that would reuse them."""
        sql = self._sql.forget
        if sql.remember is None or sql.remember_only is None:
            return []
        return [(sql.remember.sql, [(max(each.number for each in tree),)]), (sql.remember_only.sql, [()])]

    def _news(self, root: str) -> list[Write]:
        """The statement that wakes the readers of its stream, if the database notifies."""
        return [(self._sql.notify.sql, [(self._sql.listed([root]),)])] if self._sql.notify else []


def _hindrance(tree: Sequence[Node], alive: Collection[str], tickets: Sequence[Row]) -> UnderWay | None:
    """The error if work in the tree is under way or waits in the queue; None if the tree may be removed."""
    for each in tree:
        if each.owner is not None and each.owner in alive:
            return UnderWay(each.id, f"{each.owner} works on it")
        if each.status not in ENDED:
            return UnderWay(each.id, UNFINISHED)
    return UnderWay(tickets[0][0], CLAIMABLE) if tickets else None


def _range(conversation: str) -> dict[str, str]:
    """The range of the ids of a conversation's handoffs and tickets: its id, a colon, and more."""
    begin, beyond = handoff_range(conversation)
    return {"begin": begin, "beyond": beyond, "conversation": conversation}
