"""Rules as they are declared: what each says of a moment, and what is wrong with those that cannot work."""

import logging
from typing import Any

import pytest

from changeover import Agent, Approval, RunContext, Team
from changeover.errors import MisconfiguredError
from changeover.guards import Rule
from changeover.guards.rules import Misjudged, holds, named_rules, rule_faults
from changeover.testing import ScriptedModel, calls, says

IDS = ["triage", "senior"]
NOW = RunContext("c", "c@1", "triage", "2", context={"tier": "vip"})


def is_vip(ctx: RunContext) -> bool:
    return ctx.context.get("tier") == "vip"


async def later(ctx: RunContext) -> bool:
    return True


def breaks(ctx: RunContext) -> bool:
    raise KeyError("tier")


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (is_vip, True),
        (lambda ctx: ctx.agent == "senior", False),
        (breaks, Misjudged("KeyError: 'tier'")),
        (lambda ctx: None, Misjudged("it returned a NoneType, not True or False")),
        (lambda ctx: 1, Misjudged("it returned a int, not True or False")),
        (later, Misjudged("it returned a coroutine, not True or False")),
        (lambda: True, None),
    ],
)
def test_a_rule_holds_or_does_not_hold_or_is_misjudged(judge: Any, said: object):
    found = holds(Rule("rule", if_=judge, goto="senior"), NOW)
    assert found == said if said is not None else isinstance(found, Misjudged)


@pytest.mark.parametrize(("agents", "concerned"), [((), True), (["triage"], True), (("senior",), False)])
def test_a_rule_concerns_all_agents_or_those_it_names(agents: Any, concerned: bool):
    assert Rule("rule", if_=is_vip, deny="no", agents=agents).concerns("triage") is concerned


def test_a_rule_copies_its_list_of_agents():
    named = ["triage"]
    rule = Rule("rule", if_=is_vip, deny="no", agents=named)
    named.append("senior")
    assert rule.agents == ("triage",)


@pytest.mark.parametrize(
    "effect",
    [
        {"goto": "senior"},
        {"goto": "senior", "message": "Be kind.", "agents": ("triage",)},
        {"goto": "senior", "approval": True},
        {"deny": "they sleep"},
        {"approval": True},
        {"approval": lambda ctx, arguments: True, "message": "Sure?"},
        {"approval": Approval(roles=["manager"])},
    ],
)
def test_valid_rules_have_no_faults(effect: dict[str, Any]):
    assert rule_faults([Rule("rule", if_=is_vip, **effect)], IDS) == []


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({}, "has no effect; give goto=, end=, deny= or approval="),
        ({"approval": False}, "has no effect; give goto=, end=, deny= or approval="),
        ({"goto": "senior", "deny": "no"}, "has deny= and goto=; give one of them, or make several rules of it"),
        ({"approval": True, "deny": "no"}, "has deny= and approval=; give one of them, or make several rules of it"),
        ({"goto": "sales"}, "goes to 'sales', which is not in the team; choose one of senior, triage"),
        ({"goto": 7}, "has goto=7; give a text"),
        ({"deny": True}, "has deny=True; give a text"),
        ({"deny": "no", "message": "why"}, "has message= beside deny=, which is the message already; leave it out"),
        ({"end": 7}, "has end=7; give a text"),
        ({"end": "bye", "goto": "senior"}, "has end= and goto=; give one of them, or make several rules of it"),
        ({"end": "bye", "message": "why"}, "has message= beside end=, which is the message already; leave it out"),
        ({"goto": "senior", "agents": "triage"}, "has agents='triage'; give a list of ids"),
        (
            {"goto": "senior", "agents": ["sales"]},
            "concerns 'sales', which is not in the team; choose one of senior, triage",
        ),
        ({"goto": "senior", "approval": "yes"}, "has approval='yes'; give True, a function or Approval(…)"),
        (
            {"approval": Approval(roles="manager")},
            "has an approval with roles='manager'; give a list of names, such as ['manager']",
        ),
        ({"goto": "senior", "if_": "vip"}, "has if_='vip'; give a plain function of the run's context"),
        pytest.param(
            {"goto": "senior", "if_": later},
            f"has if_={later.__qualname__}, which has to be awaited; give a plain function of the run's context",
            id="async",
        ),
    ],
)
def test_faults_of_a_rule_say_what_to_give(options: dict[str, Any], fault: str):
    assert rule_faults([Rule("late", **{"if_": is_vip, **options})], IDS) == [f"rule 'late' {fault}"]


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ("vip", "the team has rules='vip'; give a list of Rule(…)s"),
        pytest.param([is_vip], f"the team has the rule {is_vip!r}; give Rule(…)", id="no rule"),
        ([Rule(7, if_=is_vip, deny="no")], "rule 7 needs a text as its name"),  # type: ignore[arg-type]
        ([Rule("a", if_=is_vip, deny="no")] * 2, "2 rules are called 'a'; give each a name of its own"),
    ],
)
def test_rules_must_be_a_list_with_unique_names(rules: Any, fault: str):
    assert rule_faults(rules, IDS) == [fault]


def test_rules_without_a_name_are_named_by_their_effects_each_by_another():
    rules = [
        Rule(if_=is_vip, goto="senior"),
        Rule(if_=is_vip, deny="no"),
        Rule("approval", if_=is_vip, approval=True),
        Rule(if_=is_vip, approval=True),
        Rule(if_=is_vip, goto="senior", agents=["triage"]),
    ]
    names = ["goto senior", "deny no", "approval", "approval (2)", "goto senior (2)"]
    assert [rule.name for rule in named_rules(rules)] == names
    assert rule_faults(rules, IDS) == []


def test_the_faults_of_all_rules_are_found_when_a_team_is_built():
    rules = [Rule("one", if_=is_vip), Rule("two", if_=is_vip, goto="nobody")]
    with pytest.raises(MisconfiguredError) as caught:
        Team([Agent("triage"), Agent("senior")], model="offline", rules=rules)
    assert [fault.partition(" ")[2].partition(" ")[0] for fault in caught.value.faults] == ["'one'", "'two'"]


async def test_a_rule_that_cannot_be_judged_is_logged_once_in_a_run(caplog: pytest.LogCaptureFixture):
    def look() -> str:
        """Look."""
        return "seen"

    lines = [calls(("look", {})), calls(("look", {})), says("Done.")]
    rules = [Rule("odd", if_=breaks, goto="senior")]
    members = [Agent("triage", tools=[look]), Agent("senior")]
    async with Team(members, model=ScriptedModel({"triage": lines}), rules=rules) as team:
        assert (await team.run("Hello", conversation="c")).output == "Done."
    logged = [record for record in caplog.records if record.name == "changeover.rules"]
    assert [(record.levelno, record.getMessage()) for record in logged] == [
        (logging.ERROR, "the rule 'odd' could not be judged in c: KeyError: 'tier'")
    ]
