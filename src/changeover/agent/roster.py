"""Roster: a team's declarations, compiled once; who is in it, what each may do, and which variants are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from changeover.agent.agent import AUTO, Agent, Function, Member, Person
from changeover.agent.handoff import Delegate, Handoff
from changeover.agent.moves import (
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
from changeover.agent.variable import Check, compile_variables
from changeover.facts import Mode
from changeover.guards.breaker import CircuitBreaker, breaker_among
from changeover.guards.guard import Guard
from changeover.guards.limits import Limits
from changeover.guards.rules import Rule
from changeover.guards.switch import Switch
from changeover.handoffs.briefing import TEMPLATE, Briefing
from changeover.handoffs.strategies import ContextStrategy, Full, MessageOnly, Recent, Strategy, as_strategy
from changeover.tools.tool import ToolDefinition, as_tool


class Trial(Struct, frozen=True):
    """Variants of one thing, and who gets which."""

    name: str
    variants: dict[str, Any]
    choose: Callable[[str], str]
    """The variant for the tree of a root, by the root's id."""

    def chosen(self, root: str, recorded: Mapping[str, str]) -> str:
        """The variant of a tree: the one that was recorded, else the one that is its."""
        return recorded.get(self.name) or self.choose(root)


Trials: TypeAlias = dict[tuple[str, str], Trial]
"""By what is tried and the agent that it is about; there is at most one for both."""


def tried_model(agent: str, trial: str, variant: str) -> str:
    """Under which name the model is found that an agent has in a variant; no agent can be called so."""
    return f"{agent}@{trial}={variant}"


Definitions: TypeAlias = tuple[ToolDefinition, ...]

ABSENT = "it is not available now"
"""What is said to an offer for somebody to whom nothing is handed."""


class Seat(Struct, frozen=True):
    """One agent's place: the moves open to it, and what its model is told of them."""

    agent: Agent
    moves: dict[str, Move]
    definitions: Definitions
    alone: Definitions
    """The definitions without any handoff."""
    tools: dict[str, Move]
    """The moves without any handoff."""
    asks: bool = False
    """Whether more than its being there is needed before it takes a handoff."""
    required: dict[str, Check] = {}
    """What says of each context variable that it needs whether a value fits."""
    conditional: frozenset[str] = frozenset()
    """The handoffs that are not always open to it."""
    breakers: dict[str, CircuitBreaker] = {}
    """What counts failures where a handoff of its own says so, by the names of these tools."""
    seeks: str = ""
    """The tool by which it asks for a specialist, if it has one."""

    @property
    def transfers(self) -> tuple[str, ...]:
        """Everybody this agent can hand off to."""
        return _named(definition for definition in self.definitions if not definition.delegate)

    @property
    def receivers(self) -> tuple[str, ...]:
        """Everybody this agent can hand off to, or ask."""
        return _named(self.definitions)

    def lacks(self, variables: Mapping[str, Any]) -> tuple[str, ...]:
        """What it would have to know before it takes a handoff, and cannot find in these."""
        return tuple(
            name
            for name, check in self.required.items()
            if name not in variables or isinstance(check({name: variables[name]}), str)
        )


