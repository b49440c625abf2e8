"""Legs: what this process works on because Temporal gave it the work, until nothing is left to do there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from changeover.engines.clock import SystemClock
from changeover.engines.local.conversation import NO_COMMANDS, Conversation
from changeover.engines.local.dispatcher import Dispatcher
from changeover.engines.temporal import Temporal
from changeover.engines.temporal.connection import Connection
from changeover.engines.temporal.shell import Call, Report
from changeover.engines.temporal.shell import Leg as Asked
from changeover.ids import parent_of, root_of
from changeover.relay.commands import Command, RunChild
from changeover.relay.inputs.claims import End
from changeover.relay.result import head_of

AGAIN, LONG = 10.0, 60.0
"""Seconds after which a conversation that is still unfinished, and has no owner, is called: the first number if it has
no workflow, the second in any case."""
SOON, LATEST = 0.05, 1.6
"""Seconds after which delegates are called although the leg that gave them work is not over: they double up to the
second number, so that few signals call many delegates."""
STILL = 0.02
"""Seconds without news of a tree after which it is checked whether it waits for people."""
PAUSES = 9
"""The pause after such a check, as a multiple of the time that the check took: large trees take long to check."""


class Leg:
    """A conversation that this process works on."""

    def __init__(self, asked: Asked, done: asyncio.Future[Report]) -> None:
        self.asked, self.done = asked, done
        self.task: asyncio.Task[None] | None = None
        self.bell = asyncio.Event()
        """Set when commands in flight have changed."""
        self.moved = False
        """True if the active agent is served by other workers."""
        self.below: dict[str, Call] = {}
        """Delegates that were given work and have not been called."""
        self.pause = SOON
        self._served = ""

    def stands_in(self, agent: str) -> bool:
        """True for the first agent of a leg that no worker of the agent's own took."""
        self._served = self._served or agent
        return self.asked.unclaimed and agent == self._served


@dataclass
class Unfinished:
    """A conversation without an owner: when it was first seen, and when it was looked at last."""

    since: float
    looked: float | None = None

    def is_news(self, now: float) -> bool:
        """True if it was seen in the last looks at the store."""
        return self.looked is None or now - self.looked < 2 * AGAIN


