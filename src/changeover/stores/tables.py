"""Side tables, each declared once: `MemoryTable` and `SqlTable` keep the rows of a declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from changeover.faults import Circuit
from changeover.relay.ports.queue import REMEMBERED, SeenWorker
from changeover.relay.ports.tables import Kept, KeptAgent, Unlearned
from changeover.routing.profile import Profile

R = TypeVar("R", bound=Struct)


class TableSpec(Struct, Generic[R], frozen=True):
    """A table whose rows are put and found by key."""

    name: str
    """In the database."""
    row: type[R]
    """Its fields are the columns; those of the key come first."""
    keys: int = 1
    """Number of columns of the key."""
    extends: str = ""
    """A column with a time, None being never. If the key exists, only this column is replaced, by a later time."""
    clock: str = ""
    """The column that holds the time of the last put, by the store's clock."""
    counter: str = ""
    """The column that counts the puts of the row."""
    large: bool = False
    """True if a row may hold megabytes."""

    @property
    def key(self) -> tuple[str, ...]:
        return self.row.__struct_fields__[: self.keys]

    def replaced(self, columns: Sequence[str] = ()) -> tuple[str, ...]:
        """The columns that a put replaces in a row that exists: these, or all but the key."""
        if self.extends:
            return (self.extends,)
        return tuple(columns) or self.row.__struct_fields__[self.keys :]

    def key_of(self, row: R) -> tuple[str, ...]:
        return tuple(getattr(row, name) for name in self.key)


class Table(Protocol[R]):
    """The rows of one declaration."""

    async def put(self, row: R, columns: Sequence[str] = ()) -> None:
        """Insert the row; if its key exists, replace these columns, or those that the declaration names."""
        ...

    async def get(self, *key: str) -> R | None:
        """The row with this key."""
        ...

    async def all(self) -> list[R]:
        """All rows, by key."""
        ...

    async def version(self) -> int:
        """The number of puts so far; needs a counter."""
        ...

    async def sweep(self, now: float) -> int:
        """Remove the rows whose time in `extends` has come; returns their number."""
        ...


class AgentRow(Struct, frozen=True):
    """The stored state of one agent; the profile is JSON."""

    id: str
    profile: str | None
    enabled: bool
    removed: bool
    updated_at: float = 0.0
    version: int = 0


# Each row counts its own changes and is never deleted: two processes that change different agents do not wait for each
# other, and the sum over all rows misses no change.
AGENTS = TableSpec("agents", AgentRow, clock="updated_at", counter="version")


class StoredAgents:
    """The port `Agents` over its table."""

    def __init__(self, table: Table[AgentRow]) -> None:
        self._table = table

    async def all(self) -> list[KeptAgent]:
        return [_kept(row) for row in await self._table.all()]

    async def put(self, profile: Profile) -> None:
        text = msgspec.json.encode(profile).decode()
        row = AgentRow(profile.id, text, profile.enabled, removed=False)
        await self._table.put(row, ("profile", "enabled", "removed"))

    async def switch(self, id: str, enabled: bool) -> None:
        await self._table.put(AgentRow(id, None, enabled, removed=False), ("enabled", "removed"))

    async def remove(self, id: str) -> None:
        await self._table.put(AgentRow(id, None, enabled=True, removed=True), ("removed",))

    async def version(self) -> int:
        return await self._table.version()


def _kept(row: AgentRow) -> KeptAgent:
    profile = None if row.profile is None else msgspec.json.decode(row.profile, type=Profile)
    return KeptAgent(row.id, profile, row.enabled, row.removed, row.updated_at)


class ContextRow(Struct, frozen=True):
    """A context that is stored for the tree of a root."""

    root: str
    id: str
    expires_at: float | None
    body: str


CONTEXTS = TableSpec("contexts", ContextRow, keys=2, extends="expires_at", large=True)


class StoredContexts:
    """The port `Contexts` over its table."""

    def __init__(self, table: Table[ContextRow]) -> None:
        self._table = table

    async def put(self, root: str, id: str, body: str, expires_at: float | None = None) -> None:
        await self._table.put(ContextRow(root, id, expires_at, body))

    async def get(self, root: str, id: str) -> Kept | None:
        row = await self._table.get(root, id)
        return Kept(row.body, row.expires_at) if row else None

    async def sweep(self, now: float) -> int:
        return await self._table.sweep(now)


class MeasureRow(Struct, frozen=True):
    """A measure of a user's own for a conversation."""

    conversation: str
    name: str
    value: float
    at: float


class WorkerRow(Struct, frozen=True):
    """A worker; its agents are JSON."""

    team: str
    name: str
    agents: str
    started_at: float
    until: float


WORKERS = TableSpec("workers", WorkerRow, keys=3, extends="until")


class StoredWorkers:
    """The port `Workers` over its table."""

    def __init__(self, table: Table[WorkerRow]) -> None:
        self._table = table

    async def seen(self, worker: SeenWorker, now: float) -> None:
        agents = msgspec.json.encode(sorted(worker.agents)).decode()
        known = await self._table.get(worker.team, worker.name, agents)
        if known is None:
            await self._table.sweep(now - REMEMBERED)
        elif known.until >= worker.until - (worker.until - now) / 4:
            return
        await self._table.put(WorkerRow(worker.team, worker.name, agents, worker.started_at, worker.until))

    async def all(self) -> list[SeenWorker]:
        return [_worker(row) for row in await self._table.all()]


def _worker(row: WorkerRow) -> SeenWorker:
    agents = tuple(msgspec.json.decode(row.agents, type=list[str]))
    return SeenWorker(name=row.name, agents=agents, started_at=row.started_at, until=row.until, team=row.team)


MEASURES = TableSpec("measures", MeasureRow, keys=2)
RESETS = TableSpec("unlearned", Unlearned, keys=2, extends="at")
BREAKERS = TableSpec("breakers", Circuit)


class TokenRow(Struct, frozen=True):
    """A token; its agents and roles are JSON."""

    id: str
    digest: str
    user: str
    role: str
    agents: str
    approval_roles: str
    everything: bool
    created_at: float
    expires_at: float | None
    used_at: float | None
    revoked_at: float | None


class AuditRow(Struct, frozen=True):
    """One change and its actor; the detail is JSON."""

    id: str
    at: float
    actor: str
    token: str
    action: str
    subject: str
    detail: str


TOKENS = TableSpec("tokens", TokenRow)
AUDIT = TableSpec("audit", AuditRow)
