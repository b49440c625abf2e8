"""MemoryLog: a log in memory, shared by the threads of one process."""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from changeover.errors import Conflict, ConversationNotFound, UnderWay
from changeover.facts import ApprovalRequest
from changeover.ids import below
from changeover.relay.events import Entry
from changeover.relay.ports.health import StoreHealth, Traffic
from changeover.relay.ports.log import Circuits, Head, Reserve, Spending
from changeover.relay.ports.queue import Claim
from changeover.relay.ports.tables import Measures
from changeover.relay.projection.admission import CLAIMABLE, UNFINISHED, UNSPENT, Tally, about_tickets, forgotten
from changeover.relay.projection.approvals import PendingApprovals
from changeover.stores.breakers import MemoryBreakers
from changeover.stores.declarations import MemoryDeclarations, StoredDeclarations
from changeover.stores.deltas import LocalDeltas
from changeover.stores.memory.experience import MemoryLessons
from changeover.stores.memory.outbox import MemoryOutbox
from changeover.stores.memory.queue import MemoryQueue
from changeover.stores.memory.table import MemoryTable
from changeover.stores.memory.trials import MemoryTrials, Tree
from changeover.stores.tables import (
    AGENTS,
    AUDIT,
    CONTEXTS,
    MEASURES,
    TOKENS,
    WORKERS,
    MeasureRow,
    StoredAgents,
    StoredContexts,
    StoredWorkers,
)
from changeover.stores.tokens import StoredAudit, StoredTokens

if TYPE_CHECKING:
    from changeover.relay.projection.rows import Rows
    from changeover.stores.memory.lists import MemoryLists, Snapshot

POLL = 0.02


