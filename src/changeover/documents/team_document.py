"""TeamDocument: the agents, handoffs, strategies, limits and approvals that a YAML or JSON document declares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import inf
from typing import Any, get_args

import msgspec
from msgspec.structs import fields

from changeover.agent.agent import AUTO, Agent, Function, Member, Person
from changeover.agent.handoff import Delegate, Handoff, OnEnd, delegate, handoff
from changeover.documents.yaml_value import DocumentError, Reader, YamlValue, joined, parse_yaml, read_all
from changeover.guards.approval import Approval
from changeover.guards.limits import TIERS, Limits
from changeover.handoffs.reference import Reference
from changeover.handoffs.strategies import ContextStrategy, Full, MessageOnly, Recent, Strategy
from changeover.handoffs.summary import Summary
from changeover.tools.variable import TYPES, Variable

Importer = Callable[[str, str], Any]
"""Returns the object of this name in this module; raises ImportError."""


@dataclass(frozen=True)
class TeamDocument:
    """The declarations of one document: `Team(document.members, **document.options)` builds the team."""

    members: list[Member]
    options: Mapping[str, Any]
    """Keyword arguments of Team; only those that the document gives."""


def no_imports(module: str, name: str) -> Any:
    """The default Importer: a document from elsewhere must not choose which Python code is loaded."""
    raise ImportError("this document may not name Python objects")


def read_team(text: str, source: str, importer: Importer = no_imports) -> TeamDocument:
    """Read a team from YAML or JSON.

    `source` names the document in errors. `importer` loads the Python objects that it names, such as tools; without
    one, naming an object is an error. Raises one DocumentError with all faults, each with its line and column.
    """
    reader = _TeamReader(importer)
    values, faults = parse_yaml(text, source).look("a mapping with agents", reader.team, ("agents",))
    if "agents" not in values:
        raise joined(faults)
    agents = values["agents"].items("a list of agents")
    if not agents:
        raise values["agents"].error("expected at least one agent, found none")
    # The ids come first: a reference to an agent is checked where it is written.
    reader.ids = [id for value in agents if (id := reader.id_of(value))]
    options = {key: partial(reader.team[key], value) for key, value in values.items() if key != "agents"}
    members = {index: partial(reader.read_member, value) for index, value in enumerate(agents)}
    found = read_all({**options, **members}, faults)
    return TeamDocument([found[index] for index in members], {key: found[key] for key in options})


def team_of(
    data: Mapping[str, Any],
    source: str,
    importer: Importer = no_imports,
    beside: Sequence[Member] = (),
    absent: Mapping[str, Collection[str]] | None = None,
) -> TeamDocument:
    """The team that a document describes which is there as JSON, such as the rows of a store."""
    reader = _TeamReader(importer)
    settings = {key: value for key, value in data.items() if key not in ("agents", "tools", "skills")}
    listed = [{"id": id, **document} for id, document in data.get("agents", {}).items()]
    document = parse_yaml(msgspec.json.encode({**settings, "agents": listed}).decode(), source)
    values = document.look("a mapping with agents", reader.team)[0]
    agents = values.pop("agents").items("a list of agents")
    reader.ids = [*(member.id for member in beside), *(id for value in agents if (id := reader.id_of(value)))]
    options = {key: partial(reader.team[key], value) for key, value in values.items()}
    members = {index: partial(reader.read_member, value) for index, value in enumerate(agents)}
    found = read_all({**options, **members}, [])
    return TeamDocument([found[index] for index in members], {key: found[key] for key in options})


class _TeamReader:
    """The readers of one document: they need its ids and its importer."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer
        self.ids: list[str] = []
        self.team: dict[str, Reader] = {
            "agents": lambda value: value.items("a list of agents"),
            "name": YamlValue.text,
            "start": self._agent,
            **dict.fromkeys(("model", "helper_model"), _model),
            "strategy": self._strategy,
            "briefing": YamlValue.text,
            "limits": _limits,
            "store": YamlValue.text,
            "handoffs_enabled": self._enabled,
            "fallback": YamlValue.boolean,
        }
        self.member: dict[str, Reader] = {
            **dict.fromkeys(("id", "name", "instructions", "specialization", "description"), YamlValue.text),
            **dict.fromkeys(("capabilities", "examples"), YamlValue.texts),
            "model": _model,
            "strategy": self._strategy,
            "briefing": YamlValue.text,
            "tools": lambda value: value.each(self._object, "a list of tools by import path"),
            "handoffs": self._handoffs,
            **dict.fromkeys(("parallel_tools", "accepts_handoffs", "pull", "person"), YamlValue.boolean),
            "settings": YamlValue.raw,
            **dict.fromkeys(("function", "accepts"), self._function),
            "requires": _variables,
            "max_concurrency": _positive,
        }
        either: dict[str, Reader] = {
            "to": self._agent,
            "delegate": YamlValue.boolean,
            **dict.fromkeys(("name", "description", "instructions"), YamlValue.text),
            "approval": _approval,
            "alternatives": lambda value: value.each(self._agent, "a list of ids"),
            "timeout": _timeout,
            "strategy": self._strategy,
            "variables": _variables,
            **dict.fromkeys(("on_timeout", "on_failure"), _among(get_args(OnEnd))),
        }
        self._transfer = {
            **either,
            "return_to": self._agent,
            "merge": lambda value: value.one_of("merge", "replace"),
        }
        self._delegate = {**either, "final": YamlValue.boolean, "max_iterations": YamlValue.integer}

    def id_of(self, value: YamlValue) -> str:
        """The id of a member; empty if it has none, which is reported when the member is read."""
        found = value.look("an agent", self.member)[0] if value.is_mapping() else {}
        try:
            return found["id"].text() if "id" in found else ""
        except DocumentError:
            return ""

    def read_member(self, value: YamlValue) -> Member:
        """An Agent, a Function or a Person."""
        found = value.mapping("an agent with an id", self.member, ("id",))
        is_person = found.pop("person", False)
        if not is_person and "function" not in found:
            return Agent(found.pop("id"), **found)
        if is_person and "function" in found:
            raise value.error("a member is a person or has a function, and not both")
        if extra := found.keys() - {"id", "function", "name", "description"}:
            kind = "a person" if is_person else "a member with a function"
            raise value.error(f"{kind} takes id, name and description, not {min(extra)!r}")
        if is_person:
            return Person(found.pop("id"), **found)
        return Function(found.pop("id"), found.pop("function"), **found)

    def _handoffs(self, value: YamlValue) -> Any:
        if not value.is_list() and value.raw() == "auto":
            return AUTO
        return value.each(self._handoff, "auto, or a list of ids and of mappings with 'to'")

    def _handoff(self, value: YamlValue) -> str | Handoff | Delegate:
        if not value.is_mapping():
            return self._agent(value)
        flag = value.entries("a handoff with 'to'", {**self._transfer, **self._delegate}, ("to",)).get("delegate")
        is_delegate = flag is not None and flag.boolean()
        found = value.mapping("a handoff with 'to'", self._delegate if is_delegate else self._transfer, ("to",))
        found.pop("delegate", None)
        declare: Callable[..., Handoff | Delegate] = delegate if is_delegate else handoff
        return declare(found.pop("to"), **found)

    def _agent(self, value: YamlValue) -> str:
        if (id := value.text()) not in self.ids:
            raise value.error(f"expected the id of an agent ({', '.join(self.ids)}), found {id!r}")
        return id

    def _enabled(self, value: YamlValue) -> Any:
        if not value.is_mapping():
            return _share(value)
        return value.mapping("true, false, a share, or those by agent", dict.fromkeys(self.ids, _share))

    def _strategy(self, value: YamlValue) -> Strategy:
        """`summary`, `{recent: {messages: 3}}`, or `package.module:function`."""
        if value.is_mapping():
            return _configured_strategy(value)
        name = value.text()
        if name in STRATEGIES:
            return STRATEGIES[name]()
        if ":" not in name and "." not in name:
            raise value.error(f"expected {', '.join(STRATEGIES)}, or a function by its import path, found {name!r}")
        custom: Strategy = self._function(value)
        return custom

    def _object(self, value: YamlValue) -> Any:
        path = value.text()
        module, colon, name = path.rpartition(":")
        if not colon:
            module, _, name = path.rpartition(".")
        if not module or not name:
            raise value.error(f"expected an import path, such as package.module:function, found {path!r}")
        try:
            return self._importer(module, name)
        except ImportError as error:
            raise value.error(f"{path} cannot be imported: {error}") from error

    def _function(self, value: YamlValue) -> Any:
        if not callable(found := self._object(value)):
            raise value.error(f"expected a function, and {value.text()} is of type {type(found).__name__}")
        return found


