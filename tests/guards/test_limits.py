"""Limits: what may be said, what the tiers are, and by which words a task is put into one."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from changeover import Agent, Limits, Team
from changeover.errors import EconomicLimitExceeded, Exhausted, MisconfiguredError, ModelError
from changeover.facts import RunResult, Share, Usage
from changeover.faults import LimitName
from changeover.guards.limits import Tier, classify
from changeover.messages import Message
from changeover.metrics import Ledger
from changeover.relay.ports.log import Reserve
from changeover.relay.projection.admission import Tally
from changeover.testing import ManualClock, Reply, ScriptedModel, fails, says
from changeover.tools.tool import ToolDefinition


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"max_handoffs": -1}, "max_handoffs is -1; give 0 (no handoffs) or more"),
        ({"max_handoffs": None}, "max_handoffs is None; give 0 (no handoffs) or more"),
        ({"max_turns": 0}, "max_turns is 0; give 1 or more"),
        ({"max_turns": True}, "max_turns is True; give 1 or more"),
        ({"max_depth": "3"}, "max_depth is '3'; give 0 (no delegates) or more"),
        ({"max_tokens": 0}, "max_tokens is 0; give 1 or more"),
        ({"max_tokens": 1.5}, "max_tokens is 1.5; give 1 or more"),
        ({"max_agents": 0}, "max_agents is 0; give 1 or more"),
        ({"max_cost": 0}, "max_cost is 0; give a number above 0, or None for no limit"),
        ({"max_cost": float("nan")}, "max_cost is nan; give a number above 0, or None for no limit"),
        ({"timeout": float("inf")}, "timeout is inf; give a number above 0, or None for no limit"),
        ({"timeout": True}, "timeout is True; give a number above 0, or None for no limit"),
        ({"on_limit": "cry"}, "on_limit is 'cry'; give 'raise' or 'tell'"),
        ({"auto": "dice"}, "auto is 'dice'; use Limits.tier('auto')"),
    ],
)
def test_invalid_limits_are_refused_with_what_to_give(said: dict[str, Any], fault: str):
    assert Limits(**said).faults() == [fault]
    with pytest.raises(MisconfiguredError, match=r"limit|give|use"):
        Team([Agent("a")], model=ScriptedModel({"a": [says("")]}), limits=Limits(**said))


def test_the_defaults_are_ten_handoffs_and_fifty_turns():
    limits = Limits()
    assert (limits.max_handoffs, limits.max_turns, limits.max_depth, limits.on_limit) == (10, 50, 5, "raise")
    assert (limits.max_tokens, limits.max_cost, limits.max_agents, limits.timeout) == (None, None, None, None)
    assert limits.faults() == []


@pytest.mark.parametrize(
    ("tier", "handoffs", "tokens", "agents"),
    [("simple", 0, 10_000, 1), ("medium", 2, 25_000, 3), ("complex", 5, 150_000, 5)],
)
def test_a_tier_limits_handoffs_tokens_and_agents(tier: Tier, handoffs: int, tokens: int, agents: int):
    limits = Limits.tier(tier)
    assert (limits.max_handoffs, limits.max_tokens, limits.max_agents) == (handoffs, tokens, agents)
    assert limits.max_turns == Limits().max_turns


def test_other_limits_can_be_added_to_a_tier_and_replace_its_own():
    limits = Limits.tier("medium", max_turns=5, max_tokens=99)
    assert (limits.max_handoffs, limits.max_turns, limits.max_tokens) == (2, 5, 99)
    assert Limits.tier("auto", timeout=9).as_tier("simple") == Limits.tier("simple", timeout=9)


def test_an_unknown_tier_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="no tier 'huge'; there are: simple, medium, complex, auto"):
        Limits.tier("huge")  # type: ignore[arg-type]


def test_judging_the_tier_needs_a_helper_model():
    with pytest.raises(MisconfiguredError, match="asks the team's helper_model, and it has none"):
        Team([Agent("a", model=ScriptedModel({"a": []}))], limits=Limits.tier("auto", judge=True))


CAPABILITIES = ["refunds", "web-search", "report writing", "python"]


@pytest.mark.parametrize(
    ("task", "tier", "reason"),
    [
        ("", "simple", "0 words"),
        ("Hi!", "simple", "1 word"),
        ("Where is my refund?", "simple", "4 words, 1 capability (refunds)"),
        ("A refund, by python", "medium", "4 words, 2 capabilities (refunds, python)"),
        ("Do a web search for hotels", "simple", "6 words, 1 capability (web-search)"),
        ("Look it up, then answer", "medium", "5 words, 1 word of sequence"),
        ("Bring this and that and also the other", "medium", "8 words, 3 conjunctions"),
        ("You and I", "simple", "3 words, 1 conjunction"),
        (
            "First a web search, then the report writing in python, and finally send it.",
            "complex",
            "14 words, 3 capabilities (web-search, report writing, python), 3 words of sequence, 1 conjunction",
        ),
        ("word " * 39, "simple", "39 words"),
        ("word " * 40, "medium", "40 words"),
        ("word " * 120, "medium", "120 words"),
        ("word " * 119 + "then", "complex", "120 words, 1 word of sequence"),
    ],
)
def test_a_task_is_put_into_a_tier_by_its_words(task: str, tier: Tier, reason: str):
    choice = classify(task, CAPABILITIES)
    assert (choice.tier, choice.reason) == (tier, reason)


def limited(**limits: Any) -> dict[str, Any]:
    return {"turns": 0, "handoffs": 0, "max_turns": 9, "max_handoffs": 9, **limits}


@pytest.mark.parametrize(
    ("spent", "wanted", "limit", "left", "known"),
    [
        (Tally(), limited(turns=9), None, 0, ()),
        (Tally(turns=8), limited(turns=1), None, 0, ()),
        (Tally(turns=8), limited(turns=2), "max_turns", 1, ()),
        (Tally(turns=12), limited(turns=1), "max_turns", 0, ()),
        (Tally(turns=12), limited(turns=-1), None, 0, ()),
        (Tally(turns=12), limited(turns=1, anew=True), None, 0, ()),
        (Tally(handoffs=9), limited(handoffs=1), "max_handoffs", 0, ()),
        (Tally(tokens=99), limited(turns=1, tokens=0, max_tokens=100), None, 0, ()),
        (Tally(tokens=99), limited(turns=1, tokens=1, max_tokens=100), "max_tokens", 0, ()),
        (Tally(tokens=99), limited(turns=0, tokens=1, max_tokens=100), None, 0, ()),
        (Tally(cost=0.5), limited(turns=1, cost=0.4, max_cost=1.0), None, 0, ()),
        (Tally(cost=0.5), limited(turns=1, cost=0.5, max_cost=1.0), "max_cost", 0, ()),
        (Tally(cost=None), limited(turns=1, max_cost=1.0), "max_cost", 0, ()),
        (Tally(cost=0.0), limited(turns=1, cost=None, max_cost=1.0), "max_cost", 0, ()),
        (Tally(agents='["a","b"]'), limited(agents=("b",), max_agents=2), None, 0, ()),
        (Tally(agents='["a","b"]'), limited(agents=("c",), max_agents=3), None, 0, ()),
        (Tally(agents='["a","b"]'), limited(agents=("c", "d"), max_agents=3), "max_agents", 1, ("a", "b")),
        (Tally(agents='["a","b"]'), limited(agents=("c",), max_agents=1, anew=True), None, 0, ()),
    ],
)
def test_a_reservation_beyond_the_budget_of_a_tree_is_refused(
    spent: Tally, wanted: dict[str, Any], limit: LimitName | None, left: int, known: tuple[str, ...]
):
    refusal = spent.refusal(Reserve(**wanted))
    assert (refusal.limit if refusal else None) == limit
    if isinstance(refusal, Exhausted):
        assert (refusal.left, refusal.agents) == (left, known)


def test_a_tally_is_kept_as_it_is():
    tally = Tally(3, 2).after(Reserve(1, 1, 9, 9, tokens=50, cost=0.25, agents=("b", "a")))
    assert tuple(tally) == (4, 3, 50, 0.25, '["a","b"]')
    assert tuple(tally.after(Reserve(0, 0, 9, 9, tokens=5, cost=None))) == (4, 3, 55, None, '["a","b"]')


@pytest.mark.parametrize(
    ("limit", "figure", "spent", "said"),
    [
        ("max_turns", 3, None, "the run needs more than max_turns=3"),
        ("max_tokens", 10_000, 10_250, "the run has used up max_tokens=10000: it has spent 10250"),
        ("max_cost", 0.5, 0.75, "the run has used up max_cost=0.5: it has spent 0.75"),
        ("max_cost", 0.5, None, "max_cost=0.5 cannot be enforced: the cost of a call is unknown"),
        ("timeout", 2.5, 3.1, "the run took longer than timeout=2.5 seconds"),
    ],
)
def test_an_error_names_the_limit_the_figure_and_the_ledger(
    limit: LimitName, figure: float, spent: float | None, said: str
):
    ledger = Ledger(2, 3, 10_250, 0.75, 2, 0, 3.1)
    result = RunResult(output="", final_agent="a", run_id="c@1", conversation_id="c", status="failed", ledger=ledger)
    error = EconomicLimitExceeded(limit, figure, result, spent)
    assert (error.limit_name, error.limit, error.ledger) == (limit, figure, ledger)
    assert str(error) == f"{said} (so far: 3 model turns, 2 handoffs, 10250 tokens, 2 agents, 0.75 US dollars)"


def test_shares_add_up_and_one_unknown_price_makes_the_sum_unknown():
    known, unknown = Share(1, 2, 0, Usage(10, 5, 1, 0.5)), Share(0, 1, 1, Usage(1, 1, 1, None))
    assert (known + known).cost == 1.0
    assert (known + Share()).cost == 0.5
    both = known + unknown
    assert (both.handoffs, both.turns, both.retries, both.tokens, both.cost) == (1, 3, 1, 17, None)


async def test_a_resumed_run_has_the_time_that_was_left():
    clock = ManualClock()
    outage = iter([True, False])

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        await clock.alarm(clock.now() + 40)
        return fails("out of order", retryable=False) if next(outage) else says("At last.")

    async with Team([Agent("solo")], model=ScriptedModel(play), clock=clock, limits=Limits(timeout=100)) as team:
        first = asyncio.ensure_future(team.run("go", conversation="c"))
        await clock.advance(40)
        with pytest.raises(ModelError, match="out of order"):
            await first
        await clock.advance(3_600)
        again = asyncio.ensure_future(team.resume("c"))
        await clock.advance(40)
        assert (await asyncio.wait_for(again, 10)).output == "At last."
