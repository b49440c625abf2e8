"""Union: a team as code and store declare it together. Code wins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from changeover.agent.agent import Agent, Function, Member
from changeover.agent.handoff import Handoff
from changeover.agent.roster import Seat
from changeover.agent.specialist import Specialist
from changeover.agent.team_faults import listed_ways
from changeover.assembly import Declared, assemble
from changeover.documents.tool_modules import ToolModules
from changeover.guards.rules import Rule
from changeover.relay.ports.declarations import Declaration, Kind
from changeover.relay.ports.world import World
from changeover.routing.registry import registry_over, roster_over
from changeover.toolkits.connections import Connections
from changeover.tools.run_context import RunContext
from changeover.workflows.workflow import Workflow

if TYPE_CHECKING:
    from changeover.documents.shape import Scope
    from changeover.documents.team_document import Named, TeamDocument

T = TypeVar("T")

logger = logging.getLogger("changeover.team")

Watch = Callable[[World], World]

SECTIONS: dict[str, Kind] = {"agents": "agent", "tools": "tool", "skills": "skill", "workflows": "workflow"}
"""The kind of the rows that hold each section of a team's document."""
BLANK = Declared()
FIXED = ("name", "store")
LISTED: dict[str, Callable[[Any], str]] = {
    "subscriptions": lambda declared: declared.id,
    "schedules": lambda declared: declared.name,
    "workflows": lambda declared: declared.id,
}
"""Settings that are lists, each with the name of an item: the store adds items whose names the code does not have."""
SOURCE = "the store"
"""The name of documents from a store in errors."""


class Union:
    """Builds the team of each edition: what code declares, and the rows that a store adds to it.

    `code` is the team of the code alone; `watch` may wrap the worlds that effects act upon.
    """

    def __init__(self, declared: Declared, code: World, watch: Watch | None = None) -> None:
        self._declared, self._code, self._watch = declared, code, watch
        self._ids = {member.id for member in declared.members}
        self._last = code
        self._warned: set[str] = set()

    def world(self, edition: int, rows: Sequence[Declaration]) -> World:
        """The team of an edition with these rows; raises MisconfiguredError with all faults."""
        shared = self._code.connections if isinstance(self._code.connections, Connections) else None
        self._last = world = self._assembled(edition, rows, shared)
        for line in self._overruled(rows):
            logger.warning("%s", line)
        return self._watch(world) if self._watch else world

    def check(self, rows: Sequence[Declaration]) -> None:
        """Raise MisconfiguredError with all faults if the code and these rows do not make a valid team."""
        self.draft(rows)

    def draft(self, rows: Sequence[Declaration]) -> World:
        """The team that the code and these rows would make, with connections of its own, which are not opened; raises
        MisconfiguredError with all faults."""
        return self._assembled(0, rows, None)

    def _assembled(self, edition: int, rows: Sequence[Declaration], shared: Connections | None) -> World:
        gone = stand_ins(rows, self._declared.members)
        modules = ToolModules(self._declared.tool_modules)
        found = read_rows(rows, self._declared.name, modules, in_code(self._declared))
        own = [member for member in found.members if member.id not in self._ids]
        options = self._options(found.options, gone)
        named = {id for member in own for id in _named(member)} | _in_rules(options.get("rules", ()))
        named |= _in_workflows(options.get("workflows", ()))
        absent = {id: member for id, member in gone.items() if id in named}
        members = (*self._declared.members, *own, *absent.values())
        left = [each.name for each in rows if each.state != "enabled"]
        new = assemble(replace(self._declared, members=members, **options), shared, left)
        roster = roster_over(new.roster, {}, frozenset(absent))
        return replace(
            new,
            roster=replace(roster, edition=edition, withdrawn=self._withdrawn(rows)),
            registry=registry_over(new.registry, {}, frozenset(absent)),
            models={**new.models, **_unchanged(new, self._last, self._last.models)},
            toolkits={**new.toolkits, **_unchanged(new, self._last, self._last.toolkits)},
            clock=self._code.clock,
        )

    def _options(self, given: Mapping[str, Any], gone: Mapping[str, Member]) -> dict[str, Any]:
        """The settings of the store that code leaves open, without a start agent that was withdrawn."""
        left_open = {name: value for name, value in given.items() if self._leaves_open(name)}
        both = {name: self._with_own(name, given[name]) for name in LISTED if name in given}
        return {name: value for name, value in left_open.items() if name != "start" or value not in gone} | both

    def _with_own(self, name: str, given: Sequence[Any]) -> tuple[Any, ...]:
        """The subscriptions, schedules or workflows of the code, and those of the store that have other names."""
        own = getattr(self._declared, name)
        taken = {LISTED[name](each) for each in own}
        return (*own, *(each for each in given if LISTED[name](each) not in taken))

    def _leaves_open(self, setting: str) -> bool:
        """True if code leaves this setting at its default. The name and the store are always those of the code."""
        return setting not in FIXED and getattr(self._declared, setting) == getattr(BLANK, setting)

    def _withdrawn(self, rows: Sequence[Declaration]) -> dict[str, int]:
        """The disabled and removed rows, each with the edition that withdrew it."""
        ended = [each for each in rows if each.state != "enabled" and each.kind != "team"]
        hidden = self._ids  # code declares them
        return {_title(each): each.edition for each in ended if each.kind != "agent" or each.name not in hidden}

    def _overruled(self, rows: Sequence[Declaration]) -> Iterator[str]:
        """One warning for each agent, workflow and setting of the store that has no effect because code declares it."""
        settings = _documents(rows, "team").get(self._declared.name, {})
        found = [f"agent {each.name!r}" for each in rows if _is(each, "agent") and each.name in self._ids]
        flows = {workflow.id for workflow in self._declared.workflows}
        found += [f"workflow {each.name!r}" for each in rows if _is(each, "workflow") and each.name in flows]
        found += [f"{name!r} of the team" for name in settings if name not in LISTED and not self._leaves_open(name)]
        for what in found:
            if what not in self._warned:
                self._warned.add(what)
                yield f"{what} is declared in code and in the store; the code holds"


