"""From what users declare to what an engine runs: every fault is found and reported together, then all is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from changeover.agent.agent import Agent, Function, Member, Person
from changeover.agent.faults import team_faults
from changeover.agent.roster import Roster, Seat, seat
from changeover.engines.clock import SystemClock
from changeover.errors import MisconfiguredError
from changeover.guards.deadlock import Deadlock
from changeover.guards.guard import Guard, guard_faults
from changeover.guards.limits import Limits
from changeover.handoffs.briefing import TEMPLATE, Briefing, briefing_faults
from changeover.handoffs.strategies import Strategy, strategy_faults
from changeover.models.resolving import NOTHING, Resolver
from changeover.observe.hooks import Hook, hook_faults
from changeover.relay.ports import Clock, Log, Model
from changeover.relay.world import Ask, World
from changeover.toolkits.function import FunctionToolkit

if TYPE_CHECKING:
    from changeover.stores.open import Store


@dataclass(frozen=True)
class Declared:
    """A team as it was declared."""

    members: Sequence[Member]
    _: KW_ONLY
    start: str | None = None
    model: Any = None
    helper_model: Any = None
    limits: Limits | None = None
    guards: Sequence[Guard] | None = None
    rules: Sequence[Any] = ()
    hooks: Mapping[str, Hook] | None = None
    store: str | Store | Log | None = None
    engine: Any = None
    handoffs_enabled: bool = True
    fallback: bool = False
    ask: Ask | None = None
    clock: Clock | None = None
    strategy: Strategy | None = None
    briefing: Briefing | None = None


DEFAULT: tuple[Guard, ...] = (Deadlock(),)
"""The guards of a team that says nothing of them."""

UNBUILT = ("rules", "engine")


def assemble(declared: Declared) -> World:
    """Compile a team; raise one MisconfiguredError that holds all of its faults."""
    members = declared.members
    agents = [member for member in members if isinstance(member, Agent)] if isinstance(members, Sequence) else []
    models, model_faults = _models(agents, declared.model)
    helper, helper_faults = _helper(declared.helper_model)
    toolkits = {agent.id: FunctionToolkit(agent.tools) for agent in agents if isinstance(agent.tools, Sequence)}
    limits = declared.limits or Limits()
    faults = [
        *team_faults(members, declared.start, declared.handoffs_enabled),
        *(f"the team {fault}" for fault in strategy_faults(declared.strategy)),
        *(f"the team {fault}" for fault in briefing_faults(declared.briefing)),
        *(f"the team {fault}" for fault in guard_faults(declared.guards)),
        *limits.faults(),
        *hook_faults(declared.hooks or {}),
        *_store_faults(declared.store),
        *([] if declared.ask is None or callable(declared.ask) else [f"Team(ask={declared.ask!r}) is no function"]),
        *model_faults,
        *helper_faults,
        *(f"agent {id!r}: {fault}" for id, toolkit in toolkits.items() for fault in toolkit.faults),
        *(f"Team({name}=…) is not supported by this version; leave it out" for name in _unbuilt(declared)),
    ]
    if faults:
        raise MisconfiguredError(*faults)
    by_id = {member.id: member for member in members}
    seats = {id: _seat(member, by_id, toolkits, declared.handoffs_enabled) for id, member in by_id.items()}
    roster = Roster(
        seats,
        declared.start or members[0].id,
        limits,
        declared.strategy,
        declared.handoffs_enabled,
        declared.fallback,
        briefing=declared.briefing or TEMPLATE,
        guards=DEFAULT if declared.guards is None else tuple(declared.guards),
    )
    return World(roster, models, toolkits, declared.clock or SystemClock(), declared.ask, helper=helper)


def _helper(declared: Any) -> tuple[Model | None, list[str]]:
    """What sums up for the team, and what is wrong with it."""
    if declared is None:
        return None, []
    try:
        return Resolver().resolve(declared, {}, None), []
    except MisconfiguredError as error:
        return None, [f"helper_model: the team has {fault}" for fault in error.faults]


def _store_faults(store: object) -> tuple[str, ...]:
    if not isinstance(store, str):
        return ()
    from changeover.stores.open import Store

    try:
        Store(store)
    except MisconfiguredError as error:
        return error.faults
    return ()


def _unbuilt(declared: Declared) -> list[str]:
    return [name for name in UNBUILT if getattr(declared, name)]


def _models(agents: Sequence[Agent], shared: Any) -> tuple[dict[str, Model], list[str]]:
    """What every agent thinks with, and what is wrong with it, once for all agents that have the same fault."""
    resolver = Resolver()
    models: dict[str, Model] = {}
    faults: dict[str, list[str]] = {}
    for agent in {agent.id: agent for agent in agents}.values():
        try:
            models[agent.id] = resolver.resolve(agent.model or shared, agent.settings, agent.output)
        except MisconfiguredError as error:
            for fault in error.faults:
                if fault is NOTHING and agent.pull:
                    continue  # whoever claims its work may need none
                faults.setdefault(fault, []).append(agent.id)
    return models, [line for fault, ids in faults.items() for line in _told(fault, ids)]


def _told(fault: str, agents: Sequence[str]) -> list[str]:
    if fault is NOTHING or len(agents) == 1:
        return [f"agent {id!r} has {fault}" for id in agents]
    return [f"agents {', '.join(map(repr, agents))} have {fault}"]


def _seat(
    member: Member, members: Mapping[str, Member], toolkits: Mapping[str, FunctionToolkit], handoffs: bool
) -> Seat | Function | Person:
    if not isinstance(member, Agent):
        return member
    return seat(member, members, toolkits[member.id].definitions(), handoffs)
