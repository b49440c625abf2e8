"""Assembly: checks the declarations of a team, reports all faults together, and compiles them for an engine."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from itertools import product
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from changeover.agent.agent import Agent, Function, Member, Person
from changeover.agent.roster import Roster, Seat, seat, tried_model
from changeover.agent.team_faults import team_faults
from changeover.bus.delivery import KEPT
from changeover.bus.schedule import Schedule, schedule_faults
from changeover.bus.subscription import Subscription, kept_faults, subscription_faults
from changeover.documents.tool_modules import module_faults
from changeover.engines.clock import CheckedClock, SystemClock
from changeover.errors import MisconfiguredError
from changeover.guards.breaker import CircuitBreaker, breaker_among
from changeover.guards.deadlock import Deadlock
from changeover.guards.guard import Guard, guard_faults
from changeover.guards.limits import Limits, limit_faults
from changeover.guards.rules import Rule, named_rules, rule_faults
from changeover.guards.switch import ON, Enabled, override_faults, switch_faults, switch_of
from changeover.handoffs.briefing import TEMPLATE, Briefing, briefing_faults
from changeover.handoffs.callback import arity_faults
from changeover.handoffs.strategies import Strategy, strategy_faults
from changeover.ids import DEFAULT_TEAM, SLUG
from changeover.messages import File
from changeover.models.resolver import NO_MODEL, Resolver
from changeover.models.wrappers import calls_tools, context_window
from changeover.observe.hooks import TIMEOUT, Hook, hook_faults, hook_timeout_faults
from changeover.observe.telemetry import Telemetry, telemetry_faults
from changeover.relay.ports.engine import EngineFactory
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Ask, Clock, Model, Override, World
from changeover.routing.experiment import Experiment, concerned, experiment_faults, sound_of, trials_of
from changeover.routing.profile import profile_of
from changeover.routing.registry import Registry
from changeover.routing.routing import Routing
from changeover.toolkits.connections import Connections
from changeover.toolkits.toolkit import AgentToolkit
from changeover.workflows.workflow import Workflow, answering, effects
from changeover.workflows.workflow_faults import workflow_faults

if TYPE_CHECKING:
    from changeover.stores.store import Store


class Declared(Struct, frozen=True, kw_only=True, eq=False):
    """The declarations of a team, not checked yet."""

    members: Sequence[Member] = ()
    name: str = DEFAULT_TEAM
    start: str | None = None
    model: Any = None
    helper_model: Any = None
    limits: Limits | None = None
    guards: Sequence[Guard] | None = None
    rules: Sequence[Rule] = ()
    hooks: Mapping[str, Hook] | None = None
    hook_timeout: float = TIMEOUT
    telemetry: bool | Telemetry | None = None
    narrated: bool = False
    """True if the events of conversations are logged."""
    store: str | Store | Log | None = None
    engine: EngineFactory | None = None
    handoffs_enabled: Enabled = True
    fallback: bool = False
    ask: Ask | None = None
    clock: Clock | None = None
    strategy: Strategy | None = None
    briefing: Briefing | None = None
    routing: Routing | None = None
    experiments: Sequence[Experiment] = ()
    workflows: Sequence[Workflow] = ()
    model_retries: int = 2
    tool_retries: int = 0
    tool_modules: Sequence[str | ModuleType] = ()
    subscriptions: Sequence[Subscription] = ()
    schedules: Sequence[Schedule] = ()
    keep_events: float = KEPT


logger = logging.getLogger("changeover.team")

DEFAULT: tuple[Guard, ...] = (Deadlock(), CircuitBreaker())
"""The guards of a team that declares none."""

HANDOFFS = "CHANGEOVER_HANDOFFS"
"""The environment variable that overrides the `handoffs_enabled` of a team."""


def assemble(declared: Declared, connections: Connections | None = None, withdrawn: Sequence[str] = ()) -> World:
    """Compile a team; raise one MisconfiguredError that holds all of its faults. Toolkits use these `connections`, by
    default new ones. `withdrawn` are the ids of withdrawn members, which subscriptions and schedules may still name."""
    members, connections = declared.members, connections or Connections(_attached)
    agents = [member for member in _members(members) if isinstance(member, Agent)]
    models, model_faults = _models(agents, declared.model)
    tried, tried_faults = _tried_models(agents, declared.experiments)
    helper, helper_faults = _helper(declared.helper_model)
    toolkits = {
        agent.id: AgentToolkit(agent.tools, retries=declared.tool_retries, connections=connections, skills=agent.skills)
        for agent in agents
        if isinstance(agent.tools, Sequence)
    }
    faults = [
        *_faults(declared, withdrawn),
        *model_faults,
        *experiment_faults(declared.experiments, _members(members)),
        *tried_faults,
        *helper_faults,
        *(f"agent {id!r}: {fault}" for id, toolkit in toolkits.items() for fault in toolkit.faults),
    ]
    if faults:
        raise MisconfiguredError(*faults)
    windows = {id: window for id, model in models.items() if (window := context_window(model)) is not None}
    roster = replace(_roster(declared, toolkits), windows=windows)
    for id in sorted(id for id, model in models.items() if not calls_tools(model)):
        logger.warning("agent %r: its model calls no tools, so it is offered no tools and no handoffs", id)
    return World(
        roster,
        {**models, **tried},
        toolkits,
        SystemClock() if declared.clock is None else CheckedClock(declared.clock),
        declared.ask,
        attempts=declared.model_retries + 1,
        helper=helper,
        registry=_registry(members, declared.routing or Routing()),
        routing=declared.routing or Routing(),
        connections=connections,
        subscriptions=tuple(declared.subscriptions),
        schedules=tuple(declared.schedules),
        keep_events=declared.keep_events,
    )


def _attached(given: Sequence[File]) -> tuple[File, ...]:
    """The files of a tool's result, checked as those of a user's message are."""
    from changeover.models.files import attached

    return attached(given)


def _faults(declared: Declared, withdrawn: Sequence[str]) -> list[str]:
    """Faults of the declarations, except models, tools and experiments."""
    ids = [member.id for member in _members(declared.members)]
    receivers = _receivers(declared, [*ids, *withdrawn])
    return [
        *(
            []
            if _may_be_empty(declared)
            else team_faults(declared.members, declared.start, bool(declared.handoffs_enabled))
        ),
        *_name_faults(declared.name),
        *rule_faults(declared.rules, ids),
        *workflow_faults(declared.workflows, _functions(declared.members), ids),
        *switch_faults(declared.handoffs_enabled, ids),
        *override_faults(HANDOFFS, os.environ.get(HANDOFFS, "")),
        *(f"the team {fault}" for fault in strategy_faults(declared.strategy)),
        *(f"the team {fault}" for fault in briefing_faults(declared.briefing)),
        *_routing_faults(declared.routing),
        *_retry_faults(model_retries=declared.model_retries, tool_retries=declared.tool_retries),
        *(f"the team {fault}" for fault in guard_faults(declared.guards)),
        *limit_faults(declared.limits),
        *module_faults(declared.tool_modules),
        *subscription_faults(declared.subscriptions, receivers),
        *schedule_faults(declared.schedules, receivers),
        *kept_faults(declared.keep_events),
        *_judge_faults(declared.limits, declared.helper_model),
        *hook_faults({} if declared.hooks is None else declared.hooks),
        *telemetry_faults(declared.telemetry),
        *hook_timeout_faults(declared.hook_timeout),
        *_store_faults(declared.store),
        *_engine_faults(declared.engine),
        *_clock_faults(declared.clock),
        *([] if declared.ask is None or callable(declared.ask) else [f"Team(ask={declared.ask!r}) is no function"]),
        *(f"the team {fault}" for fault in arity_faults("ask", declared.ask, "request")),
    ]


def _functions(members: object) -> list[str]:
    return [member.id for member in _members(members) if isinstance(member, Function)]


def _receivers(declared: Declared, ids: Sequence[str]) -> list[str] | None:
    """The agents and workflows that an event can start; None if a store may declare further ones."""
    workflows = declared.workflows if isinstance(declared.workflows, Sequence) else ()
    known = [*ids, *(each.id for each in workflows if isinstance(each, Workflow))]
    return known if declared.store is None else None


def _may_be_empty(declared: Declared) -> bool:
    """True if only the store declares members; the first run fails if it declares none."""
    return declared.store is not None and declared.members in ((), [])


def _roster(declared: Declared, toolkits: Mapping[str, AgentToolkit]) -> Roster:
    members = declared.members
    by_id = {member.id: member for member in members}
    switch = switch_of(declared.handoffs_enabled, os.environ.get(HANDOFFS, ""))
    guards = DEFAULT if declared.guards is None else declared.guards
    rules = named_rules(declared.rules)
    seats = {id: _seat(member, by_id, toolkits, not switch.is_off) for id, member in by_id.items()}
    return Roster(
        seats,
        declared.start or (members[0].id if members else ""),
        declared.limits or Limits(),
        declared.strategy,
        not switch.is_off,
        declared.fallback,
        briefing=TEMPLATE if declared.briefing in (None, "") else declared.briefing,
        guards=tuple(guard for guard in guards if type(guard) is not CircuitBreaker),
        breaker=breaker_among(guards),
        own_breakers=any(isinstance(seat, Seat) and seat.breakers for seat in seats.values()),
        switch=None if switch.is_off or switch == ON else switch,
        leads=tuple(rule for rule in rules if rule.goto or rule.end),
        judges=tuple(rule for rule in rules if not (rule.goto or rule.end)),
        trials=trials_of(declared.experiments, members),
        names={member.id: member.name for member in members if member.name},
        team=declared.name,
        workflows={workflow.id: workflow for workflow in declared.workflows},
        steps={id: Function(id, answering(code)) for workflow in declared.workflows for id, code in effects(workflow)},
    )


def joined(declared: Declared, members: Sequence[Member], world: World) -> tuple[Declared, World]:
    """Add members to a team; the others keep their models and toolkits. Raises one MisconfiguredError."""
    more = replace(declared, members=(*declared.members, *members))
    shared = world.connections if isinstance(world.connections, Connections) else None
    new, before = assemble(more, shared), world.roster
    functions = {id: each for id, each in before.seats.items() if isinstance(each, Function)}
    roster = replace(new.roster, seats={**new.roster.seats, **functions}, handoffs_enabled=before.handoffs_enabled)
    return more, replace(
        new,
        roster=roster,
        models={**new.models, **world.models},
        toolkits={**new.toolkits, **world.toolkits},
        clock=world.clock,
        helper=world.helper,
    )


def override_of(declared: Declared, strategy: Strategy | None, model: Any) -> Override:
    """The strategy and the models that replace the team's in one run; raises one MisconfiguredError."""
    agents = [each for each in declared.members if isinstance(each, Agent) and not each.model]
    models, faults = _models(agents, model) if model is not None else ({}, [])
    if faults := [*(f"the run {fault}" for fault in strategy_faults(strategy)), *faults]:
        raise MisconfiguredError(*faults)
    return Override(strategy, models)


