"""StepEngine: a second engine, to prove the port. It performs one command at a time, in memory, in one process.

It has no clock of its own, no claims, and no second process; and as it does one thing after the other, it cannot
interrupt what it performs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Any

from msgspec.structs import replace

from changeover.engines.clock import new_id
from changeover.engines.lessons import Recollection
from changeover.engines.local.perform import asked
from changeover.errors import ChangeoverError, CircuitsOpen, EngineError, Exhausted
from changeover.facts import ApprovalRequest, RunResult
from changeover.guards.guard import Tripped
from changeover.ids import below, effect_key, input_cause, intent_cause, offer_of
from changeover.relay.budget import NOTHING, consumed, in_tree, reserve_of
from changeover.relay.commands import (
    AskReceiver,
    AwaitApproval,
    AwaitClaim,
    CallBack,
    CallModel,
    CancelChild,
    Command,
    Effect,
    RunChild,
    RunTool,
)
from changeover.relay.decide.decision import NO_CIRCUITS, after_refusal, awaits, begins_with, settle
from changeover.relay.editions import Editions
from changeover.relay.events import ENGINE, CancelRequested, Entry, Event, HandoffReturned
from changeover.relay.history import Witness, recorded
from changeover.relay.inputs.control import Cancel, CancelRun
from changeover.relay.inputs.requests import Append, Later, Resume, Say, Settled, check_team
from changeover.relay.perform.calls import perform
from changeover.relay.perform.handoffs import ask
from changeover.relay.ports.engine import Engine, EngineSetup
from changeover.relay.ports.world import World
from changeover.relay.projection.changes import Reading
from changeover.relay.projection.circuits import circuits_of
from changeover.relay.projection.happenings import Happenings
from changeover.relay.projection.rows import Rows
from changeover.relay.result import error_of, head_of, result_of, returned_of, typed, waiting_result, whole_chain
from changeover.relay.sanitize import event_of
from changeover.relay.state import State
from changeover.relay.stream import RunFinished, StreamItem
from changeover.relay.tickets import ticket_of
from changeover.routing.experience import DEFAULT, Learned
from changeover.routing.load import Load


class StepDirectory:
    """Everybody who was declared, without a load."""

    def __init__(self, setup: EngineSetup) -> None:
        self._clock = setup.world.clock
        self._recollection = Recollection(setup.log())

    async def loads(self, agents: Sequence[str]) -> Mapping[str, Load]:
        return {agent: Load() for agent in agents}

    async def learned(self, capability: str) -> Learned:
        return await self._recollection.learned(capability, self._clock.now(), DEFAULT)


class StepEngine:
    """Performs what is outstanding, one command after the other, until only people can cause the next step."""

    def __init__(self, setup: EngineSetup) -> None:
        self._log, self._observer = setup.log(), setup.observer
        self._states: dict[str, State] = {}
        self._due: dict[str, dict[str, Command]] = {}
        self._pumping: asyncio.Task[None] | None = None
        self._left_to_people: set[str] = set()
        self._count = 0
        self._directory = StepDirectory(setup)
        self._editions = setup.editions or Editions(setup.world)
        self._world = self._equipped(setup.world)

    async def put(self, input: Any, /) -> Any:
        if isinstance(input, Cancel):
            target = input.target(await self._state(input.conversation))
            cancelled = target is not None and await self.put(target) is not None
            while cancelled and self._pumping is not None and not self._pumping.done():
                await asyncio.wait([self._pumping])
            return cancelled
        if (connections := self._world.connections) is not None and connections.serves:
            await connections.open(lambda: None)
        self._world = self._equipped(await self._editions.look(self._log.declarations))
        state = await self._state(input.conversation or self._new())
        check_team(state, self._world)
        key = input.key(state)
        if key and (position := await self._log.find(state.id, key)) is not None:
            entry = (await self._log.read(state.id, position))[0] if input.rereads else None
            return input.repeated(state, position, entry)
        step: Append | Settled[Any] | Later = input.step(state, self._world)
        if isinstance(step, Append):
            await self._record(state, step.cause, [event_of(event) for event in step.events])
            _ = self._pump()
            return input.outcome(state, step)
        if isinstance(step, Later):
            await asyncio.sleep(0.001)
            return await self.put(input)
        return step.value

    async def result(self, input: Say | Resume, /) -> RunResult:
        ref = await self.put(input)
        state = await self._state(ref.conversation)
        if ref.run not in state.outcomes:
            await self._record(state, input_cause("on", state.position), [])
            await asyncio.shield(self._pump())
        if (outcome := state.outcomes.get(ref.run)) is None:
            waiting = waiting_result(state, ref.run, list(self._pending(state.id)))
            return replace(waiting, handoff_chain=await whole_chain(waiting.handoff_chain, self._state))
        result = result_of(state.id, outcome, await whole_chain(outcome.handoffs, self._state))
        if outcome.fault is not None:
            raise error_of(outcome.fault, result)
        return typed(result, self._world.roster)

    def result_sync(self, input: Say | Resume, /) -> RunResult:
        return asyncio.run(self.result(input))

    async def stream(
        self, input: Say | Resume, /, first: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncGenerator[StreamItem, None]:
        if first is not None:
            await first()
        result = await self.result(input)
        for record in recorded(await self._log.lists.tree(result.conversation_id)):
            yield record
        yield RunFinished(result)

    async def take_up(self) -> None:
        for conversation in await self._log.unfinished(self._world.roster.team):
            await self._record(await self._state(conversation), "on", [])
        _ = self._pump()

    async def perform(self, effect: Effect) -> Event:
        return await perform(self._world, effect, _no_intent)

    async def world(self) -> World:
        return self._world

    def declare(self, world: World) -> None:
        self._editions.declare(world)
        self._world = self._equipped(world)

    def _equipped(self, world: World) -> World:
        """A declared world with the tools that servers offer now, and with what this engine brings along."""
        return replace(world, roster=world.current_roster, contexts=self._log.contexts, directory=self._directory)

    async def _world_for(self, state: State, events: Sequence[Event] = ()) -> World:
        """The world of the run under way, or of the one that begins."""
        edition = begins_with(state, events)
        if edition is None or edition == self._world.roster.edition:
            return self._world
        return self._equipped(await self._editions.at(edition, self._log.declarations))

    async def room(self, agent: str) -> float:
        return inf

    async def forget(self, conversation: str) -> bool:
        return await self._log.forget(conversation) and self._states.pop(conversation, None) is not None

    async def close(self) -> None:
        if self._pumping is not None:
            self._pumping.cancel()
            await asyncio.gather(self._pumping, return_exceptions=True)
        if self._world.connections is not None:
            await self._world.connections.close()

    async def _no_claims(self, *_: Any) -> Any:
        raise EngineError("this engine has no claims")

    claim = package = serve = release = _no_claims

    def _new(self) -> str:
        self._count += 1
        return f"conversation-{self._count}"

    async def _state(self, id: str) -> State:
        if id not in self._states:
            self._states[id] = State(id).fold(await self._log.read(id))
        return self._states[id]

    async def _record(
        self, state: State, cause: str, events: Sequence[Event], tripped: Mapping[str, Tripped] = NO_CIRCUITS
    ) -> None:
        """Fold, decide, append. Nothing comes in between: nobody else writes, and a log in memory never waits."""
        roster = (await self._world_for(state, events)).roster
        position, agent = state.position, state.agent
        before = consumed(state, roster) if in_tree(state) else NOTHING
        reading = Reading(state)
        witness = Witness(state, reading.apply)
        batch, commands = settle(state, roster, self._world.clock.now(), events, tripped, witness.apply)
        self._due.setdefault(state.id, {}).update({command.id: command for command in commands})
        if not batch:
            return
        entry = Entry(state.id, state.root, position, cause, state.at, tuple(batch))
        calm = self._log.breakers.calm
        circuits = circuits_of(state.id, reading.changes, roster, calm) if roster.breaks else None
        happenings, rows = Happenings(roster.team, self._world.subscriptions, new_id), Rows()
        rows.published = happenings.of(entry, agent, state)
        circuits = circuits and happenings.reported(entry, circuits)
        head, reserve = head_of(state, bool(commands)), reserve_of(before, state, roster)
        try:
            await self._log.append(entry, head, reserve, None, circuits, rows)
        except (Exhausted, CircuitsOpen) as refusal:
            self._due[state.id].clear()
            fresh = State(state.id).fold(await self._log.read(state.id))
            for name in State.__struct_fields__:  # in place: others hold this state
                setattr(state, name, getattr(fresh, name))
            return await self._record(state, cause, *after_refusal(events, tripped, refusal))
        state.seq = entry.seq + len(batch) - 1
        if self._observer is not None:
            await self._observer.noticed(witness.records(entry, agent))

    def _pump(self) -> asyncio.Task[None]:
        if self._pumping is None or self._pumping.done():
            self._pumping = asyncio.ensure_future(self._perform_all())
        return self._pumping

    async def _perform_all(self) -> None:
        while (found := self._next()) is not None:
            state, command = found
            outcome = await self._perform(state, command)
            late = isinstance(command, RunTool) and command.at_most_once
            if outcome is not None and (awaits(state, command.id) or late):
                await self._record(state, command.id, [outcome])

    def _next(self) -> tuple[State, Command] | None:
        """The next command that can be performed; those that are outstanding no longer are dropped."""
        for id, commands in self._due.items():
            state = self._states[id]
            for command in list(commands.values()):
                if not awaits(state, command.id):
                    del commands[command.id]
                elif self._can_perform(state, command):
                    del commands[command.id]
                    return state, command
        return None

    def _can_perform(self, state: State, command: Command) -> bool:
        if isinstance(command, AwaitClaim) or ticket_of(state, command) is not None:
            return False
        if isinstance(command, AwaitApproval):
            return self._world.ask is not None and effect_key(state.id, command.id) not in self._left_to_people
        child = self._states.get(command.child) if isinstance(command, RunChild) else None
        return child is None or not (child.run or child.inbox)

    async def _perform(self, state: State, command: Command) -> Event | None:
        match command:
            case RunChild() | CancelChild():
                return await self._child(state, command)
            case AwaitApproval():
                if (decided := await asked(self._world, command.request)) is None:
                    self._due[state.id][command.id] = command
                    self._left_to_people.add(effect_key(state.id, command.id))
                return decided
            case AskReceiver():
                return await ask(await self._world_for(state), command)
            case AwaitClaim():
                raise AssertionError("this engine has no claims")
            case _:
                if isinstance(command, CallBack | CallModel) and command.not_before:
                    await self._world.clock.sleep_until(command.not_before)

                async def intend(event: Event) -> None:
                    await self._record(state, intent_cause(command.id), [event])

                return await perform(await self._world_for(state), command, intend)

    async def _child(self, state: State, command: RunChild | CancelChild) -> Event | None:
        """Open or cancel a delegate; its return, if it has ended."""
        child = await self._state(command.child)
        if isinstance(command, CancelChild) and (child.run or child.inbox or not child.position):
            await self.put(CancelRun(child.id, CancelRequested(by=command.by), command.opening))
        elif isinstance(command, RunChild) and not child.position:
            await self._world.clock.sleep_until(command.not_before)
            await self.put(Say(child.id, command.spoken, "given", command.opening))
        if child.run or child.inbox:
            self._due[state.id][command.id] = command  # until the delegate has ended
            return None
        if not child.outcomes:
            who = (offer_of(command.id), command.task, command.receiver)
            reason, by = (command.reason, command.by) if isinstance(command, CancelChild) else ("cancelled", ENGINE)
            return HandoffReturned(*who, success=False, error=reason, cancelled=True, by=by)
        return returned_of(command, next(iter(child.outcomes.values())), child.record)

    def _pending(self, conversation: str) -> list[ApprovalRequest]:
        """What awaits a person, in a conversation and below it."""
        found = []
        for id, commands in self._due.items():
            if id == conversation or id.startswith(below(conversation)):
                found += [command.request for command in commands.values() if isinstance(command, AwaitApproval)]
        return found


async def _no_intent(event: Event) -> None:
    raise ChangeoverError("only tools have intents")


def step_engine(setup: EngineSetup) -> Engine:
    """Makes the engine of a team."""
    return StepEngine(setup)
