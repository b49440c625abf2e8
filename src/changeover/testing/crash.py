"""Crash tests: runs a scenario repeatedly, and each time the process dies at another append.

    await crash.survives(team, scenario)

`scenario(team)` runs the team and returns the outcome. It is started again after each crash: each message is recorded
once, so after a restart the scenario gets the recorded answer, or the rest of the run. A scenario with more than one
message passes `conversation=`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any

from msgspec import Struct

from changeover.bus.delivery import Outbox, Timetable
from changeover.errors import EngineError
from changeover.facts import ApprovalRequest, RunResult
from changeover.relay.events import Entry
from changeover.relay.ports.declarations import Declarations
from changeover.relay.ports.health import StoreHealth, Traffic
from changeover.relay.ports.lists import Lists
from changeover.relay.ports.log import Breakers, Circuits, Head, Log, Reserve
from changeover.relay.ports.queue import Claim, Queue, Workers
from changeover.relay.ports.tables import Agents, Contexts, Lessons, Measures, Trials
from changeover.relay.ports.tokens import Audit, Tokens
from changeover.relay.projection.rows import Rows
from changeover.relay.stream import Deltas
from changeover.stores.memory.log import MemoryLog
from changeover.team import Team
from changeover.testing.effects import Effects
from changeover.workflows.workflow import Workflow


class PassingLog:
    """A log that passes every call on to the log beneath it."""

    def __init__(self, log: Log) -> None:
        self.beneath = log

    @property
    def _log(self) -> Log:
        """The log beneath; a subclass may refuse access."""
        return self.beneath

    @property
    def projects(self) -> bool:
        return self.beneath.projects

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
        rows: Rows | None = None,
    ) -> None:
        await self._log.append(entry, head, reserve, claim, circuits, rows)

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        return await self._log.read(conversation, after)

    async def tree(self, conversation: str) -> list[Entry]:
        return await self._log.tree(conversation)

    async def find(self, conversation: str, cause: str) -> int | None:
        return await self._log.find(conversation, cause)

    async def unfinished(self, team: str | None = None) -> list[str]:
        return await self._log.unfinished(team)

    async def approvals(self, team: str | None = None) -> list[ApprovalRequest]:
        return await self._log.approvals(team)

    async def at_work(self, agent: str, team: str | None = None) -> list[str]:
        return await self._log.at_work(agent, team)

    async def claim(self, conversation: str) -> bool:
        return await self._log.claim(conversation)

    async def release(self, conversation: str, position: int, rests: str = "", due: float | None = None) -> bool:
        return await self._log.release(conversation, position, rests, due)

    async def owned(self) -> dict[str, int]:
        return await self._log.owned()

    async def health(self) -> StoreHealth:
        return await self._log.health()

    async def forget(self, root: str) -> bool:
        return await self._log.forget(root)

    def may_begin(self) -> bool:
        return self._log.may_begin()

    def changes(self, root: str, after_seq: int = 0) -> AsyncIterator[Entry]:
        return self._log.changes(root, after_seq)

    async def close(self) -> None:
        await self._log.close()

    @property
    def epoch(self) -> int:
        return self._log.epoch

    @property
    def traffic(self) -> Traffic:
        return self._log.traffic

    @property
    def queue(self) -> Queue:
        return self._log.queue

    @property
    def contexts(self) -> Contexts:
        return self._log.contexts

    @property
    def agents(self) -> Agents:
        return self._log.agents

    @property
    def declarations(self) -> Declarations:
        return self._log.declarations

    @property
    def breakers(self) -> Breakers:
        return self._log.breakers

    @property
    def trials(self) -> Trials:
        return self._log.trials

    @property
    def lists(self) -> Lists:
        return self._log.lists

    @property
    def deltas(self) -> Deltas:
        return self._log.deltas

    @property
    def measures(self) -> Measures:
        return self._log.measures

    @property
    def tokens(self) -> Tokens:
        return self._log.tokens

    @property
    def audit(self) -> Audit:
        return self._log.audit

    @property
    def workers(self) -> Workers:
        return self._log.workers

    @property
    def outbox(self) -> Outbox:
        return self._log.outbox

    @property
    def timetable(self) -> Timetable:
        return self._log.timetable

    @property
    def experience(self) -> Lessons:
        return self._log.experience


class Death(StrEnum):
    """How the process dies at an append."""

    AFTER = "after it was committed, before anything else was begun"
    UNKNOWN = "after it was committed, before the engine knew"
    BEFORE = "before it was committed, though the effect had happened"


class Died(EngineError):
    """The simulated process is dead."""


class MortalLog(PassingLog):
    """A log whose process dies at the given append, counted from 1; 0 means never."""

    def __init__(self, log: Log, at: int = 0, death: Death = Death.AFTER) -> None:
        super().__init__(log)
        self._at, self._death = at, death
        self.appends = 0
        """Number of committed appends."""
        self.dead = False

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
        rows: Rows | None = None,
    ) -> None:
        self._check_alive()
        # At this number or a later one: concurrent appends may skip a number.
        if self._death is Death.BEFORE and 0 < self._at <= self.appends + 1:
            self._die()
            self._check_alive()
        await self._log.append(entry, head, reserve, claim, circuits, rows)
        self.appends += 1
        if self.appends != self._at or self._death is Death.BEFORE:
            return
        self._die()
        if self._death is Death.UNKNOWN:
            self._check_alive()

    @property
    def _log(self) -> Log:
        self._check_alive()
        return super()._log

    @property
    def epoch(self) -> int:
        return self.beneath.epoch

    async def close(self) -> None:
        """Do nothing: the log outlives the process."""

    def _check_alive(self) -> None:
        if self.dead:
            raise Died("the process has died")

    def _die(self) -> None:
        self.dead = True
        asyncio.get_running_loop().set_exception_handler(_report_unless_dead)


def _report_unless_dead(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report no task that the death of the process ended: nothing awaits it any more."""
    if not isinstance(context.get("exception"), EngineError):
        loop.default_exception_handler(context)


