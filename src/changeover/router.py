"""Router: finds agents of a team for a task, and changes their profiles in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from uuid import uuid4

from changeover.agent.specialist import Wish
from changeover.engines.local.engine import LocalEngine
from changeover.errors import MisconfiguredError, UnknownAgentError
from changeover.relay.commands import FindReceiver
from changeover.relay.perform.broker import find_receiver, selectable
from changeover.routing.broker import Recommendation, Step, recommend
from changeover.routing.profile import Profile, profile_faults
from changeover.routing.registry import Registry
from changeover.ticket import OnEngine


class Router:
    """Finds agents of a team. Each answer is by what the store says of them now."""

    def __init__(self, on: OnEngine) -> None:
        self._on = on

    async def find_agent_for_capability(self, capability: str, *others: str) -> Recommendation | None:
        """The agent that has all of these capabilities, and of several whoever has least to do and did best; None if
        nobody has them, or nobody has time."""
        return await self._on(lambda engine: _found(engine, Wish("", required=(capability, *others))))

    async def find_agent_for_task(self, task: str, required: Sequence[str] = ()) -> Recommendation | None:
        """The agent for a task, as a model would get it that asks for a specialist: where neither capabilities nor
        words tell who fits, the helper model is asked. None if nobody does, or nobody has time."""
        return await self._on(lambda engine: _found(engine, Wish(task, required=tuple(required))))

    async def list_available_agents(self) -> list[Profile]:
        """Everybody of the team to whom something may be handed now, by their ids."""
        return list((await self._on(_registry)).available)

    async def recommend(self, task: str, n: int = 3) -> list[Recommendation]:
        """The best for a task by what their profiles say, best first. No model is asked."""
        return list(recommend(await self._on(_registry), task, n=n))

    async def put(self, profile: Profile) -> None:
        """Describe an agent anew, in the place of what was declared or said before."""
        if faults := profile_faults(profile):
            raise MisconfiguredError(*faults)
        await self._on(lambda engine: _put(engine, profile))

    async def enable(self, agent: str) -> None:
        """Let an agent have handoffs again."""
        await self._on(lambda engine: _switch(engine, agent, True))

    async def disable(self, agent: str) -> None:
        """Hand nothing to an agent until it is enabled; what it has begun it goes on with."""
        await self._on(lambda engine: _switch(engine, agent, False))

    async def remove(self, agent: str) -> None:
        """Leave an agent out for good, as if it were not in the team; `enable` and `put` bring it back."""
        await self._on(lambda engine: _remove(engine, agent))


async def _registry(engine: LocalEngine) -> Registry:
    await engine.directory.look()
    return selectable(engine.world)


async def _found(engine: LocalEngine, wish: Wish) -> Recommendation | None:
    await engine.directory.look()
    # By chance, and not by the task: of equals, not always the same.
    chosen = await find_receiver(engine.world, FindReceiver(f"{uuid4().hex}@", 0, "", "", wish))
    if not chosen.receiver:
        return None
    return Recommendation(chosen.receiver, chosen.score, chosen.why, cast(Step, chosen.step))


async def _put(engine: LocalEngine, profile: Profile) -> None:
    await engine.log.agents.put(profile)
    await engine.directory.look()


async def _switch(engine: LocalEngine, agent: str, enabled: bool) -> None:
    await _must_be_known(engine, agent)
    await engine.log.agents.switch(agent, enabled)
    await engine.directory.look()


async def _remove(engine: LocalEngine, agent: str) -> None:
    await _must_be_known(engine, agent)
    await engine.log.agents.remove(agent)
    await engine.directory.look()


async def _must_be_known(engine: LocalEngine, agent: str) -> None:
    """Raise UnknownAgentError if neither the team nor the store knows it."""
    known = {*engine.world.roster.seats, *(each.id for each in await engine.log.agents.all())}
    if agent not in known:
        raise UnknownAgentError(agent, sorted(known))