STRATEGIES: dict[str, type[ContextStrategy]] = {
    kind.name: kind for kind in (Full, MessageOnly, Recent, Summary, Reference)
}
OPTION_READERS: dict[Any, Reader] = {
    Sequence[str]: YamlValue.texts,
    int: YamlValue.integer,
    float: YamlValue.seconds,
    float | None: YamlValue.seconds,
}
"""How an option of a strategy is read, by the type that the strategy declares for it."""


@cache
def _option_readers(kind: type[ContextStrategy]) -> dict[str, Reader]:
    return {option.name: OPTION_READERS[option.type] for option in fields(kind)}


def _configured_strategy(value: YamlValue) -> ContextStrategy:
    found = value.entries("one strategy with its options", STRATEGIES)
    if len(found) != 1:
        raise value.error(f"expected one of {', '.join(STRATEGIES)}, found {len(found)}")
    [(name, options)] = found.items()
    kind = STRATEGIES[name]
    given = {} if options.raw() is None else options.mapping(f"options of {name}", _option_readers(kind))
    strategy: ContextStrategy = kind(**given)
    if faults := strategy.faults():
        raise options.error(faults[0])
    return strategy


def _model(value: YamlValue) -> str | list[str]:
    """The name of a model; or several, each the fallback of the one before."""
    return list(value.texts("the name of a model, or a list of names")) if value.is_list() else value.text()