def read_rows(
    rows: Sequence[Declaration], team: str, modules: ToolModules, beside: Sequence[Named] = ()
) -> TeamDocument:
    """What these rows declare for the team of this name; raises MisconfiguredError with all faults."""
    # Here: it imports YAML, and most teams are declared in code.
    from changeover.documents.team_document import team_of

    others = [*beside, *stand_ins(rows, beside).values()]
    return team_of(document_of(rows, team), SOURCE, modules, others, withdrawn(rows))


def document_of(rows: Sequence[Declaration], team: str) -> dict[str, Any]:
    """The rows that are enabled, as one document: settings of the team of this name, agents, tools, skills and
    workflows."""
    sections = {section: _documents(rows, kind) for section, kind in SECTIONS.items()}
    return {**_documents(rows, "team").get(team, {}), **sections}


def scope_over(
    rows: Sequence[Declaration], team: str, modules: ToolModules, beside: Sequence[Named] = (), new: str = ""
) -> Scope:
    """What a further document may name beside code and rows: members, tools and skills; also an agent called `new`."""
    data = document_of(rows, team)
    if new:
        data["agents"] = {new: {}, **data["agents"]}
    others = [*beside, *stand_ins(rows, beside).values()]
    from changeover.documents.team_document import scope_of

    return scope_of(data, modules, others, withdrawn(rows))


def in_code(declared: Declared) -> list[Named]:
    """What code declares under an id that documents may name."""
    return [*declared.members, *declared.workflows]


def withdrawn(rows: Sequence[Declaration]) -> dict[str, list[str]]:
    """The names of rows that are disabled or removed, by section: documents may still name them."""
    return {section: [each.name for each in rows if _is(each, kind, False)] for section, kind in SECTIONS.items()}


def stand_ins(rows: Sequence[Declaration], code: Sequence[Named]) -> dict[str, Member]:
    """Members in the place of agents that are disabled or removed, by id, apart from those that code declares."""
    ids = {member.id for member in code}
    return {each.name: _stand_in(each) for each in rows if _is(each, "agent", False) and each.name not in ids}


def _unchanged(new: World, last: World, found: Mapping[str, T]) -> dict[str, T]:
    """The models or toolkits of agents whose declaration did not change; they are kept, since they may hold
    connections."""
    seats, before = new.roster.seats, last.roster.seats
    same = {id for id, seat in seats.items() if isinstance(seat, Seat) and _agent(before.get(id)) == seat.agent}
    return {id: each for id, each in found.items() if id in same}


def _agent(seat: object) -> Agent | None:
    return seat.agent if isinstance(seat, Seat) else None


def _title(row: Declaration) -> str:
    return f"{row.kind} {row.name!r}"


def _is(row: Declaration, kind: str, enabled: bool = True) -> bool:
    return row.kind == kind and (row.state == "enabled") is enabled


def _documents(rows: Sequence[Declaration], kind: str) -> dict[str, dict[str, Any]]:
    return {each.name: each.document for each in rows if _is(each, kind)}


def _stand_in(row: Declaration) -> Function:
    """A member in the place of an agent that is disabled or removed: others may name it, but it gets no handoffs."""

    def never_called(context: RunContext) -> str:
        raise AssertionError(f"{row.name} was withdrawn, and gets no handoffs")

    return Function(row.name, never_called, description=str(row.document.get("description", "")) or row.name)


def _named(member: Member) -> Iterator[str]:
    """The ids of other members that a member names."""
    for way in (listed_ways(member) or ()) if isinstance(member, Agent) else ():
        if isinstance(way, str):
            yield way
            continue
        yield from way.among if isinstance(way, Specialist) else (way.receiver,)
        yield from way.alternatives
        if isinstance(way, Handoff) and way.return_to:
            yield way.return_to


def _in_workflows(workflows: Sequence[Workflow]) -> set[str]:
    """The ids of members that workflows name."""
    steps = [step for workflow in workflows for step in workflow.steps]
    named = (id for step in steps for id in (step.agent, step.function, step.on_rollback))
    return {id for id in named if isinstance(id, str) and id}


def _in_rules(rules: Sequence[Rule]) -> set[str]:
    return {id for rule in rules for id in (*rule.agents, rule.goto) if id}
