"""Roster: a team's declarations, compiled once: its members, the moves open to each, and its experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from changeover.agent.agent import AUTO, Agent, Function, Member, Person
from changeover.agent.handoff import Delegate, Handoff
from changeover.agent.moves import (
    CONDITIONAL,
    DECLARED,
    DelegateTo,
    Move,
    Transfer,
    TransferToAny,
    UseTool,
    declared_delegate,
    declared_transfer,
    generic_transfer,
)
from changeover.agent.specialist import Specialist, ToSpecialist, specialist_tool
from changeover.facts import DELEGATE, Mode
from changeover.guards.breaker import CircuitBreaker, breaker_among
from changeover.guards.guard import Guard
from changeover.guards.limits import Limits
from changeover.guards.rules import Rule
from changeover.guards.switch import Switch
from changeover.handoffs.briefing import TEMPLATE, Briefing
from changeover.handoffs.callback import Acceptance, Rollback
from changeover.handoffs.strategies import ContextStrategy, Full, MessageOnly, Recent, Strategy, as_strategy
from changeover.handoffs.structured_output import TypeForm
from changeover.ids import DEFAULT_TEAM
from changeover.tools.tool import ToolDefinition
from changeover.tools.variable import Check, compile_variables, misfit
from changeover.workflows.expression import read
from changeover.workflows.workflow import Workflow


class Trial(Struct, frozen=True):
    """An experiment: variants of one option, and the choice of a variant for each tree of conversations."""

    name: str
    variants: dict[str, Any]
    choose: Callable[[str], str]
    """The variant for the tree with this root id."""

    def chosen(self, root: str, recorded: Mapping[str, str]) -> str:
        """The variant of a tree: the recorded one if there is one, else the one that `choose` gives."""
        return recorded.get(self.name) or self.choose(root)


Trials: TypeAlias = dict[tuple[str, str], Trial]
"""The trials by subject ("strategy", "model", …) and agent."""


def tried_model(agent: str, trial: str, variant: str) -> str:
    """The key of the model of an agent in a variant; it cannot collide with an agent's id."""
    return f"{agent}@{trial}={variant}"


Definitions: TypeAlias = tuple[ToolDefinition, ...]

ABSENT = "it is not available now"
"""Why an offer to a member that is disabled is rejected."""


