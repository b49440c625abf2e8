"""Router: finds agents of a team for a task, and changes their profiles in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from msgspec.structs import replace

from changeover.agent.specialist import Wish
from changeover.engines.clock import new_id
from changeover.engines.lessons import reset, standings
from changeover.errors import MisconfiguredError, UnknownAgentError
from changeover.relay.commands import FindReceiver
from changeover.relay.events import ReceiverChosen
from changeover.relay.perform.broker import selectable
from changeover.relay.ports.engine import Engine
from changeover.relay.ports.log import Log
from changeover.routing.broker import Recommendation, Step, recommend
from changeover.routing.experience import DEFAULT, Standing
from changeover.routing.profile import Profile, abilities, profile_faults
from changeover.routing.registry import Registry


class Router:
    """Finds agents of a team by their current profiles in the store."""

    def __init__(self, engine: Engine, log: Callable[[], Log]) -> None:
        self._engine, self._log = engine, log

    async def find_agent_for_capability(self, capability: str, *others: str) -> Recommendation | None:
        """The agent that has this `capability` and all `others`; of several, the one with the lowest load and the best
        results. None if no agent has them, or all that do are busy."""
        return await self._found(Wish("", required=(capability, *others)))

    async def find_agent_for_task(self, task: str, required: Sequence[str] = ()) -> Recommendation | None:
        """The agent for a `task` that has the `required` capabilities, chosen like a specialist: if neither
        capabilities nor words decide, the helper model is asked. None if no agent fits, or all that do are busy."""
        return await self._found(Wish(task, required=tuple(required)))

    async def list_available_agents(self) -> list[Profile]:
        """The profiles of all agents that take handoffs now, by id."""
        return list((await self._registry()).available)

    async def recommend(self, task: str, n: int = 3, required: Sequence[str] = ()) -> list[Recommendation]:
        """The `n` best agents for a task by their profiles, best first; all have the `required` capabilities. No model
        is asked."""
        return list(recommend(await self._registry(), task, required, n))

    async def capabilities(self) -> dict[str, list[str]]:
        """The capabilities of all agents that take handoffs now, by name, each with the ids of the agents."""
        registry = await self._registry()
        return {name: [each.id for each in registry.holding(key)] for key, name in _named(registry.available)}

    async def learned(self, capability: str | None = None, agent: str | None = None) -> list[Standing]:
        """How well agents did at the tasks for which they were found, by capability, the best first; of one capability
        or one agent if named."""
        world = await self._engine.world()
        found = await standings(self._log().experience, capability, agent, world.routing.learning or DEFAULT)
        names = dict(_named(world.registry))
        return [replace(each, capability=names.get(each.capability, each.capability)) for each in found]

    async def reset_learning(self, capability: str | None = None, agent: str | None = None) -> int:
        """Forget how well agents did, at one capability or by one agent if named; conversations are kept.

        Returns how many of the records that `learned` shows were removed.
        """
        now = (await self._engine.world()).clock.now()
        return len(await reset(self._log().experience, now, capability, agent))

    async def put(self, profile: Profile) -> None:
        """Store a profile. It replaces an earlier one in the store, and fills in what the declaration of the agent
        leaves empty; an agent that code does not declare is added."""
        if not isinstance(profile, Profile):
            raise MisconfiguredError(f"profile={profile!r} is not a Profile(…); give one, such as Profile('billing')")
        if faults := profile_faults(profile):
            raise MisconfiguredError(*faults)
        await self._log().agents.put(profile)
        await self._engine.world()

    async def enable(self, agent: str) -> None:
        """Let an agent have handoffs again; raises UnknownAgentError."""
        await self._switch(agent, True)

    async def disable(self, agent: str) -> None:
        """Hand nothing to an agent until it is enabled; it goes on with what it has begun. Raises UnknownAgentError."""
        await self._switch(agent, False)

    async def remove(self, agent: str) -> None:
        """Treat an agent as if it were not in the team, until `enable` or `put`; raises UnknownAgentError."""
        await self._require(agent)
        await self._log().agents.remove(agent)
        await self._engine.world()

    async def _found(self, wish: Wish) -> Recommendation | None:
        # A random id, not the task: it decides among equals, so the same agent is not chosen every time.
        chosen = await self._engine.perform(FindReceiver(f"{new_id()}@", 0, "", "", wish))
        if not isinstance(chosen, ReceiverChosen) or not chosen.receiver:
            return None
        return Recommendation(chosen.receiver, chosen.score, chosen.why, cast(Step, chosen.step))

    async def _registry(self) -> Registry:
        return selectable(await self._engine.world())

    async def _switch(self, agent: str, enabled: bool) -> None:
        await self._require(agent)
        await self._log().agents.switch(agent, enabled)
        await self._engine.world()

    async def _require(self, agent: str) -> None:
        """Raise UnknownAgentError if neither the team nor the store knows an agent."""
        world = await self._engine.world()
        known = {*world.roster.seats, *(each.id for each in await self._log().agents.all())}
        if agent not in known:
            raise UnknownAgentError(agent, sorted(known))


def _named(profiles: Iterable[Profile]) -> list[tuple[str, str]]:
    """The capabilities of these profiles by name: the key of each, and its name as the first profile writes it."""
    names: dict[str, str] = {}
    for profile in profiles:
        names = abilities(profile) | names
    return sorted(names.items(), key=lambda named: named[1])
