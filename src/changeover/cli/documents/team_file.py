"""A team from a YAML file: agents, handoffs, strategies, limits and approvals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

from changeover.agent.agent import AUTO, Agent, Function, Member, Person
from changeover.agent.handoff import Delegate, Handoff, delegate, handoff
from changeover.agent.variable import TYPES, Variable
from changeover.cli.documents.import_path import attribute_of, module_at
from changeover.cli.documents.yaml_nodes import Place, Read, read_yaml
from changeover.cli.exits import Mistake
from changeover.guards.approval import Approval
from changeover.guards.limits import TIERS, Limits
from changeover.handoffs.reference import Reference
from changeover.handoffs.strategies import ContextStrategy, Full, MessageOnly, Recent, Strategy
from changeover.handoffs.summary import Summary
from changeover.team import Team

SELECTORS: dict[str, Read] = {"include": Place.texts, "exclude": Place.texts}
KEPT: dict[str, Read] = {
    **SELECTORS,
    "expires": Place.seconds,
    **dict.fromkeys(("max_bytes", "max_facts"), Place.whole),
}
OPTIONS: dict[type[ContextStrategy], dict[str, Read]] = {
    Full: SELECTORS,
    MessageOnly: SELECTORS,
    Recent: {**SELECTORS, "messages": Place.whole},
    Summary: {**KEPT, "needs": Place.texts, "max_tokens": Place.whole, "timeout": Place.seconds},
    Reference: KEPT,
}
NAMES = {kind.name: kind for kind in OPTIONS}


def strategy_at(place: Place, function: Callable[[Place], Any]) -> Strategy:
    """`summary`, `{recent: {messages: 3}}`, or `package.module:function`."""
    if place.is_mapping():
        [(name, inner)] = _only(place).items()
        kind = NAMES[name]
        options = {} if inner.anything() is None else inner.mapping(f"options of {name}", OPTIONS[kind])
        strategy: ContextStrategy = kind(**options)
        if faults := strategy.faults():
            raise inner.wrong(faults[0])
        return strategy
    name = place.text()
    if name in NAMES:
        return NAMES[name]()
    if ":" not in name and "." not in name:
        raise place.wrong(f"expected {', '.join(NAMES)}, or a function by its import path, found {name!r}")
    made: Strategy = function(place)
    return made


def _only(place: Place) -> dict[str, Place]:
    found = place.entries("one strategy with its options", dict.fromkeys(NAMES, Place.anything))
    if len(found) != 1:
        raise place.wrong(f"expected one of {', '.join(NAMES)}, found {len(found)}")
    return found


def read_team(file: Path) -> Team:
    """The team that this file declares; raises Mistake that names line and column."""
    reader = _Reader(file)
    places = read_yaml(file).entries("a mapping with agents", reader.team, ("agents",))
    # First of all the ids, whoever they stand for: whatever leads to an agent is checked where it is written.
    agents = places["agents"].items("a list of agents")
    for place in agents:
        reader.ids.append(place.entries("an agent with an id", reader.member, ("id",))["id"].text())
    if not agents:
        raise places["agents"].wrong("expected at least one agent, found none")
    options = {key: reader.team[key](place) for key, place in places.items() if key != "agents"}
    return Team([reader.member_at(place) for place in agents], **options)


class _Reader:
    """Reads the parts of one file."""

    def __init__(self, file: Path) -> None:
        self._folder = file.parent
        self.ids: list[str] = []
        self.team: dict[str, Read] = {
            "agents": lambda place: place.items("a list of agents"),
            "start": self._agent,
            **dict.fromkeys(("model", "helper_model"), _model),
            "strategy": self._strategy,
            "briefing": Place.text,
            "limits": _limits,
            "store": Place.text,
            "handoffs_enabled": self._enabled,
            "fallback": Place.flag,
        }
        self.member: dict[str, Read] = {
            **dict.fromkeys(("id", "name", "instructions", "specialization", "description"), Place.text),
            **dict.fromkeys(("capabilities", "examples"), Place.texts),
            "model": _model,
            "strategy": self._strategy,
            "briefing": Place.text,
            "tools": lambda place: [self._thing(each) for each in place.items("a list of tools by import path")],
            "handoffs": self._handoffs,
            **dict.fromkeys(("parallel_tools", "accepts_handoffs", "pull", "person"), Place.flag),
            "settings": Place.anything,
            **dict.fromkeys(("function", "accepts"), self._function),
            "requires": _variables,
            "max_concurrency": _count,
        }
        either: dict[str, Read] = {
            "to": self._agent,
            "delegate": Place.flag,
            **dict.fromkeys(("name", "description", "instructions"), Place.text),
            "approval": self._approval,
            "alternatives": lambda place: [self._agent(each) for each in place.items("a list of ids")],
            "timeout": _timeout,
            "strategy": self._strategy,
        }
        self._transfer = {
            **either,
            "variables": _variables,
            "return_to": self._agent,
            "merge": lambda place: place.one_of("merge", "replace"),
        }
        self._delegate = {**either, "final": Place.flag, "max_iterations": Place.whole}

    def member_at(self, place: Place) -> Member:
        """An agent; or a function, or a person, in the place of one."""
        found = place.mapping("an agent with an id", self.member, ("id",))
        is_person = found.pop("person", False)
        if not is_person and "function" not in found:
            return Agent(found.pop("id"), **found)
        if is_person and "function" in found:
            raise place.wrong("a member is a person or has a function, and not both")
        if extra := found.keys() - {"id", "function", "name", "description"}:
            what = "a member that is a person" if is_person else "a member with a function"
            raise place.wrong(f"{what} has id, name and description beside it, not {min(extra)!r}")
        return (
            Person(found.pop("id"), **found) if is_person else Function(found.pop("id"), found.pop("function"), **found)
        )

    def _handoffs(self, place: Place) -> Any:
        if not place.is_list() and place.anything() == "auto":
            return AUTO
        return [self._way(each) for each in place.items("auto, or a list of ids and of mappings with 'to'")]

    def _way(self, place: Place) -> str | Handoff | Delegate:
        if not place.is_mapping():
            return self._agent(place)
        both = {**self._transfer, **self._delegate}
        asks = place.entries("a handoff with 'to'", both, ("to",)).get("delegate")
        delegated = asks is not None and asks.flag()
        found = place.mapping("a handoff with 'to'", self._delegate if delegated else self._transfer, ("to",))
        found.pop("delegate", None)
        make: Callable[..., Handoff | Delegate] = delegate if delegated else handoff
        return make(found.pop("to"), **found)

    def _agent(self, place: Place) -> str:
        if (id := place.text()) not in self.ids:
            raise place.wrong(f"expected the id of an agent ({', '.join(self.ids)}), found {id!r}")
        return id

    def _approval(self, place: Place) -> bool | Approval:
        if not place.is_mapping():
            return place.flag()
        return Approval(**place.mapping("true, false or a mapping", APPROVAL))

    def _enabled(self, place: Place) -> Any:
        if not place.is_mapping():
            return _share(place)
        return place.mapping("true, false, a share, or those by agent", dict.fromkeys(self.ids, _share))

    def _strategy(self, place: Place) -> Strategy:
        return strategy_at(place, self._function)

    def _thing(self, place: Place) -> Any:
        address = place.text()
        module, colon, name = address.rpartition(":")
        if not colon:
            module, _, name = address.rpartition(".")
        if not module or not name:
            raise place.wrong(f"expected an import path, such as package.module:function, found {address!r}")
        try:
            return attribute_of(module_at(module, self._folder), name, module)
        except Mistake as mistake:
            raise place.wrong(f"{address} cannot be imported: {mistake}") from mistake

    def _function(self, place: Place) -> Any:
        if not callable(found := self._thing(place)):
            raise place.wrong(f"expected a function, and {place.text()} is of type {type(found).__name__}")
        return found


def _model(place: Place) -> str | list[str]:
    """A name, or several of which each stands in for those before it."""
    return list(place.texts("the name of a model, or a list of names")) if place.is_list() else place.text()


def _variables(place: Place) -> list[Variable]:
    return [_variable(each) for each in place.items("a list of variables")]


def _variable(place: Place) -> Variable:
    if not place.is_mapping():
        return Variable(place.text())
    return Variable(**place.mapping("a variable with a name", VARIABLE, ("name",)))


def _timeout(place: Place) -> float | None:
    """Seconds; null for as long as it takes."""
    if place.anything() is None:
        return None
    if not 0 < (seconds := place.seconds()) < inf:
        raise place.wrong(f"expected seconds above 0, or null for no limit, found {seconds:g}")
    return seconds


def _count(place: Place) -> int:
    if (number := place.whole()) < 1:
        raise place.wrong(f"expected a whole number above 0, found {number}")
    return number


def _share(place: Place) -> bool | float:
    """On, off, or the share of conversations."""
    if isinstance(given := place.anything(), bool):
        return given
    if not 0 <= (share := place.number(" between 0 and 1, true or false")) <= 1:
        raise place.wrong(f"expected a share between 0 and 1, found {share:g}")
    return share


def _among(choices: Sequence[str]) -> Read:
    return lambda place: place.one_of(*choices)


def _limits(place: Place) -> Limits:
    """Limits by a tier, by figures, or by a tier with other figures beside it."""
    given = place.mapping("a mapping of limits", LIMITS)
    tier, judge = given.pop("tier", None), given.pop("judge", False)
    if judge and tier != "auto":
        raise place.wrong("'judge' goes with 'tier: auto'")
    return Limits.tier(tier, judge=judge, **given) if tier else Limits(**given)


LIMITS: dict[str, Read] = {
    **dict.fromkeys(("max_handoffs", "max_turns", "max_depth", "max_tokens", "max_agents"), Place.whole),
    "max_cost": Place.number,
    "timeout": Place.seconds,
    "tier": _among((*TIERS, "auto")),
    "judge": Place.flag,
    "on_limit": _among(("raise", "tell")),
}
APPROVAL: dict[str, Read] = {
    "expires": Place.seconds,
    "on_expiry": _among(("reject", "approve")),
    "roles": Place.texts,
}
VARIABLE: dict[str, Read] = {
    "name": Place.text,
    "type": _among(tuple(TYPES)),
    "required": Place.flag,
    "description": Place.text,
}
