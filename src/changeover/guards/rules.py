"""Rule: a condition under which a conversation goes to a member, or under which a handoff is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import count
from typing import Any

from msgspec import Struct

from changeover.guards.approval import Approvable, approval_faults
from changeover.handoffs.callback import condition_faults, is_awaitable


@dataclass(frozen=True)
class Rule:
    """While `if_(ctx)` is true, the conversation goes to `goto`, the run ends with an answer (`end`), handoffs are
    refused (`deny`), or a person has to approve them (`approval`, also together with `goto`)."""

    name: str = ""
    """Unique in the team; without one, the rule is named by its effect, such as "goto billing"."""
    _: KW_ONLY
    if_: Callable[[Any], bool]
    """A pure, plain function of the RunContext; it is called often."""
    goto: str = ""
    """The id of a member."""
    deny: str = ""
    """The reason of the refusal, which the sender reads."""
    approval: Approvable = None
    """True, a function or Approval(…)."""
    message: str = ""
    """What the receiver reads, or the question to the person."""
    agents: Sequence[str] = ()
    """The ids of the active agents for which it holds; empty for all."""
    end: str = ""
    """The answer with which the run ends, in place of the active agent's; its model is not asked."""

    def __post_init__(self) -> None:
        if isinstance(self.agents, list):  # copied: the caller may change it later
            object.__setattr__(self, "agents", tuple(self.agents))

    def concerns(self, agent: str) -> bool:
        """True if the rule holds for this agent."""
        return not self.agents or agent in self.agents


@dataclass(frozen=True)
class VariablesAre:
    """The condition of a rule as data: it holds while each of these context variables has this value, or one of the
    values of a list."""

    values: Mapping[str, Any]

    def __call__(self, context: Any) -> bool:
        return all(_fits(context.context.get(name), wanted) for name, wanted in self.values.items())


def _fits(value: Any, wanted: Any) -> bool:
    return value == wanted or (isinstance(wanted, list | tuple) and value in wanted)


class Misjudged(Struct, frozen=True, gc=False):
    """The function of a rule raised, or returned no bool."""

    reason: str


def holds(rule: Rule, context: Any) -> bool | Misjudged:
    """What the function of the rule returns; Misjudged instead of an exception."""
    try:
        answer: object = rule.if_(context)
    except Exception as error:  # the user's code
        return Misjudged(f"{type(error).__name__}: {error}")
    if isinstance(answer, bool):
        return answer
    is_awaitable(answer)
    return Misjudged(f"it returned a {type(answer).__name__}, not True or False")


def named_rules(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules, each with a unique name, under which its decisions are recorded."""
    taken = {str(rule.name) for rule in rules}
    found = list[Rule]()
    for rule in rules:
        name = rule.name or next(each for each in _names(rule) if each not in taken)
        taken.add(name)
        found.append(rule if rule.name else replace(rule, name=name))
    return tuple(found)


def _names(rule: Rule) -> Iterator[str]:
    """Names for a rule without one: its effect, then its effect with a number."""
    effects = {"goto": rule.goto, "end": rule.end, "deny": rule.deny}
    effect = next((f"{name} {value}" for name, value in effects.items() if value), "approval")
    yield effect
    yield from (f"{effect} ({number})" for number in count(2))


def rule_faults(rules: object, ids: Sequence[str]) -> list[str]:
    """The faults of the declaration `rules=…` of a team with these member ids, one text each."""
    if isinstance(rules, str) or not isinstance(rules, Sequence):
        return [f"the team has rules={rules!r}; give a list of Rule(…)s"]
    known = [rule for rule in rules if isinstance(rule, Rule)]
    found = [f"the team has the rule {each!r}; give Rule(…)" for each in rules if not isinstance(each, Rule)]
    names = Counter(str(rule.name) for rule in known if rule.name)
    found += [f"{n} rules are called {name!r}; give each a name of its own" for name, n in names.items() if n > 1]
    return found + [f"rule {rule.name!r} {fault}" for rule in named_rules(known) for fault in _faults(rule, ids)]


def _faults(rule: Rule, ids: Sequence[str]) -> Iterator[str]:
    if not isinstance(rule.name, str):
        yield "needs a text as its name"
    yield from condition_faults("if_", rule.if_)
    for option in ("goto", "deny", "message", "end"):
        if not isinstance(value := getattr(rule, option), str):
            yield f"has {option}={value!r}; give a text"
    yield from approval_faults(rule.approval)
    yield from _effect_faults(rule)
    yield from _member_faults(rule, ids)


def _member_faults(rule: Rule, ids: Sequence[str]) -> Iterator[str]:
    listed = ", ".join(sorted(set(ids)))
    if isinstance(rule.goto, str) and rule.goto and rule.goto not in ids:
        yield f"goes to {rule.goto!r}, which is not in the team; choose one of {listed}"
    if isinstance(rule.agents, str) or not isinstance(rule.agents, Sequence):
        yield f"has agents={rule.agents!r}; give a list of ids"
        return
    for agent in rule.agents:
        if agent not in ids:
            yield f"concerns {agent!r}, which is not in the team; choose one of {listed}"


def _effect_faults(rule: Rule) -> Iterator[str]:
    asks = rule.approval is not None and rule.approval is not False
    effects = {"deny": rule.deny, "end": rule.end, "goto": rule.goto, "approval": asks}
    given = [f"{name}=" for name, effect in effects.items() if effect]
    if not given:
        yield "has no effect; give goto=, end=, deny= or approval="
    if len(given) > 1 and given != ["goto=", "approval="]:
        yield f"has {' and '.join(given)}; give one of them, or make several rules of it"
    for option in ("deny", "end"):
        if getattr(rule, option) and rule.message:
            yield f"has message= beside {option}=, which is the message already; leave it out"
