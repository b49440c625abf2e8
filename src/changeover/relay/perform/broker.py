"""The effect that finds a receiver for a task: by required capabilities, by profiles, or by asking a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from changeover.agent.specialist import Wish
from changeover.facts import Usage
from changeover.relay.commands import FindReceiver
from changeover.relay.events import ReceiverChosen
from changeover.relay.perform.callbacks import TROUBLE, let_go, words_of
from changeover.relay.perform.judge import JUDGE_TIMEOUT, consult
from changeover.relay.ports.world import Directory, World
from changeover.routing.broker import Found, NoMatch, Recommendation, Undecided, decided, find_for_task, recommend
from changeover.routing.experience import Learned
from changeover.routing.judge import judge_prompt
from changeover.routing.load import Load, Placement, Refuses, Takes, Waits, place
from changeover.routing.profile import Profile, key
from changeover.routing.registry import Registry
from changeover.routing.routing import Routing, ordered
from changeover.routing.statistics import draws

OTHERS = 4
"""Number of alternatives that are asked if the first receiver declines."""


async def find_receiver(world: World, command: FindReceiver) -> ReceiverChosen:
    """Choose the receiver and its alternatives; the event has no receiver if no agent fits."""
    registry, wish = selectable(world, command.sender, command.among), command.wish
    required = _required(registry, wish)
    task = wish.task if required or not wish.kind else f"{wish.kind}: {wish.task}"
    found, usage = find_for_task(registry, task, required), None
    if isinstance(found, Undecided):
        found, usage = await _judged(world, command, found)
    if isinstance(found, NoMatch):
        who = ", ".join(profile.id for profile in registry.available) or "none"
        return ReceiverChosen(command.id[:-1], command.task, why=f"{found.why}; there are: {who}", usage=usage)
    capability = key(required[0] if required else wish.kind)
    candidates = [found.best, *found.equals, *_next_best(registry, task, required, found)]
    return await _placed(world, command, candidates, capability, usage)


def selectable(world: World, sender: str = "", among: Sequence[str] = ()) -> Registry:
    """The agents of the team that this sender may choose."""
    registry, seats = world.registry, world.roster.seats
    fit = {each.id for each in registry if each.id in seats and each.id != sender and (not among or each.id in among)}
    return registry.only(fit) if len(fit) != len(registry) else registry


def _required(registry: Registry, wish: Wish) -> tuple[str, ...]:
    """The required capabilities; the kind of specialist is one if an agent has a capability of that name."""
    return wish.required or ((wish.kind,) if registry.holding(wish.kind) else ())


def _next_best(registry: Registry, task: str, required: Sequence[str], found: Found) -> list[Recommendation]:
    """Agents that have all required capabilities, though their profiles match the task less."""
    if not required or found.best.step != "exact":
        return []
    taken = {found.best.agent, *(each.agent for each in found.equals)}
    return [each for each in recommend(registry, task, required, len(registry)) if each.agent not in taken]


async def _judged(world: World, command: FindReceiver, undecided: Undecided) -> tuple[Found | NoMatch, Usage | None]:
    model = world.helper or world.models.get(command.sender)
    if model is None or not world.routing.judge:
        return NoMatch("no agent fits clearly, and there is no helper_model to ask"), None
    try:
        prompt, where = judge_prompt(undecided.task, undecided.candidates), (command.conversation, command.id)
        reply = await consult(model, prompt, where, JUDGE_TIMEOUT)
    except (*TROUBLE, TimeoutError) as error:
        let_go(error)
        return NoMatch(f"no agent fits clearly, and the model that was asked failed: {words_of(error)}"), None
    return decided(undecided, reply.text), reply.usage


async def _placed(
    world: World, command: FindReceiver, candidates: list[Recommendation], capability: str, usage: Usage | None
) -> ReceiverChosen:
    """Choose among the candidates by load and by earlier results."""
    assert world.directory is not None
    loads = await world.directory.loads([each.agent for each in candidates])
    learned = await _learned(world, world.directory, candidates, capability)
    chance = draws(command.conversation, command.id)
    order = ordered(candidates, capability, loads, learned, chance, world.routing)
    call, placement = command.id[:-1], _place(order, loads, world.routing, command.brokered)
    if isinstance(placement, Refuses):
        return ReceiverChosen(call, command.task, why=str(placement), capability=capability, usage=usage)
    best = next(each for each in order if each.agent == placement.agent)
    others = [each.agent for each in order if each is not best][: None if command.brokered else OTHERS]
    how = (best.agent, best.step, best.why, best.score, capability, tuple(others))
    return ReceiverChosen(call, command.task, *how, queued=isinstance(placement, Waits), usage=usage)


def _place(order: Sequence[Recommendation], loads: Mapping[str, Load], routing: Routing, brokered: bool) -> Placement:
    """The placement of the task; a brokered offer goes to the best candidate, which may decline if it is busy."""
    return Takes(order[0].agent) if brokered else place(order, loads, routing.when_busy)


async def _learned(
    world: World, directory: Directory, candidates: Sequence[Recommendation], capability: str
) -> Learned:
    if world.routing.learning is None or len(candidates) < 2:
        return Learned()
    return await directory.learned(capability)


def described(profiles: Sequence[Profile]) -> list[tuple[str, str]]:
    """Profiles as (id, purpose), for the prompt of a model."""
    return [(profile.id, _purpose(profile)) for profile in profiles]


def _purpose(profile: Profile) -> str:
    able = f"can do: {', '.join(profile.capabilities)}" if profile.capabilities else ""
    return "; ".join(each for each in (profile.description or profile.specialization or profile.name, able) if each)