class MemoryLog:
    """The log of a team without a store. Only this process can work on its conversations."""

    epoch = 1
    projects = False

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, list[Entry]] = {}
        self._trees: dict[str, list[Entry]] = {}
        """The entries of each root's tree, by seq."""
        self._causes: dict[tuple[str, str], int] = {}
        self._running: dict[str, str] = {}
        """The conversations with outstanding commands, each with its active agent."""
        self._left: set[str] = set()
        """Those that no engine works on, because the log was closed."""
        self._resting: set[str] = set()
        """The conversations that wait."""
        self._due: set[str] = set()
        """The roots that wait, and that have to be taken up because a conversation below them has ended."""
        self._tallies: dict[str, Tally] = {}
        self._spent: dict[str, list[tuple[Entry, tuple[Spending, ...]]]] = {}
        """The spending of ended runs by conversation, each with the entry that ended the run."""
        self._pending = PendingApprovals()
        self.traffic = Traffic()
        self._queue = MemoryQueue(self._lock, now, self.traffic)
        self._contexts = MemoryTable(CONTEXTS, self._lock)
        self._measures = MemoryTable(MEASURES, self._lock)
        self._breakers = MemoryBreakers(self._lock)
        self._agents = StoredAgents(MemoryTable(AGENTS, self._lock, now))
        self._audited = MemoryTable(AUDIT, self._lock)
        self.audit = StoredAudit(self._audited, now)
        self.workers = StoredWorkers(MemoryTable(WORKERS, self._lock))
        self.tokens = StoredTokens(MemoryTable(TOKENS, self._lock), self.audit, now)
        self.outbox = self.timetable = MemoryOutbox(now, self.traffic)
        self.deltas = LocalDeltas()
        self._lessons = MemoryLessons(self._lock, self._entries, self._cost)
        self._declared = MemoryDeclarations(self._lock, now)
        self.declarations = StoredDeclarations(self._declared)

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        with self._lock:
            return [entry for entry in self._entries.get(conversation, ()) if entry.position >= after]

    async def tree(self, conversation: str) -> list[Entry]:
        prefix = below(conversation)
        with self._lock:
            own = self._entries.get(conversation)
            tree = self._trees[own[0].root] if own else ()
            return [each for each in tree if each.conversation == conversation or each.conversation.startswith(prefix)]

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
        rows: Rows | None = None,
    ) -> None:
        conversation, root = entry.conversation, entry.root
        with self._lock:
            if claim is not None:
                self._queue.check(claim)
            entries = self._entries.get(conversation)
            end = entries[-1].position + len(entries[-1].events) if entries else 0
            cause = (conversation, entry.cause)
            if entry.position != end or cause in self._causes:
                raise Conflict(conversation, entry.position, entry.cause)
            if root != conversation and root not in self._entries:
                raise ConversationNotFound(root)
            if head is not None and head.edition is not None:
                self._declared.expect(head.edition)
            if circuits is not None or reserve is not None:
                self._admit(entry, reserve, circuits)
            self._causes[cause] = end
            self.traffic.appends += 1
            if entries is None:
                self._entries[conversation] = [entry]
            else:
                entries.append(entry)
            self._grow(root, entry)
            self._note_head(entry, head)
            self._pending.note(entry)
            self._lessons.note(conversation)
            if about_tickets(head, claim):
                self._queue.note(head, claim)
            self._publish(rows)

    async def find(self, conversation: str, cause: str) -> int | None:
        with self._lock:
            return self._causes.get((conversation, cause))

    async def unfinished(self, team: str | None = None) -> list[str]:
        with self._lock:
            running = [id for id in (*self._running, *self._due) if self._is_of(team, id)]
            return sorted({*running, *(self._entries[id][0].root for id in running)})

    async def approvals(self, team: str | None = None) -> list[ApprovalRequest]:
        with self._lock:
            return [each for each in self._pending.all() if self._is_of(team, each.conversation)]

    async def at_work(self, agent: str, team: str | None = None) -> list[str]:
        with self._lock:
            return [id for id, worker in self._running.items() if worker == agent and self._is_of(team, id)]

    async def claim(self, conversation: str) -> bool:
        """Always True: there is no other process."""
        self._left.discard(conversation)
        return True

    async def release(self, conversation: str, position: int, rests: str = "", due: float | None = None) -> bool:
        """Only the ticket changes: conversations have no owner here."""
        with self._lock:
            taken_up = conversation in self._running or conversation in self._due
            last = self._entries[conversation][-1] if rests and taken_up else None
            if last is not None and last.position + len(last.events) == position:
                self._queue.rest(rests)
        return True

    async def owned(self) -> dict[str, int]:
        """Empty: only this process writes."""
        return {}

    @property
    def queue(self) -> MemoryQueue:
        return self._queue

    @property
    def contexts(self) -> StoredContexts:
        return StoredContexts(self._contexts)

    @property
    def agents(self) -> StoredAgents:
        return self._agents

    @property
    def breakers(self) -> MemoryBreakers:
        return self._breakers

    @property
    def lists(self) -> MemoryLists:
        # Here: it imports sqlalchemy.
        from changeover.stores.memory.lists import MemoryLists

        return MemoryLists(self._snapshot, self.tree, self.trials)

    @property
    def measures(self) -> Measures:
        return self.lists.measures

    @property
    def experience(self) -> MemoryLessons:
        return self._lessons

    @property
    def trials(self) -> MemoryTrials:
        return MemoryTrials(self._all_trees, self._measure)

    async def health(self) -> StoreHealth:
        with self._lock:
            events = sum(len(entry.events) for log in self._entries.values() for entry in log)
            return StoreHealth(database="memory", conversations=len(self._entries), events=events)

    async def forget(self, root: str) -> bool:
        with self._lock:
            tree = self._trees.get(root, [])
            conversations = dict.fromkeys(entry.conversation for entry in tree)
            self._must_be_over(root, conversations)
            for entry in tree:
                del self._causes[entry.conversation, entry.cause]
            for conversation in conversations:
                del self._entries[conversation]
                self._pending.forget(conversation)
                self._lessons.forget(conversation)
                self._spent.pop(conversation, None)
            self._contexts.forget(root)
            self._tallies.pop(root, None)
            self._measures.forget(root)
            return self._trees.pop(root, None) is not None

    def may_begin(self) -> bool:
        return True

    async def changes(self, root: str, after_seq: int = 0) -> AsyncIterator[Entry]:
        """The entries of a root's tree that end after this seq; the first of them may have begun before it."""
        tree: list[Entry] | None = None
        while True:
            before, tree = tree, self._trees.get(root)
            if before is not None and tree is not before:
                raise forgotten(root)
            for entry in self._after(tree or [], after_seq):
                after_seq = _last_seq(entry)
                yield entry
            await asyncio.sleep(POLL)

    async def close(self) -> None:
        """Note that no engine works on the log any more; entries stay readable as long as it exists."""
        with self._lock:
            self._left = set(self._running)

    def _is_of(self, team: str | None, conversation: str) -> bool:
        """True if a conversation belongs to this team, or if the team is None. The caller holds the lock."""
        return team is None or team == self._entries[conversation][0].opening.team

    def _snapshot(self) -> Snapshot:
        from changeover.stores.memory.lists import Snapshot

        with self._lock:
            return Snapshot(
                [list(tree) for tree in self._trees.values()],
                [each for spent in self._spent.values() for each in spent],
                list(self._breakers.board.opened),
                frozenset(self._running),
                dict(self._tallies),
                frozenset(self._left),
                [astuple(row) for row in self._audited.rows()],
            )

    def _cost(self, conversation: str) -> float | None:
        """The cost of the ended runs of a conversation; None if unknown. The caller holds the lock."""
        spendings = (each for _, spent in self._spent.get(conversation, ()) for each in spent)
        # A resumed run ends again, with higher figures.
        costs = {(each.run, each.agent): each.share.cost for each in spendings}.values()
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known and len(known) == len(costs) else None

    def _all_trees(self) -> list[Tree]:
        with self._lock:
            return [self._tree_of(root) for root in self._trees]

    def _measure(self, row: MeasureRow) -> None:
        with self._lock:
            if row.conversation not in self._trees:
                raise ConversationNotFound(row.conversation)
            self._measures.put_locked(row)

    def _tree_of(self, root: str) -> Tree:
        entries = list(self._trees[root])
        spent = {
            (conversation, each.run, each.agent): each
            for conversation in dict.fromkeys(entry.conversation for entry in entries)
            for _, together in self._spent.get(conversation, ())
            for each in together
        }
        over = root not in self._running and root not in self._resting
        return Tree(root, entries, spent, over, self._measures.starting(root))

    def _must_be_over(self, root: str, conversations: Iterable[str]) -> None:
        """Raise UnderWay if a run of the tree has not ended, or work of it waits in the queue."""
        for conversation in conversations:
            if conversation in self._running or conversation in self._resting:
                raise UnderWay(conversation, UNFINISHED)
        if ticket := self._queue.first_of(root):
            raise UnderWay(ticket.conversation, CLAIMABLE)

    def _note_head(self, entry: Entry, head: Head | None) -> None:
        """Update the active agent, the spending, and the conversations that wait."""
        conversation = entry.conversation
        if head is None:
            self._running.setdefault(conversation, "")
            self._resting.discard(conversation)
            return
        self._left.discard(conversation)
        self._due.discard(conversation)
        if head.spent:
            self._spent.setdefault(conversation, []).append((entry, head.spent))
        if head.status == "running":
            self._running[conversation] = head.agent
            self._resting.discard(conversation)
            return
        self._running.pop(conversation, None)
        if head.status == "waiting":
            self._resting.add(conversation)
            return
        self._resting.discard(conversation)
        if entry.root in self._resting:  # it goes on when a conversation below it ends
            self._due.add(entry.root)

    def _admit(self, entry: Entry, reserve: Reserve | None, circuits: Circuits | None) -> None:
        """Raise CircuitsOpen or Exhausted; else count what the entry reserves, and change the circuits."""
        board = self._breakers.board
        if circuits is not None and (refusal := board.refusal(circuits, entry.at)):
            raise refusal
        if reserve is not None:
            self._spend(entry.root, reserve)
        if circuits is not None:
            board.take(entry.at)

    def _publish(self, rows: Rows | None) -> None:
        """Store the events that an entry publishes."""
        board = self._breakers.board
        if rows is not None or board.published:
            told, board.published = board.published, []
            self.outbox.store([*(rows.published if rows is not None else ()), *told])

    def _spend(self, root: str, reserve: Reserve) -> None:
        tally = self._tallies.get(root, UNSPENT)
        if refusal := tally.refusal(reserve):
            raise refusal
        self._tallies[root] = tally.after(reserve)

    def _grow(self, root: str, entry: Entry) -> None:
        if tree := self._trees.get(root):
            last = tree[-1]
            entry.seq = last.seq + len(last.events)
            tree.append(entry)
        else:
            entry.seq = 1
            self._trees[root] = [entry]

    def _after(self, tree: list[Entry], seq: int) -> list[Entry]:
        with self._lock:
            return tree[bisect_right(tree, seq, key=_last_seq) :]


def _last_seq(entry: Entry) -> int:
    return entry.seq + len(entry.events) - 1