class Seat(Struct, frozen=True):
    """An agent in a team, compiled: the moves open to it, and their definitions for its model."""

    agent: Agent
    moves: dict[str, Move]
    definitions: Definitions
    alone: Definitions
    """The definitions without any handoff."""
    tools: dict[str, UseTool]
    """The moves without any handoff."""
    asks: bool = False
    """True if an offer to it needs an answer; False if it accepts every offer at once."""
    required: dict[str, Check] = {}
    """The check of each context variable that it requires."""
    conditional: frozenset[str] = frozenset()
    """The names of its moves that have a `when`."""
    breakers: dict[str, CircuitBreaker] = {}
    """The circuit breakers of single handoffs, by the names of these handoffs."""
    seeks: str = ""
    """The name of its `specialist(…)` tool, if it has one."""
    reads: Callable[[str], Any] | None = None
    """Reads an answer as a value of its output type; None if its answers are texts."""

    @property
    def transfers(self) -> tuple[str, ...]:
        """The ids of the members it can hand off to."""
        return _receivers(definition for definition in self.definitions if not definition.delegate)

    @property
    def receivers(self) -> tuple[str, ...]:
        """The ids of the members it can hand off or delegate to."""
        return _receivers(self.definitions)

    def lacks(self, variables: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of required context variables that are missing in these, or do not fit."""
        return tuple(
            name
            for name, check in self.required.items()
            if name not in variables or isinstance(check({name: variables[name]}), str)
        )

    def misfits(self, variables: Mapping[str, Any]) -> tuple[str, ...]:
        """The faults of required context variables that are present but do not fit, one text each."""
        lacking = set(self.lacks(variables)) & variables.keys()
        return tuple(misfit(each, variables[each.name]) for each in self.agent.requires if each.name in lacking)


FULL, RECENT, MESSAGE_ONLY = Full(), Recent(), MessageOnly()

BRIEFING = 2
"""A briefing may take one part in this many of a context window; the rest is for instructions, tools and the work."""


class Roster(Struct, frozen=True):
    """A team as decisions read it."""

    seats: dict[str, Seat | Function | Person]
    start: str
    limits: Limits = Limits()
    strategy: Strategy | None = None
    handoffs_enabled: bool = True
    fallback: bool = False
    """True if the sender goes on alone when a handoff cannot be made."""
    second_chances: int = 2
    """How often in a row a model may make wrong calls before the run fails."""
    attempts: int = 3
    """How many receivers get an offer of a task before a person is asked."""
    briefing: Briefing = TEMPLATE
    """The briefing of receivers that declare none."""
    guards: tuple[Guard, ...] = ()
    """The guards of every handoff."""
    breaker: CircuitBreaker | None = None
    """The circuit breaker of all receivers."""
    own_breakers: bool = False
    """True if a handoff has a circuit breaker of its own."""
    switch: Switch | None = None
    """In which conversations handoffs are enabled; None for all."""
    leads: tuple[Rule, ...] = ()
    """The rules that hand over or end the run before the active agent's model is asked."""
    judges: tuple[Rule, ...] = ()
    """The rules that refuse handoffs, or have a person approve them."""
    trials: Trials = {}
    """The experiments."""
    windows: Mapping[str, int] = {}
    """The context windows of members' models in tokens, as far as they are known."""
    absent: frozenset[str] = frozenset()
    """Disabled members: they get no new handoffs, but go on with work that they have begun."""
    names: dict[str, str] = {}
    """The names of members for display, of those that have one."""
    strategies: dict[int, Strategy] = {}
    """The strategies of runs of one conversation that have their own, by run."""
    team: str = DEFAULT_TEAM
    """The name of the team; it works on the conversations of this name only."""
    edition: int = 0
    """The edition of the store's declarations that the team has; 0 if code alone declares it."""
    workflows: dict[str, Workflow] = {}
    """The workflows that the team carries out."""
    steps: dict[str, Function] = {}
    """Functions of the steps of workflows, which work as members that no agent can hand off to."""
    withdrawn: Mapping[str, int] = {}
    """Declarations that the store has withdrawn, such as "agent 'billing'", each with the edition that withdrew it."""
    following: Roster | None = None
    """The roster of the conversation's next run, if the store has changed since the current one began."""
    has_strategies: bool = False
    """True if a member, a handoff, the team or a run declares a strategy; computed."""
    breaks: bool = False
    """True if the team has a circuit breaker; computed."""

    def __post_init__(self) -> None:
        # Every decision reads these, so they are computed once, when the team is compiled.
        force_setattr(self, "breaks", self.breaker is not None or self.own_breakers)
        declared = self.strategy is not None or bool(self.strategies)
        force_setattr(self, "has_strategies", declared or any(map(_declares_strategy, self.seats.values())))

    def at(self, edition: int) -> Roster:
        """This roster, or the following one if that has this edition."""
        following = self.following
        return following if following is not None and following.edition == edition else self

    def hands_off(self, root: str, agent: str) -> bool:
        """True if an agent may hand off or delegate in the tree with this root."""
        return self.handoffs_enabled and (self.switch is None or self.switch.is_on(root, agent))

    def member(self, id: str) -> Seat | Function | Person | None:
        """A member, or the function of a workflow's step."""
        return self.seats.get(id) or self.steps.get(id)

    def value(self, agent: str, text: str) -> Any:
        """An answer of an agent as a value of its output type; the text if it declares none, or the text does not
        fit. The result of a workflow is a value if its text is JSON."""
        if agent in self.workflows:
            return read(text)
        seat = self.seats.get(agent)
        return seat.reads(text) if isinstance(seat, Seat) and seat.reads is not None else text

    @property
    def capabilities(self) -> list[str]:
        """The capabilities and specializations of all agents."""
        agents = [seat.agent for seat in self.seats.values() if isinstance(seat, Seat)]
        return [name for agent in agents for name in (*agent.capabilities, agent.specialization) if name]

    @property
    def present(self) -> tuple[str, ...]:
        """The ids of the members that are not disabled."""
        return tuple(id for id in self.seats if id not in self.absent) if self.absent else tuple(self.seats)

    def missing(self, member: str) -> str:
        """Why a member cannot get a handoff: it is disabled, or does not exist."""
        return f"{member!r} is not available now" if member in self.absent else f"no agent is called {member!r}"

    def pulls(self, member: str) -> bool:
        """True if workers claim the tasks of this member."""
        seat = self.seats.get(member)
        return isinstance(seat, Seat) and seat.agent.pull

    def move_of(self, member: str, tool: str) -> Move | None:
        """The move that a call of this tool means for a member; None if it has no such tool any more."""
        seat = self.seats.get(member)
        return seat.moves.get(tool) if isinstance(seat, Seat) else None

    def callback(self, about: Rollback | Acceptance) -> Callable[..., Any] | None:
        """The function that the declaration of a handoff names for its rollback or acceptance, if there is one."""
        move = self.move_of(about.handoff.sender, about.handoff.tool)
        if not isinstance(move, DECLARED):
            return None
        return move.declared.on_rollback if isinstance(about, Rollback) else move.declared.on_accepted

    def strategy_for(self, sender: str, receiver: str, mode: Mode, move: Move | None, run: int) -> ContextStrategy:
        """The strategy that the sender's move declares, else the receiver's, else that of the run, else the team's,
        else the default of the mode."""
        if isinstance(move, DelegateTo):
            mode = DELEGATE
        if self.has_strategies and (found := self._declared_strategy(receiver, mode, move, run)) is not None:
            return as_strategy(found)
        if mode is DELEGATE:
            return RECENT
        return MESSAGE_ONLY if sender == receiver else FULL

    def _declared_strategy(self, receiver: str, mode: Mode, move: Move | None, run: int) -> Strategy | None:
        says = isinstance(move, DelegateTo) or (isinstance(move, Transfer) and mode is Mode.TRANSFER)
        # Compared with None: a function may count as false.
        if says and isinstance(move, DECLARED) and (declared := move.declared.strategy) is not None:
            return declared
        seat = self.seats.get(receiver)
        if isinstance(seat, Seat) and (own := seat.agent.strategy) is not None:
            return own
        return self.strategies.get(run) if run in self.strategies else self.strategy

    def briefing_room(self, receiver: str) -> int | None:
        """Number of tokens that a briefing may take of the receiver's context window; None if that is unknown."""
        window = self.windows.get(receiver)
        return None if window is None else window // BRIEFING

    @property
    def template(self) -> str:
        """The briefing template of the team."""
        return self.briefing if isinstance(self.briefing, str) else TEMPLATE

    def briefing_for(self, receiver: str) -> Briefing:
        """The briefing of this receiver."""
        seat = self.seats.get(receiver)
        own = seat.agent.briefing if isinstance(seat, Seat) else None
        return self.briefing if own is None or own == "" else own


def seat(
    agent: Agent,
    members: Mapping[str, Member],
    tools: Iterable[UseTool],
    transfers: bool,
    absent: frozenset[str] = frozenset(),
) -> Seat:
    """Compile one agent.

    `tools` are those that its toolkit offers now. `transfers` is False if it may not hand off at all. Its model does
    not see handoffs that lead only to `absent` members.
    """
    moves: dict[str, Move] = {tool.definition.name: tool for tool in tools}
    if transfers:
        moves |= {way.definition.name: way for way in _ways(agent, members, absent)}
    return Seat(
        agent,
        moves,
        tuple(move.definition for move in moves.values() if not absent or _is_shown(agent.id, move, absent)),
        tuple(move.definition for move in moves.values() if isinstance(move, UseTool)),
        {name: move for name, move in moves.items() if isinstance(move, UseTool)},
        not agent.accepts_handoffs
        or agent.accepts is not None
        or bool(agent.requires or agent.max_concurrency or agent.pull),
        {each.name: compile_variables([each])[1] for each in agent.requires if each.required},
        frozenset(
            name for name, move in moves.items() if isinstance(move, CONDITIONAL) and move.declared.when is not None
        ),
        {name: own for name, move in moves.items() if (own := _own_breaker(move))},
        next((name for name, move in moves.items() if isinstance(move, ToSpecialist)), ""),
        None if agent.output in (None, str) else TypeForm(agent.output).read,
    )


def retooled(roster: Roster, tools: Mapping[str, Iterable[UseTool]]) -> Roster:
    """The roster with the tools that the toolkits of its agents offer now."""
    members = {id: each.agent if isinstance(each, Seat) else each for id, each in roster.seats.items()}
    seats: dict[str, Seat | Function | Person] = dict(roster.seats)
    for id, member in members.items():
        if isinstance(member, Agent) and id in tools:
            seats[id] = seat(member, members, tools[id], roster.handoffs_enabled, roster.absent)
    return replace(roster, seats=seats)


def _declares_strategy(seat: Seat | Function | Person) -> bool:
    if not isinstance(seat, Seat):
        return False
    ways = [move.declared.strategy for move in seat.moves.values() if isinstance(move, Transfer | DelegateTo)]
    return any(strategy is not None for strategy in (seat.agent.strategy, *ways))


def _receivers(definitions: Iterable[ToolDefinition]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(id for definition in definitions for id in definition.receivers))


def _own_breaker(move: Move) -> CircuitBreaker | None:
    return breaker_among(move.guards) if isinstance(move, DECLARED) else None


def _is_shown(agent: str, move: Move, absent: frozenset[str]) -> bool:
    """True if a move leads to a member that is not absent; the generic handoff, to one other than the agent itself."""
    if isinstance(move, TransferToAny):
        return bool(set(move.receivers) - {agent})
    return absent.isdisjoint(move.definition.receivers)


def _ways(
    agent: Agent, members: Mapping[str, Member], absent: frozenset[str]
) -> list[TransferToAny | Transfer | DelegateTo]:
    there = [id for id in members if id not in absent]
    if agent.handoffs is AUTO:
        return [generic_transfer(there, members)] if len(members) > 1 else []
    bare = [way for way in agent.handoffs if isinstance(way, str)]
    named = [way for way in bare if way not in absent]
    ways: list[TransferToAny | Transfer | DelegateTo] = [generic_transfer(named, members)] if bare else []
    for way in agent.handoffs:
        if isinstance(way, Handoff):
            ways.append(declared_transfer(way, members))
        elif isinstance(way, Specialist):
            ways.append(specialist_tool(way))
        elif isinstance(way, Delegate):
            ways.append(declared_delegate(way, members))
    return ways