class Roster(Struct, frozen=True):
    """Everything that decisions read of a team."""

    seats: dict[str, Seat | Function | Person]
    start: str
    limits: Limits = Limits()
    strategy: Strategy | None = None
    handoffs_enabled: bool = True
    fallback: bool = False
    """Where a handoff cannot be made, the sender goes on alone."""
    second_chances: int = 2
    """How often in a row a model may get its calls wrong and try again."""
    attempts: int = 3
    """How many receivers a task is offered to before a person is asked."""
    briefing: Briefing = TEMPLATE
    """How receivers are briefed that say nothing else."""
    guards: tuple[Guard, ...] = ()
    """What every handoff has to pass before it is offered."""
    breaker: CircuitBreaker | None = None
    """What counts the failures of receivers, and is asked once a handoff is offered to them."""
    own_breakers: bool = False
    """Whether some handoffs have one of their own."""
    switch: Switch | None = None
    """Where handoffs are offered, if it is not the same everywhere."""
    gotos: tuple[Rule, ...] = ()
    """The rules that lead somewhere."""
    judges: tuple[Rule, ...] = ()
    """The rules that judge what is handed over."""
    trials: Trials = {}
    """What is tried in several variants."""
    absent: frozenset[str] = frozenset()
    """Members to whom nothing is handed now; what they have begun they go on with."""

    @property
    def breaks(self) -> bool:
        """Whether anybody counts the failures of receivers."""
        return self.breaker is not None or self.own_breakers

    def hands_off(self, root: str, agent: str) -> bool:
        """Whether an agent may hand off, or delegate, in the tree of this conversation."""
        return self.handoffs_enabled and (self.switch is None or self.switch.is_on(root, agent))

    @property
    def capabilities(self) -> list[str]:
        """What the agents of the team say they can do."""
        agents = [seat.agent for seat in self.seats.values() if isinstance(seat, Seat)]
        return [name for agent in agents for name in (*agent.capabilities, agent.specialization) if name]

    @property
    def present(self) -> tuple[str, ...]:
        """Everybody to whom something may be handed."""
        return tuple(id for id in self.seats if id not in self.absent) if self.absent else tuple(self.seats)

    def missing(self, member: str) -> str:
        """What to say of somebody to whom nothing can be handed."""
        return f"{member!r} is not available now" if member in self.absent else f"no agent is called {member!r}"

    def pulls(self, member: str) -> bool:
        """Whether a member is served by whoever claims what it is to do."""
        seat = self.seats.get(member)
        return isinstance(seat, Seat) and seat.agent.pull

    def move_of(self, member: str, tool: str) -> Move | None:
        """What a call of this name means for a member, if it still means anything."""
        seat = self.seats.get(member)
        return seat.moves.get(tool) if isinstance(seat, Seat) else None

    def strategy_for(self, sender: str, receiver: str, mode: Mode, tool: str) -> ContextStrategy:
        """How much the receiver sees: as the declaration of the sender's tool says, else the receiver's, else the
        team's, else the default of the mode."""
        move, seat = self.move_of(sender, tool), self.seats.get(receiver)
        declared: Strategy | None = None
        if isinstance(move, DelegateTo):
            declared, mode = move.delegate.strategy, Mode.DELEGATE
        elif isinstance(move, Transfer) and mode is Mode.TRANSFER:
            declared = move.handoff.strategy
        own = seat.agent.strategy if isinstance(seat, Seat) else None
        if found := declared or own or self.strategy:
            return as_strategy(found)
        if mode is Mode.DELEGATE:
            return Recent()
        return MessageOnly() if sender == receiver else Full()

    @property
    def template(self) -> str:
        """How everybody is briefed of whom nothing else can be said."""
        return self.briefing if isinstance(self.briefing, str) else TEMPLATE

    def briefing_for(self, receiver: str) -> Briefing:
        """How this one is briefed."""
        seat = self.seats.get(receiver)
        return (seat.agent.briefing if isinstance(seat, Seat) else None) or self.briefing


def seat(
    agent: Agent,
    members: Mapping[str, Member],
    definitions: Sequence[ToolDefinition],
    transfers: bool,
    absent: frozenset[str] = frozenset(),
) -> Seat:
    """Compile one agent. `definitions` are those of its tools, in their order; of ways that lead only to those who are
    `absent` its model is not told."""
    moves: dict[str, Move] = {
        definition.name: UseTool(as_tool(declared), definition)
        for declared, definition in zip(agent.tools, definitions, strict=True)
    }
    if transfers:
        moves |= {way.definition.name: way for way in _ways(agent, members, absent)}
    return Seat(
        agent,
        moves,
        tuple(move.definition for move in moves.values() if not absent or _is_shown(agent.id, move, absent)),
        tuple(move.definition for move in moves.values() if isinstance(move, UseTool)),
        {name: move for name, move in moves.items() if isinstance(move, UseTool)},
        not agent.accepts_handoffs or bool(agent.accepts or agent.requires or agent.max_concurrency or agent.pull),
        {each.name: compile_variables([each])[1] for each in agent.requires if each.required},
        frozenset(name for name, move in moves.items() if isinstance(move, Transfer) and move.handoff.when),
        {name: own for name, move in moves.items() if (own := _own_breaker(move))},
        next((name for name, move in moves.items() if isinstance(move, ToSpecialist)), ""),
    )


def _named(ways: Iterable[ToolDefinition]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for way in ways for name in way.receivers))


def _own_breaker(move: Move) -> CircuitBreaker | None:
    return breaker_among(move.guards) if isinstance(move, Transfer | DelegateTo) else None


def _is_shown(agent: str, move: Move, absent: frozenset[str]) -> bool:
    """Whether a move leads to somebody who is there, and is not the agent itself where it could name others."""
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
