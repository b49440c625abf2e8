"""Recorder: folds events into a conversation, adds the decisions that follow, and appends all of it as one entry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from changeover.agent.roster import Roster
from changeover.engines.clock import new_id
from changeover.engines.local.conversation import Conversation
from changeover.errors import (
    ChangeoverError,
    CircuitsOpen,
    ClaimLost,
    Conflict,
    Exhausted,
    LeaseLost,
    Owned,
)
from changeover.guards.guard import Tripped
from changeover.ids import root_of
from changeover.relay.budget import NOTHING, consumed, in_tree, reserve_of
from changeover.relay.commands import Command
from changeover.relay.decide.decision import NO_CIRCUITS, after_refusal, settle
from changeover.relay.events import (
    ApprovalDecided,
    CancelRequested,
    Entry,
    Event,
    FellBack,
    RollbackRequested,
    RunCancelled,
    RunFailed,
    RunStarted,
    RunStopped,
    TicketLapsed,
)
from changeover.relay.history import Witness, late_witness, records_of
from changeover.relay.inputs.claims import End
from changeover.relay.inputs.requests import Append, Input, Later, Say, Settled, check_team
from changeover.relay.ports.declarations import EditionMoved
from changeover.relay.ports.log import Circuits, Head
from changeover.relay.ports.queue import Claim
from changeover.relay.ports.world import Observer, Override
from changeover.relay.projection.changes import Reading, may_blame
from changeover.relay.projection.circuits import circuits_of
from changeover.relay.projection.happenings import Happenings
from changeover.relay.projection.projection import Projection, rows_of
from changeover.relay.projection.rows import Rows
from changeover.relay.result import head_of, spent_in
from changeover.relay.sanitize import event_of
from changeover.relay.state import State
from changeover.relay.tickets import open_tickets

if TYPE_CHECKING:
    from changeover.engines.local.dispatcher import Dispatcher

T = TypeVar("T")

ABANDONING = frozenset(
    {ApprovalDecided, CancelRequested, FellBack, RollbackRequested, RunStopped, RunFailed, RunCancelled, TicketLapsed}
)
"""Events after which a command in flight may not be outstanding any more."""
NO_TICKETS: Set[str] = frozenset()


class Postponed(Exception):
    """An input has to be put again after the lock was released."""


class Recorder:
    """The write path of an engine: every append to a log goes through `record`, but for inputs to conversations that
    another process works on."""

    def __init__(self, dispatcher: Dispatcher, observer: Observer | None) -> None:
        self._dispatcher, self._observer = dispatcher, observer
        self._reads_handoffs = observer is not None and observer.reads_handoffs
        self._log, self._conversations = dispatcher.log, dispatcher.conversations
        self._directory, self._waits = dispatcher.directory, dispatcher.waits
        self._holdings = dispatcher.waits.holdings

    @property
    def epoch(self) -> int:
        """The lease under which the next append owns a conversation; read before it, since it may be lost after."""
        return self._log.epoch or 1  # a process without a lease takes its first one

    def may_begin(self, live: Conversation) -> bool:
        """True if this process may begin effects here: its lease holds, and it owns the conversation under it."""
        return self._log.may_begin() and live.epoch == self._log.epoch

    async def put(self, live: Conversation, input: Input[T], fresh: bool = False) -> T:
        """Record an input, unless it is settled already. The caller holds the lock.

        A state that is behind the log cannot be appended to, but it can wrongly refuse an input or settle it; so that
        counts only when the state is `fresh` from the log.
        """
        await self._know(input)
        while True:
            fresh = fresh or live.stale
            if live.stale or live.state.unreadable:
                await self._conversations.ensure_readable(live)
            check_team(live.state, self._directory.world)
            key = input.key(live.state)
            if key and (position := await self._log.find(live.state.id, key)) is not None:
                return await self._repeated(live, input, position)
            step = self._step(live, input, fresh)
            if step is None:
                live.stale = True
            elif not isinstance(step, Append):
                await self._dispatcher.go_on(live, called=True)
                if isinstance(step, Later):
                    raise Postponed
                return step.value
            elif await self._append(live, step):
                return input.outcome(live.state, step)

    async def _know(self, input: Input[T]) -> None:
        """Look for new declarations if the team lacks the agent that is to answer."""
        if isinstance(input, Say) and not input.fits(self._directory.world.roster):
            await self._directory.look()

    def _step(self, live: Conversation, input: Input[T], fresh: bool) -> Append | Settled[T] | Later | None:
        """The next step of an input; None if only a state that is fresh from the log may say it."""
        try:
            step = input.step(live.state, self._directory.world)
        except ChangeoverError:
            if fresh:
                raise
            return None
        return step if fresh or isinstance(step, Append) else None

    async def _repeated(self, live: Conversation, input: Input[T], position: int) -> T:
        """The outcome of an input that was recorded before."""
        entry: Entry | None = None
        if input.rereads:
            [entry, *_] = await self._log.read(live.state.id, position)
        live.stale = live.stale or position >= live.state.position
        if isinstance(input, Say) and input.override is not None:
            _override(live, position or 1, input.override)
        await self._dispatcher.go_on(live, called=True)
        return input.repeated(live.state, position, entry)

    async def _append(self, live: Conversation, step: Append) -> bool:
        """Try once to append an input and to go on from it; False if the conversation moved on meanwhile.

        If another process works on the conversation, the input is appended without a head, and that process followed.
        """
        position = live.state.position
        # Sanitized before it is folded: the state in memory must equal the one that is folded from the log.
        events = [event_of(event) for event in step.events]
        if step.override is not None:  # before it is decided what follows
            _override(live, step.run, step.override)
        try:
            if not self._dispatcher.elsewhere(live.state.id) or self._dispatcher.placement.passes_on(live.state.id):
                self._dispatcher.dispatch(live, await self.record(live, step.cause, events, step.claim))
                return True
        except Owned:
            pass
        except (Conflict, LeaseLost) as error:
            return await self._retry(live, error)
        await self._conversations.refresh(live)
        if live.state.position != position or not await self._leave(live, step.cause, events, step.claim):
            return False
        await self._conversations.refresh(live)
        self._dispatcher.follow(live, called=True)
        return True

    async def note(self, live: Conversation, input: Input[T]) -> None:
        """Record an input without going on from it: that is left to the process that works on the conversation, if one
        does. The caller holds the lock."""
        while True:
            await self._conversations.refresh(live)
            await self._conversations.ensure_readable(live)
            step = input.step(live.state, self._directory.world)
            if not isinstance(step, Append):
                return
            live.attempt = step.cause if self._observer else ""
            if await self._leave(live, step.cause, step.events, step.claim):
                await self._conversations.refresh(live)
                return

    async def _leave(self, live: Conversation, cause: str, events: Sequence[Event], claim: Claim | None) -> bool:
        """Try once to append events that another process folds; False if the conversation moved on meanwhile."""
        state, at = live.state, self._directory.world.clock.now()
        try:
            # Not the root of the state: it is not known before the first event of a delegate is folded.
            entry = Entry(state.id, root_of(state.id), state.position, cause, at, tuple(events))
            await self._log.append(entry, None, None, claim, rows=await self._rows(entry, state.agent))
        except (Conflict, LeaseLost) as error:
            return await self._retry(live, error)
        return True

    async def _rows(self, entry: Entry, agent: str) -> Rows | None:
        """The rows of the read models for an entry that another process will fold; `agent` is active before it."""
        happenings = self._happenings
        if not self._log.projects and happenings is None:
            return None
        # A state of its own: that of the conversation takes the entry in when it is read back.
        state = State(entry.conversation).fold(await self._log.read(entry.conversation))
        rows = rows_of(state, entry)
        if happenings is not None:
            rows.published = happenings.of(entry, agent, state)
        return rows

    @property
    def _happenings(self) -> Happenings | None:
        """Makes the events that subscribers get of what is recorded; None if the team has no subscribers."""
        world = self._directory.world
        return Happenings(world.roster.team, world.subscriptions, new_id) if world.subscriptions else None

    async def _retry(self, live: Conversation, error: Conflict | LeaseLost) -> bool:
        """Prepare another attempt; a process that lost its lease waits until it may have a new one."""
        live.stale = True
        if isinstance(error, LeaseLost):
            await asyncio.sleep(self._dispatcher.patience / 10)
        return False

    async def record(
        self,
        live: Conversation,
        cause: str,
        events: Sequence[Event],
        claim: Claim | None = None,
        tripped: Mapping[str, Tripped] = NO_CIRCUITS,
    ) -> Sequence[Command]:
        """Append these events and all that is decided from them; returns the commands to perform.

        The caller holds the lock. `claim` is the claim under which the events are written, if they need one.
        """
        state, log, holdings = live.state, self._log, self._holdings
        world = self._directory.known_world(state, events) or await self._directory.world_for(state, events)
        roster = _with_strategies(world.roster, live.overrides) if live.overrides else world.roster
        position, agent, ended, at = state.position, state.agent, len(state.outcomes), world.clock.now()
        alone = state.alone
        claim = claim if alone else claim or holdings.claim_for(state)
        tickets = NO_TICKETS if alone else open_tickets(state)
        before = consumed(state, roster) if not alone and in_tree(state) else NOTHING
        calm = not roster.breaks or log.breakers.calm
        reading = Projection(state) if log.projects else None if calm else Reading(state)
        apply = reading.apply if reading else None
        witness = Witness(state, apply) if live.readers or self._reads_handoffs else None
        batch, outstanding = settle(state, roster, at, events, tripped, witness.apply if witness else apply)
        roster = roster.at(state.run.edition) if roster.following is not None and state.run is not None else roster
        alone = alone and state.alone
        commands = outstanding if alone else holdings.localized(state, outstanding)
        if not batch:
            return commands
        entry = Entry(state.id, state.root, position, cause, at, tuple(batch))
        live.stale, epoch, live.attempt = True, log.epoch or 1, cause if self._observer else ""
        head = self._head(live, commands, ended, batch)
        head = head if alone else holdings.with_tickets(head, live, commands, tickets)
        reports = roster.breaks and (not calm or may_blame(batch))
        circuits = await self._circuits(entry, reading, roster, calm) if reports else None
        rows = reading.finish() if isinstance(reading, Projection) else None
        if (happenings := self._happenings) is not None:
            rows = rows if rows is not None else Rows()
            rows.published = happenings.of(entry, agent, state)
            circuits = circuits and happenings.reported(entry, circuits)
        try:
            reserve = None if alone else reserve_of(before, state, roster)
            await log.append(entry, head, reserve, claim, circuits, rows)
        except ClaimLost:
            if claim is not None:
                holdings.end([claim.ticket], End.LOST)
            raise
        except (Exhausted, CircuitsOpen, EditionMoved) as refusal:
            await self._look_again(live, refusal)
            if live.state.position != position:
                raise Conflict(state.id, position, cause) from None
            events, found = after_refusal(events, tripped, refusal)
            return await self.record(live, cause, events, claim, found)
        live.epoch = epoch
        self._committed(live, head, ended)
        state.seq = entry.seq + len(batch) - 1
        if live.flight or live.asleep or live.readers or self._observer is not None:
            self._publish(live, entry, agent, witness)
        return commands

    async def _look_again(self, live: Conversation, refusal: Exhausted | CircuitsOpen | EditionMoved) -> None:
        """Fold the log again after it refused an append, and read what has changed beside it."""
        await self._conversations.refresh(live)
        if isinstance(refusal, EditionMoved):
            await self._directory.look()

    async def _circuits(self, entry: Entry, reading: Reading | None, roster: Roster, calm: bool) -> Circuits | None:
        """What an entry reports to the circuit breakers. Without a `reading` the log is folded again, which happens
        only with the first failure."""
        if reading is None:
            reading = Reading(State(entry.conversation).fold(await self._log.read(entry.conversation)))
            reading.fold(entry)
        return circuits_of(entry.conversation, reading.changes, roster, calm)

    def _head(self, live: Conversation, commands: Sequence[Command], ended: int, batch: Sequence[Event]) -> Head:
        """The head of the conversation, without tickets; it had `ended` runs before."""
        state, working = live.state, live.works(commands)
        begins = state.depth == 0 and RunStarted in map(type, batch)
        # From the end: a conversation may have had thousands of runs before.
        more = len(state.outcomes) - ended
        head = head_of(
            state,
            working,
            None if working or state.run is None else self._waits.due(live, commands),
            spent_in(islice(reversed(state.outcomes.values()), more)) if more > 0 else (),
            self._directory.edition if begins else None,
        )
        passed_on = working and self._dispatcher.placement.passes_on(state.id)
        return replace(head, working=False) if passed_on else head

    def _committed(self, live: Conversation, head: Head, ended: int) -> None:
        """After the commit, end the claims that are over, and note the runs that ended."""
        state = live.state
        live.stale, live.known, live.attempt, live.owned = False, state.position, "", head.working
        if head.gone or head.rests:
            self._holdings.end(head.gone, End.DONE)
            self._holdings.end(head.rests, End.RESTS)
        if len(state.outcomes) > ended:
            live.note_ends(len(state.outcomes) - ended)

    def _publish(self, live: Conversation, entry: Entry, agent: str, witness: Witness | None) -> None:
        """Wake conversations above, cancel commands that are no longer outstanding, and inform readers and observer."""
        if live.asleep:
            self._waits.rouse(live)
        if live.flight and (live.missed or not ABANDONING.isdisjoint(map(type, entry.events))):
            live.abandon()
        if live.readers or self._observer is not None:
            if witness is None and (live.readers or self._reads_handoffs):
                witness = late_witness(live.state, entry)
            events = witness.records(entry, agent) if witness else records_of(entry, agent)
            live.publish(events)
            if self._observer is not None:
                live.unnotified += events


def _override(live: Conversation, run: int, override: Override) -> None:
    """Let this hold for a run, and for no other; what was given for ended runs is dropped."""
    others = {id: each for id, each in live.overrides.items() if each is not override}
    live.overrides = {id: each for id, each in {**others, run: override}.items() if id not in live.state.outcomes}


def _with_strategies(roster: Roster, overrides: Mapping[int, Override]) -> Roster:
    """The roster with the strategies that callers gave for single runs."""
    given = {run: each.strategy for run, each in overrides.items() if each.strategy is not None}
    if not given:
        return roster
    following = roster.following and replace(roster.following, strategies=given)
    return replace(roster, strategies=given, following=following)