class Survival(Struct, frozen=True):
    """The result of `survives`."""

    appends: int
    """Appends of the scenario; the process died at each of them, in each of the ways."""
    deaths: int
    unknown: int
    """Lives in which an at-most-once tool was left without a known outcome."""


Scenario = Callable[[Any], Awaitable[Any]]

LONGEST_LIFE = 30.0
"""Seconds that one life may take, from its start to its end or death."""


async def survives(team: Team, scenario: Scenario, open_log: Callable[[], Log] = MemoryLog) -> Survival:
    """Let the process die at every append of the scenario, start again, and check that nothing is lost or repeated.

    The outcome must be that of a life without crashes, no effect whose outcome was recorded may happen again, no
    at-most-once tool may begin twice, and every history that a model reads must be valid. `open_log` opens a fresh log
    for each life; the default is a log in memory. Raises AssertionError.
    """
    log = open_log()
    whole = MortalLog(log)
    end = await _live(team, scenario, whole, Effects())
    await log.close()
    deaths = unknown = 0
    for at in range(1, whole.appends + 1):
        for death in Death:
            log = open_log()
            unknown += await _dies_and_resumes(team, scenario, MortalLog(log, at, death), end)
            await log.close()
            deaths += 1
    return Survival(whole.appends, deaths, unknown)


async def _dies_and_resumes(team: Team, scenario: Scenario, first: MortalLog, end: Any) -> bool:
    effects = Effects()
    with suppress(Died):
        await _live(team, scenario, first, effects)
    where = f"died at append {first._at}, {first._death}"
    log = first.beneath
    assert first.dead, f"{where}: the scenario took fewer appends than before"
    done = await effects.done(log)
    second = Effects()
    after = await _live(team, scenario, MortalLog(log), second)
    assert not (again := second.keys & done), f"{where}: repeated what was recorded: {sorted(again)}"
    assert not (again := second.once & effects.once), f"{where}: began an at-most-once tool twice: {sorted(again)}"
    unknown = await second.unknown(log)
    assert unknown or after == end, f"{where}: the end differs\n  before: {end}\n  after:  {after}"
    return unknown


async def _live(team: Team, scenario: Scenario, log: MortalLog, effects: Effects) -> Any:
    """One life of the process, from its start to its end or death."""
    twin = team.on(log, effects.watch)
    try:
        async with asyncio.timeout(LONGEST_LIFE), twin:
            return _comparable(await scenario(Repeatable(twin)))
    except TimeoutError as error:
        raise AssertionError(f"a life did not end within {LONGEST_LIFE:g} seconds") from error
    finally:
        effects.check_histories()


class Repeatable:
    """A team for scenarios that are started again: the n-th message has the same key in every life."""

    def __init__(self, team: Team) -> None:
        self._team, self._messages = team, 0

    def run(self, text: str, **options: Any) -> Awaitable[RunResult]:
        # Counted when called, not when awaited: the order of concurrent messages is that of the source.
        self._messages += 1
        return self._team.run(text, **{"key": f"scene-{self._messages}", **options})

    def stream(self, text: str, **options: Any) -> AsyncIterator[Any]:
        self._messages += 1
        return self._team.stream(text, **{"key": f"scene-{self._messages}", **options})

    def run_workflow(self, workflow: Workflow | str, inputs: Any = None, **options: Any) -> Awaitable[RunResult]:
        self._messages += 1
        return self._team.run_workflow(workflow, inputs, **{"key": f"scene-{self._messages}", **options})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._team, name)


def _comparable(value: Any) -> Any:
    """The part of an outcome that must be the same in every life: without times and attempts."""
    if isinstance(value, RunResult):
        chain = [(h.sender, h.receiver, h.message, h.state, h.variables) for h in value.handoff_chain]
        return value.text, value.final_agent, value.status, chain, value.context
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    return value