def _members(declared: object) -> list[Member]:
    """The members of a known type that have an id, by which their faults are reported."""
    found = declared if isinstance(declared, Sequence) else []
    return [each for each in found if isinstance(each, Agent | Function | Person) and isinstance(each.id, str)]


def _name_faults(name: object) -> list[str]:
    if isinstance(name, str) and SLUG.fullmatch(name):
        return []
    return [f"the team has the name {name!r}; use letters, digits, '-' and '_', at most 64"]


def _judge_faults(limits: object, helper: Any) -> list[str]:
    if not isinstance(limits, Limits) or limits.auto != "judge" or helper is not None:
        return []
    return ["Limits.tier('auto', judge=True) asks the team's helper_model, and it has none"]


def _registry(members: Sequence[Member], routing: Routing) -> Registry:
    """The profiles of all members, with the text match of this routing."""
    profiles = [profile_of(member) for member in members]
    if routing.match == "words":
        return Registry(profiles)
    from changeover.routing.vectors import load_wordllama

    return Registry(profiles, load_wordllama())


def _helper(declared: Any) -> tuple[Model | None, list[str]]:
    """The helper model, and its faults."""
    if declared is None:
        return None, []
    try:
        return Resolver().resolve(declared, {}, None), []
    except MisconfiguredError as error:
        return None, [f"helper_model: the team has {fault}" for fault in error.faults]


