"""The settings of a team in documents: start, models, limits, rules, routing and the like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from changeover.documents.agent_document import MODEL
from changeover.documents.bus_document import SCHEDULES, SUBSCRIPTIONS
from changeover.documents.handoff_document import APPROVAL, STRATEGY
from changeover.documents.record import Field, Record
from changeover.documents.shape import (
    FLAG,
    FUNCTION,
    ID,
    IDS,
    JSON,
    NUMBER,
    SECONDS,
    TEXT,
    TEXT_OR_FUNCTION,
    WHOLE,
    Scope,
    Shape,
    choice,
    list_of,
    optional,
)
from changeover.documents.yaml_value import YamlValue
from changeover.facts import NoTakers
from changeover.guards.limits import TIERS, Limits
from changeover.guards.rules import Rule, VariablesAre, rule_faults
from changeover.handoffs.briefing import briefing_faults
from changeover.handoffs.strategies import strategy_faults
from changeover.routing.experience import Learning
from changeover.routing.load import WhenBusy
from changeover.routing.routing import Routing

FIGURES = Record(
    "a mapping of limits",
    {
        "max_handoffs": Field(WHOLE, "Handoffs of a run, with those of its delegates."),
        "max_turns": Field(WHOLE, "Replies of models."),
        "max_depth": Field(WHOLE, "How many levels of delegates may be nested."),
        "max_tokens": Field(optional(WHOLE), "Input and output tokens together."),
        "max_agents": Field(optional(WHOLE), "How many different agents may work."),
        "max_cost": Field(optional(NUMBER), "In US dollars."),
        "timeout": Field(optional(SECONDS), "Seconds."),
        "on_limit": Field(choice("raise", "tell"), "What happens when a limit is reached."),
    },
)
TIERED = Record(
    FIGURES.expected,
    {
        **FIGURES.fields,
        "tier": Field(choice(*TIERS, "auto"), "Limits for tasks of this kind; other figures win over it."),
        "judge": Field(FLAG, "With `tier: auto`: the helper model finds the kind of each task."),
    },
)


def _read_limits(value: YamlValue, scope: Scope) -> Limits:
    """Limits by figures, by a tier, or by a tier whose figures are partly overridden."""

    def make(given: dict[str, Any]) -> Limits:
        tier, judge = given.pop("tier", None), given.pop("judge", False)
        if judge and tier != "auto":
            raise value.error("'judge' goes with 'tier: auto'")
        return Limits.tier(tier, judge=judge, **given) if tier else Limits(**given)

    return TIERED.made(value, scope, make, Limits.faults)


def _write_limits(limits: Limits, scope: Scope) -> dict[str, Any]:
    written = FIGURES.document(limits, Limits(), scope)
    if not limits.auto:
        return written
    return {"tier": "auto", **({"judge": True} if limits.auto == "judge" else {}), **written}


def _share(value: YamlValue) -> bool | float:
    """True, false, or the share of conversations from 0 to 1."""
    if isinstance(given := value.raw(), bool):
        return given
    if not 0 <= (share := value.number(" between 0 and 1, true or false")) <= 1:
        raise value.error(f"expected a share between 0 and 1, found {share:g}")
    return share


def _read_enabled(value: YamlValue, scope: Scope) -> Any:
    if not value.is_mapping():
        return _share(value)
    return value.mapping("true, false, a share, or those by agent", dict.fromkeys(scope.ids, _share))


SHARE = {"anyOf": [{"type": "boolean"}, {"type": "number", "minimum": 0, "maximum": 1}]}
ENABLED = Shape(_read_enabled, JSON.write, {"anyOf": [SHARE, {"type": "object", "additionalProperties": SHARE}]})


def _read_condition(value: YamlValue, scope: Scope) -> Any:
    if not value.is_mapping():
        return FUNCTION.read(value, scope)
    return VariablesAre(JSON.read(value, scope))


def _write_condition(value: Any, scope: Scope) -> Any:
    if isinstance(value, VariablesAre):
        return JSON.write(value.values, scope)
    return FUNCTION.write(value, scope)


CONDITION = Shape(_read_condition, _write_condition, {"anyOf": [{"type": "object"}, FUNCTION.schema]})
RULE_RECORD = Record(
    "a rule with 'if'",
    {
        "if": Field(
            CONDITION,
            "Context variables and the values that they must have (a list: one of them), or a function by its path.",
            "if_",
        ),
        "name": Field(TEXT, "Its name, unique in the team."),
        "goto": Field(ID, "The agent to which the conversation goes."),
        "deny": Field(TEXT, "The reason for which handoffs are refused."),
        "end": Field(TEXT, "The answer with which the run ends."),
        "approval": Field(APPROVAL, "Whether a person has to approve handoffs."),
        "message": Field(TEXT, "What the receiver reads, or the question to the person."),
        "agents": Field(IDS, "The active agents for which it holds; empty for all."),
    },
    ("if",),
)
RULE = RULE_RECORD.shape(Rule)


def _rule_faults(rule: Rule, before: Sequence[Rule], scope: Scope) -> list[str]:
    return rule_faults([*before, rule], scope.ids)


RULES = list_of(RULE, "a list of rules", _rule_faults)
LEARNING_RECORD = Record(
    "how much outcomes count",
    {
        "half_life": Field(NUMBER, "After how many outcomes an outcome counts half."),
        "margin": Field(NUMBER, "How far below the best score candidates are ordered by experience, as a share."),
        "speed": Field(NUMBER, "How much a success can lose by being slow, from 0 to 1."),
        "thrift": Field(NUMBER, "How much a success can lose by being expensive, from 0 to 1."),
        "usual_seconds": Field(NUMBER, "The time at which half of `speed` is lost."),
        "usual_cost": Field(NUMBER, "The cost in US dollars at which half of `thrift` is lost."),
    },
)
LEARNING = LEARNING_RECORD.shape(Learning, Learning.faults)
ROUTING_RECORD = Record(
    "how agents are found",
    {
        "learning": Field(optional(LEARNING), "How outcomes of earlier tasks count; null switches learning off."),
        "when_busy": Field(choice(*get_args(WhenBusy)), "What happens to a task if the best agent is busy."),
        "no_takers": Field(choice(*get_args(NoTakers)), "What happens to a task that no agent accepts."),
        "match": Field(choice("words", "meaning"), "How texts are compared."),
        "judge": Field(FLAG, "True if a model chooses when neither capabilities nor texts give a clear match."),
    },
)
ROUTING = ROUTING_RECORD.shape(Routing, Routing.faults)

RETRIES = replace(
    WHOLE.needing(lambda number: [f"expected 0 or more, found {number}"] if number < 0 else []),
    schema={"type": "integer", "minimum": 0},
)
LIMITS = Shape(_read_limits, _write_limits, TIERED.schema)

SETTINGS = Record(
    "the settings of a team",
    {
        "name": Field(TEXT, "The name of the team, which its conversations have."),
        "start": Field(ID, "The agent that gets the first message; by default the first one."),
        "model": Field(MODEL, "The model of agents that name none."),
        "helper_model": Field(MODEL, "The model that sums up, and judges."),
        "strategy": Field(STRATEGY.needing(strategy_faults), "How much of a conversation receivers see."),
        "briefing": Field(
            TEXT_OR_FUNCTION.needing(briefing_faults), "The template with which handoffs are introduced."
        ),
        "limits": Field(LIMITS, "The limits of a run."),
        "rules": Field(RULES, "When conversations go to an agent, end, or are refused."),
        "routing": Field(ROUTING, "How agents are found for tasks."),
        "handoffs_enabled": Field(ENABLED, "True, false, or the share of conversations; also by agent."),
        "fallback": Field(FLAG, "True if the sender goes on alone when a handoff cannot be made."),
        "subscriptions": Field(SUBSCRIPTIONS, "Which events of the bus start what."),
        "schedules": Field(SCHEDULES, "What starts at times."),
        "keep_events": Field(SECONDS, "Seconds for which events are kept once all subscribers handled them."),
        "model_retries": Field(RETRIES, "How often a call of a model that fails is tried again."),
        "tool_retries": Field(RETRIES, "How often a call of a tool that fails is tried again."),
    },
)
STORE = Record("a store", {"store": Field(TEXT, "The address of the store; only in a file.")})