class Legs:
    """The placement of a process that works on what Temporal gives it, and on tickets that it has claimed."""

    def __init__(self, connection: Connection, settings: Temporal) -> None:
        self.connection, self._agents, self._works = connection, frozenset(settings.agents), settings.worker
        self._legs: dict[str, Leg] = {}
        self._unfinished: dict[str, Unfinished] = {}
        self._recalls: list[Call] = []
        self._heard: dict[str, asyncio.TimerHandle] = {}
        """Checks of trees in which other processes have recorded something."""
        self._checked: dict[str, bool] = {}
        """Trees that are being checked or were a short while ago; True if something was recorded since."""
        self._dispatcher: Dispatcher | None = None

    def attach(self, dispatcher: Dispatcher) -> None:
        """Use the dispatcher that this placement was made for."""
        self._dispatcher = dispatcher

    @property
    def dispatcher(self) -> Dispatcher:
        assert self._dispatcher is not None
        return self._dispatcher

    @property
    def keeps_time(self) -> bool:
        """Temporal's timers show the time of its server; a team with a clock of its own keeps time itself."""
        return isinstance(self.dispatcher.directory.world.clock, SystemClock)

    @property
    def may_work(self) -> bool:
        """False if the lease of this process has run out, so that it can neither record nor begin anything."""
        return self.dispatcher.log.may_begin()

    def elsewhere(self, conversation: str) -> bool:
        if conversation in self._legs:
            return False
        live = self.dispatcher.conversations.cached(conversation)
        return live is None or self.dispatcher.waits.holdings.claim_for(live.state) is None

    def passes_on(self, conversation: str) -> bool:
        # A process that only takes inputs may have another version of the team than the workers: they decide.
        return self._works and self.elsewhere(conversation)

    def admits(self, live: Conversation, commands: Sequence[Command]) -> bool:
        leg = self._legs.get(live.state.id)
        if leg is None:
            if not self.elsewhere(live.state.id):
                return True
            if commands:
                self.dispatcher.follow(live, called=True)
        elif leg.stands_in(live.state.agent) or self._serves(live.state.agent):
            self._park_tracked(leg, live, commands)
            return True
        else:
            leg.moved = True
            leg.bell.set()
        live.stale = True  # the commands are given out again where the conversation goes on
        return False

    def _serves(self, agent: str) -> bool:
        """True if this worker serves the agent."""
        own = self.connection.known_queue(agent)
        return agent in self._agents if self._agents else not own

    def _park_tracked(self, leg: Leg, live: Conversation, commands: Sequence[Command]) -> None:
        """Wait for delegates that are known to work, without a look at each of them."""
        if not leg.asked.tracked:
            return
        now, ended = self.dispatcher.directory.world.clock.now(), set(leg.asked.ended)
        for command in commands:
            # The workflow is not told when a claimed delegate ends: its worker has no leg.
            if not isinstance(command, RunChild) or command.queued:
                continue
            if command.id in live.flight or command.child in ended:
                continue
            child = self.dispatcher.conversations.cached(command.child)
            in_time = command.deadline is None or now < command.deadline
            if in_time and child is not None and child.state.position:
                live.flight[command.id] = (self.dispatcher.loop.create_future(), command)
                live.parked |= {command.id}

    def call(self, live: Conversation) -> None:
        state = live.state
        call = Call(state.id, state.position, self.connection.known_queue(state.agent) if self._works else "")
        if (above := self._legs.get(state.parent)) is None:
            self.connection.call(call)
            return
        if not above.below:
            self.dispatcher.loop.call_later(above.pause, self._call_below, above)
            above.pause = min(LATEST, 2 * above.pause)
        above.below[state.id] = call

    def _call_below(self, leg: Leg) -> None:
        """Call the delegates of a leg that has other work to do."""
        below, leg.below = leg.below, {}
        if below:
            first, *others = below.values()
            self.connection.call(replace(first, more=others))

    def recalled(self, conversation: str) -> bool:
        if conversation in self._legs:
            return True
        now, seen = time.monotonic(), self._unfinished.setdefault(conversation, Unfinished(time.monotonic()))
        if seen.looked is None:
            # Between two legs a conversation has no owner, which is no reason for a call unless this process opens.
            seen.looked = now
            if not self.dispatcher.recovers:
                self._recall(Call(conversation, 0))
        elif now - seen.looked > AGAIN:
            seen.looked = now
            self._recall(Call(conversation))
        return True

    def _recall(self, call: Call) -> None:
        if not self._recalls:
            self.dispatcher.soon(self._recall_all())
        self._recalls.append(call)

    async def _recall_all(self) -> None:
        """Call conversations without an owner: one signal for each tree. If the workflow of a tree is under way, they
        may only wait for a worker that has time, and are called if that takes long."""
        await asyncio.sleep(0)
        calls, self._recalls = self._recalls, []
        trees, now = dict[str, list[Call]](), time.monotonic()
        for call in calls:
            trees.setdefault(root_of(call.conversation), []).append(call)
        for root, (first, *others) in trees.items():
            seen = self._unfinished.get(first.conversation)
            late = seen is None or now - seen.since > LONG
            if first.at == 0 or late or not await self.connection.runs(root):
                self.connection.call(replace(first, more=others))
        self._unfinished = {id: each for id, each in self._unfinished.items() if each.is_news(now)}

    def noticed(self, live: Conversation) -> None:
        above: str | None = live.state.id
        while above and self._legs:  # a conversation rests when all below it do
            if (leg := self._legs.get(above)) is not None:
                leg.bell.set()
            above = parent_of(above)

    async def heard(self, live: Conversation) -> None:
        self._tell_when_still(live)

    def _tell_when_still(self, live: Conversation) -> None:
        """Tell callers if the tree waits for people. Not with each entry: hundreds of delegates may record, and the
        whole tree is looked at."""
        if not live.waiters:
            return
        if live.state.id in self._checked:
            self._checked[live.state.id] = True
            return
        if (before := self._heard.pop(live.state.id, None)) is not None:
            before.cancel()
        self._heard[live.state.id] = self.dispatcher.loop.call_later(STILL, self._check_rest, live)

    def _check_rest(self, live: Conversation) -> None:
        self._heard.pop(live.state.id, None)
        if not live.waiters:  # they were told, or the team is closed
            return
        self._checked[live.state.id] = False
        self.dispatcher.soon(self._tell_if_resting(live))

    async def _tell_if_resting(self, live: Conversation) -> None:
        loop = self.dispatcher.loop
        begun = loop.time()
        try:
            await self.dispatcher.waits.tell_if_resting(live)
        finally:
            loop.call_later(PAUSES * (loop.time() - begun), self._check_again, live)

    def _check_again(self, live: Conversation) -> None:
        if self._checked.pop(live.state.id):
            self._tell_when_still(live)

    async def silent(self, live: Conversation) -> bool:
        state = live.state
        await self.dispatcher.waits.tell_if_resting(live, patient=True)
        if state.parent or (state.run is None and not state.inbox):
            return True  # the workflow knows the delegates; those that it lost are recalled
        if not await self.connection.check(state.id, state.agent):
            self.connection.call(Call(state.id))
        return True

    async def advance(self, asked: Asked) -> Report:
        """Work on a conversation until nothing is left to do here."""
        leg = self._legs.get(asked.conversation)
        if leg is None:
            leg = Leg(asked, self.dispatcher.loop.create_future())
            self._legs[asked.conversation] = leg
            leg.task = self.dispatcher.begin(self._work(leg))
        return await asyncio.shield(leg.done)

    async def look(self, conversation: str) -> None:
        """Go on with a conversation of this process in which another process has recorded something."""
        if conversation in self._legs:
            await self.dispatcher.go_on_with(conversation)

    async def abandon(self, conversation: str) -> None:
        """Begin nothing more in a conversation, and release it: another worker goes on."""
        leg, live = self._legs.pop(conversation, None), self.dispatcher.conversations.cached(conversation)
        if leg is None:
            return
        leg.done.cancel()
        if leg.task is not None:
            leg.task.cancel()
        if live is not None:
            async with live.lock:
                live.drop(lambda command: True)
                if live.owned:
                    now = self.dispatcher.directory.world.clock.now()
                    await self.dispatcher.log.release(conversation, live.known, due=now)
                    live.owned = False

    async def abandon_all(self) -> None:
        """Leave everything to other workers."""
        await asyncio.gather(*(self.abandon(each) for each in list(self._legs)), return_exceptions=True)

    async def _work(self, leg: Leg) -> None:
        try:
            report = await self._worked(leg)
        except asyncio.CancelledError:
            leg.done.cancel()
            raise
        except Exception as error:
            if not leg.done.done():
                leg.done.set_exception(error)
                leg.done.exception()  # retrieved: the activity may be gone
        else:
            if not leg.done.done():
                leg.done.set_result(report)
        finally:
            if self._legs.get(leg.asked.conversation) is leg:
                del self._legs[leg.asked.conversation]

    async def _worked(self, leg: Leg) -> Report:
        id, dispatcher = leg.asked.conversation, self.dispatcher
        live = await dispatcher.conversations.get(id)
        live.parked = NO_COMMANDS
        await self.connection.look_up()
        while True:
            leg.bell.clear()
            await dispatcher.go_on_with(id)
            dispatcher.listen(live)
            while not self._is_over(live):
                if live.lock.locked():  # who only looks at a conversation does not ring
                    async with live.lock:
                        continue
                if dispatcher.waits.parked(live):
                    self._tell_when_still(live)
                await leg.bell.wait()
                leg.bell.clear()
                if leg.moved and not live.flight:
                    break
            if (report := await self._closed(leg, live)) is not None:
                return report
            # Another process owns it, or the store failed; or an input came in between.
            leg.moved = False
            await asyncio.sleep(min(0.25, dispatcher.patience / 4))

    def _is_over(self, live: Conversation) -> bool:
        """True if this process can only wait: for people, workers, delegates, or a time that Temporal keeps."""
        if live.lock.locked() or not self.dispatcher.waits.parked(live):
            return False
        return self.keeps_time or not live.flight or not self.dispatcher.waits.timed(live)

    async def _closed(self, leg: Leg, live: Conversation) -> Report | None:
        """End a leg; None if it has to go on, or cannot begin."""
        dispatcher, id = self.dispatcher, leg.asked.conversation
        async with live.lock:
            state = live.state
            idle = not (state.run or state.inbox or state.callbacks)
            if not (idle or leg.moved or live.flight) or not dispatcher.waits.parked(live):
                return None
            due, paused = await dispatcher.waits.next_due(live)
            ticket, flight = live.resting_ticket(), bool(live.flight)
            live.drop(lambda command: True)
            if live.owned and not idle:
                moved = leg.moved and not flight
                until = dispatcher.directory.world.clock.now() if moved else due
                live.owned = not await dispatcher.log.release(id, live.known, ticket, until)
                if live.owned:
                    return None
            dispatcher.waits.holdings.end([ticket], End.RESTS)
            queue = await self.connection.queue_of(state.agent)
            report = Report(
                state.position,
                over=idle,
                status=head_of(state, working=False).status if not state.parent else "",
                above=state.parent or "",
                moved=leg.moved and not flight,
                queue="" if queue == self.connection.queue else queue,
                due=due,
                paused=paused,
                below=list(leg.below.values()),
            )
            leg.below = {}
            del self._legs[id]
            if live.awaited and not idle and state.parent not in self._legs:
                dispatcher.follow(live)
        return report