def _variables(value: YamlValue) -> list[Variable]:
    return value.each(_variable, "a list of variables")


def _variable(value: YamlValue) -> Variable:
    if not value.is_mapping():
        return Variable(value.text())
    return Variable(**value.mapping("a variable with a name", VARIABLE, ("name",)))


def _approval(value: YamlValue) -> bool | Approval:
    if not value.is_mapping():
        return value.boolean()
    return Approval(**value.mapping("true, false or a mapping", APPROVAL))


def _timeout(value: YamlValue) -> float | None:
    """Seconds above 0; null for no limit."""
    if value.raw() is None:
        return None
    if not 0 < (seconds := value.seconds()) < inf:
        raise value.error(f"expected seconds above 0, or null for no limit, found {seconds:g}")
    return seconds


def _positive(value: YamlValue) -> int:
    if (number := value.integer()) < 1:
        raise value.error(f"expected a whole number above 0, found {number}")
    return number


def _share(value: YamlValue) -> bool | float:
    """True, false, or the share of conversations from 0 to 1."""
    if isinstance(given := value.raw(), bool):
        return given
    if not 0 <= (share := value.number(" between 0 and 1, true or false")) <= 1:
        raise value.error(f"expected a share between 0 and 1, found {share:g}")
    return share


def _among(choices: Sequence[str]) -> Reader:
    return lambda value: value.one_of(*choices)


def _limits(value: YamlValue) -> Limits:
    """Limits by figures, by a tier, or by a tier whose figures are partly overridden."""
    given = value.mapping("a mapping of limits", LIMITS)
    tier, judge = given.pop("tier", None), given.pop("judge", False)
    if judge and tier != "auto":
        raise value.error("'judge' goes with 'tier: auto'")
    return Limits.tier(tier, judge=judge, **given) if tier else Limits(**given)


LIMITS: dict[str, Reader] = {
    **dict.fromkeys(("max_handoffs", "max_turns", "max_depth", "max_tokens", "max_agents"), YamlValue.integer),
    "max_cost": YamlValue.number,
    "timeout": YamlValue.seconds,
    "tier": _among((*TIERS, "auto")),
    "judge": YamlValue.boolean,
    "on_limit": _among(("raise", "tell")),
}
APPROVAL: dict[str, Reader] = {
    "expires": YamlValue.seconds,
    "on_expiry": _among(("reject", "approve")),
    "roles": YamlValue.texts,
}
VARIABLE: dict[str, Reader] = {
    "name": YamlValue.text,
    "type": _among(tuple(TYPES)),
    "required": YamlValue.boolean,
    "description": YamlValue.text,
}
