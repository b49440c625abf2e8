"""LiveDirectory: the declared team with the store's changes to its agents, their load, and lessons about them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from changeover.agent.roster import Roster, Seat
from changeover.engines.lessons import Recollection
from changeover.engines.local.conversation import Conversation, Conversations
from changeover.engines.local.holdings import Holdings
from changeover.ids import child_id
from changeover.relay.decide.decision import begins_with
from changeover.relay.editions import Editions
from changeover.relay.events import Event
from changeover.relay.ports.log import Log
from changeover.relay.ports.tables import KeptAgent
from changeover.relay.ports.world import World
from changeover.relay.state import State
from changeover.relay.tickets import delegated
from changeover.routing.experience import DEFAULT, Learned
from changeover.routing.load import Load
from changeover.routing.registry import overruled, registry_over, roster_over

logger = logging.getLogger("changeover.engine")


class LiveDirectory:
    """The directory that effects of one engine ask, and the world they act upon."""

    def __init__(self, log: Log, editions: Editions, conversations: Conversations, holdings: Holdings) -> None:
        self._log, self._conversations, self._holdings = log, conversations, holdings
        self._recollection = Recollection(log)
        self._editions = editions
        self._kept: list[KeptAgent] = []
        self._version = self._listed = -1
        self.known = False
        """True once the store was asked for its changes to agents."""
        self.declare()

    def declare(self) -> None:
        """Use the team as it is declared now, and what the store says of its agents."""
        self._profiles = {each.id: each.profile for each in self._kept if each.profile is not None and not each.absent}
        self._absent = frozenset(each.id for each in self._kept if each.absent)
        newest = self._editions.newest
        self._worlds: dict[int, World] = {}
        """The worlds of older editions that are in use."""
        self.world = self._over(newest)
        """The world of the newest edition that this process knows."""
        self.known = self.known and (newest.connections is None or not newest.connections.serves)

    def world_of(self, state: State) -> World:
        """The world in which the run of a conversation is performed; `world_for` makes it, if it is missing."""
        run = state.run
        if run is None or run.edition == self.world.roster.edition:
            return self.world
        return self._worlds.get(run.edition, self.world)

    def known_world(self, state: State, events: Sequence[Event] = ()) -> World | None:
        """The world in which it is decided what follows these events, if it is the newest one and this process has read
        all that it depends on; else None, and `world_for` has to read more first."""
        if not self.known:
            return None
        edition, newest = begins_with(state, events), self.world
        return newest if edition is None or edition == newest.roster.edition else None

    async def world_for(self, state: State, events: Sequence[Event]) -> World:
        """The world in which it is decided what follows these events: that of the run under way, or of a new one."""
        edition = begins_with(state, events)
        if not self.known:
            await self.look()
        if edition is None or edition == self.world.roster.edition:
            return self.world
        world = await self._at(edition)
        waits = state.run is not None and state.inbox  # the next run may begin at once when this one ends
        return replace(world, roster=replace(world.roster, following=self.world.roster)) if waits else world

    async def _at(self, edition: int) -> World:
        """The world of an older edition."""
        if edition not in self._worlds:
            world = await self._editions.at(edition, self._log.declarations)
            await self._list_tools()  # it may have servers that the newest edition has not
            self._worlds[edition] = self._over(world)
        return self._worlds[edition]

    @property
    def edition(self) -> int:
        """The last edition of the store's declarations that was looked at."""
        return self._editions.seen

    async def look(self) -> World:
        """Apply the changes that the store holds by now, and those of the tools that servers offer."""
        agents, before = self._log.agents, self._editions.newest
        newest = await self._editions.look(self._log.declarations)
        if newest is not before and newest.connections is not None and newest.connections.serves:
            await newest.connections.keep([newest.roster, *self._rosters_at_work()])
        listed = await self._list_tools()
        # The version first: a change that comes in between is read now, and once more at the next look.
        version = await agents.version()
        if newest is not before or (version, listed) != (self._version, self._listed):
            if version != self._version:
                self._kept = await agents.all() if version else []
                self._warn()
            self._version, self._listed = version, listed
            self.declare()
        self.known = listed == self._tools_version
        return self.world

    def _rosters_at_work(self) -> Iterator[Roster]:
        """The rosters of runs under way that began with an older edition."""
        for live in self._conversations:
            if live.state.run is not None and not live.asleep:
                yield self.world_of(live.state).roster

    def _over(self, world: World) -> World:
        """A declared world with what the store says of its agents, and with the tools that servers offer."""
        profiles, absent = self._profiles, self._absent
        registry = registry_over(world.registry, profiles, absent)
        roster = roster_over(world.current_roster, profiles, absent)
        return replace(world, roster=roster, registry=registry, contexts=self._log.contexts, directory=self)

    @property
    def _tools_version(self) -> int:
        connections = self._editions.newest.connections
        return connections.version if connections is not None else 0

    async def _list_tools(self) -> int:
        """Have servers list their tools, if that was not done before; returns the version of the list."""
        connections = self._editions.newest.connections
        if connections is not None and connections.serves:
            await connections.open(self._outdate)
        return self._tools_version

    def _outdate(self) -> None:
        """Note that tools have changed, so that `look` runs before the next decision."""
        self.known = False

    def _warn(self) -> None:
        profiles = {each.id: each.profile for each in self._kept if each.profile is not None}
        for id, names in overruled(self._editions.newest.registry, profiles).items():
            logger.warning("code and store differ in the %s of %r; that of the code holds", " and ".join(names), id)

    def capacity(self, agent: str, world: World | None = None) -> int | None:
        """Number of tasks that an agent can do at once; None for no limit."""
        seat = (world or self.world).roster.seats.get(agent)
        return seat.agent.max_concurrency if isinstance(seat, Seat) else None

    async def room(self, agent: str, place: str = "") -> float:
        """Number of further tasks that an agent can take now; one in this place does not count."""
        most = self.capacity(agent)
        return inf if most is None else max(0, most - len(await self._places(agent) - {place}))

    async def loads(self, agents: Sequence[str]) -> Mapping[str, Load]:
        """The load of each of these agents."""
        tickets, team = await self._log.queue.tickets(), self.world.roster.team
        waiting = Counter(each.ticket.agent for each in tickets if not each.owner and each.ticket.team == team)
        return {agent: Load(len(await self._places(agent)), waiting[agent], self.capacity(agent)) for agent in agents}

    async def learned(self, capability: str) -> Learned:
        """Experience with agents from earlier tasks that needed this capability."""
        clock, learning = self.world.clock, self.world.routing.learning or DEFAULT
        return await self._recollection.learned(capability, clock.now(), learning)

    async def _places(self, agent: str) -> set[str]:
        """The conversations in which an agent works, by the log and by what this process is about to record."""
        working = await self._log.at_work(agent, self.world.roster.team)
        places = {place for place in working if await self._is_claimed(place)}
        for live in self._conversations:
            places.update(self._working(live, agent))
            places.update(place for receiver, place in live.promised.values() if receiver == agent)
        return places

    async def _is_claimed(self, place: str) -> bool:
        """False if work there waits for a claim."""
        run = (await self._conversations.get(place)).state.run
        if run is None or not run.ticket:
            return True
        return any(queued.owner for queued in await self._log.queue.tickets(run.ticket))

    def _working(self, live: Conversation, agent: str) -> Iterator[str]:
        """The places where an agent works: this conversation, and delegates that were just accepted."""
        run = live.state.run
        if run is None or live.asleep:
            return
        if live.state.agent == agent and (not run.ticket or self._holdings.claim_for(live.state)):
            yield live.state.id
        for offer in delegated(run):
            child = self._conversations.cached(child_id(live.state.id, offer.call))
            if offer.receiver == agent and not offer.queued and (child is None or not child.state.position):
                yield child_id(live.state.id, offer.call)