def _retry_faults(**given: object) -> list[str]:
    return [
        f"the team has {name}={value!r}; give a whole number, 0 or more"
        for name, value in given.items()
        if not isinstance(value, int) or isinstance(value, bool) or value < 0
    ]


def _routing_faults(routing: object) -> list[str]:
    if isinstance(routing, Routing):
        return routing.faults()
    return [] if routing is None else [f"routing={routing!r} is not a Routing(…)"]


def _store_faults(store: object) -> tuple[str, ...]:
    if store is None or callable(getattr(store, "unfinished", None)):
        return ()
    from changeover.stores.store import Store

    if isinstance(store, Store):
        return ()
    if not isinstance(store, str):
        return (f"store={store!r} is no store; give an address, such as 'sqlite:///desk.db', or a Store(…)",)
    try:
        Store(store)
    except MisconfiguredError as error:
        return error.faults
    return ()


def _clock_faults(clock: object) -> list[str]:
    if clock is None or all(callable(getattr(clock, name, None)) for name in ("now", "sleep_until", "alarm")):
        return []
    return [f"clock={clock!r} is no clock; it must have now(), sleep_until() and alarm(), as ManualClock() has"]


def _engine_faults(engine: object) -> list[str]:
    if engine is None or callable(engine):
        return []
    return [f"engine={engine!r} is not a function that makes an engine from an EngineSetup"]


def _models(agents: Sequence[Agent], shared: Any) -> tuple[dict[str, Model], list[str]]:
    """The model of each agent, and the faults; agents with the same fault share a line."""
    resolver = Resolver()
    models: dict[str, Model] = {}
    faults: dict[str, list[str]] = {}
    for agent in {agent.id: agent for agent in agents}.values():
        try:
            models[agent.id] = resolver.resolve(agent.model or shared, agent.settings, agent.output)
        except MisconfiguredError as error:
            for fault in error.faults:
                if fault is NO_MODEL and agent.pull:
                    continue  # workers that claim its tickets may need no model
                faults.setdefault(fault, []).append(agent.id)
    return models, [line for fault, ids in faults.items() for line in _lines(fault, ids)]


def _tried_models(agents: Sequence[Agent], experiments: object) -> tuple[dict[str, Model], list[str]]:
    """The models that agents have in variants of experiments, and the faults, once per variant."""
    resolver = Resolver()
    models: dict[str, Model] = {}
    faults: dict[str, None] = {}
    found = sound_of(experiments) if isinstance(experiments, Sequence) else []
    by_id = {agent.id: agent for agent in agents}
    for each in (experiment for experiment in found if experiment.on == "model"):
        for id, (variant, model) in product(concerned(each, agents), each.variants.items()):
            agent = by_id[id]
            try:
                models[tried_model(id, each.name, variant)] = resolver.resolve(model, agent.settings, agent.output)
            except MisconfiguredError as error:
                faults |= {f"experiment {each.name!r} variant {variant!r} has {fault}": None for fault in error.faults}
    return models, list(faults)


def _lines(fault: str, agents: Sequence[str]) -> list[str]:
    if fault is NO_MODEL or len(agents) == 1:
        return [f"agent {id!r} has {fault}" for id in agents]
    return [f"agents {', '.join(map(repr, agents))} have {fault}"]


def _seat(
    member: Member, members: Mapping[str, Member], toolkits: Mapping[str, AgentToolkit], handoffs: bool
) -> Seat | Function | Person:
    if not isinstance(member, Agent):
        return member
    return seat(member, members, toolkits[member.id].tools(), handoffs)
