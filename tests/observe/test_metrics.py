"""Metrics of handoffs in a window of time, the same on every store."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from math import inf, nan
from typing import Any, NamedTuple

import pytest
from msgspec import Struct

from changeover import Agent, Command, Function, Limits, Team, delegate, handoff, tool
from changeover.errors import ChangeoverError, MisconfiguredError, ModelError
from changeover.guards import Allow, Deny
from changeover.guards.guard import Answer, Facts, Offer
from changeover.metrics import Ledger, Metrics, Times
from changeover.models import Usage
from changeover.observe.sums import times_of
from changeover.protocol import HandoffPackage, Rejected
from changeover.relay.events import CallRefused, HandoffExpired, HandoffOffered, HandoffRejected, ModelReplied
from changeover.testing import ManualClock, ScriptedModel, calls, delegates, fails, hands_off, says
from tests.databases import KINDS, postgres, sqlite_file

__all__ = ["postgres", "sqlite_file"]

PAID = Usage(100, 20, 1, 0.25)


class Desk(NamedTuple):
    """A team, and a clock that moves only while an agent works or in the test."""

    team: Team
    clock: ManualClock
    start: float

    async def hears(self, *words: str) -> None:
        """Each word begins a conversation, named after it; some end badly."""
        for word in words:
            with suppress(ModelError):
                await self.team.run(word, conversation=word.partition(" ")[0])

    async def recounted(self, *conversations: str) -> Counter[tuple[str, ...]]:
        """What happened by the log alone: each thing with its pair, or its agent."""
        found: Counter[tuple[str, ...]] = Counter()
        for conversation in conversations:
            pairs: dict[str, tuple[str, str]] = {}
            for record in await self.team.history(conversation):
                match record.event:
                    case HandoffOffered(call=call, sender=sender, receiver=receiver):
                        pairs[f"{record.conversation}:{call}"] = (sender, receiver)
                        found["count", sender, receiver] += 1
                    case HandoffRejected(call=call):
                        found["rejected", *pairs[f"{record.conversation}:{call}"]] += 1
                    case HandoffExpired(call=call):
                        found["timeouts", *pairs[f"{record.conversation}:{call}"]] += 1
                    case CallRefused(why="guard", receiver=receiver, reason=reason) if "deadlock" in reason:
                        found["deadlocks", record.agent, receiver] += 1
                    case ModelReplied(agent=agent, usage=usage):
                        found["tokens", agent] += usage.total_tokens if usage else 0
                        found["turns", agent] += 1
                    case _:
                        pass
        return found


class NotTo(Struct, frozen=True):
    """Lets nothing be handed to this receiver."""

    receiver: str

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        return Deny("not to that one") if offer.receiver == self.receiver else Allow()


ALWAYS = {
    "broken": fails("no line", retryable=False),
    "ping": hands_off("pong", "yours"),
    "pong": hands_off("ping", "yours"),
    "patron": delegates("stuck", "sign"),
    "stuck": calls(("sign", {})),
}
"""What some agents do whatever they are told."""


def _says(agent: str, messages: Any, tools: Any) -> Any:
    """What each agent does about what it was told last."""
    last = messages[-1].text
    if last.startswith("refused") or "did not take it" in last:
        return says("Then not.", usage=PAID)
    match agent:
        case "triage" if last.split()[-1] in RECEIVERS:
            return hands_off(last.split()[-1], "yours")
        case "boss" if last.startswith("transferred"):
            return delegates("aide", "count")
        case "billing" | "aide" if last != "worked":
            return calls(("work", {}))
        case _:
            return ALWAYS.get(agent, says("Done.", usage=PAID))


RECEIVERS = ("billing", "shy", "slow", "broken", "boss", "ping", "stuck", "patron")


@tool(approval=True)
def sign() -> str:
    """Sign, if a person approves."""
    return "signed"


@pytest.fixture(params=["memory", *KINDS])
async def desk(request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    clock = ManualClock(1_000_000.0)

    @tool
    async def work() -> str:
        """Work for ten seconds."""
        await clock.advance(10)
        return "worked"

    async def after_a_while(package: HandoffPackage) -> bool:
        await clock.advance(3)
        return True

    async def too_late(package: HandoffPackage) -> bool:
        await clock.advance(40)
        return True

    members = [
        Agent("triage", handoffs=[handoff(each, timeout=30) for each in RECEIVERS]),
        Agent("billing", tools=[work], handoffs=(), accepts=after_a_while),
        Agent("shy", handoffs=(), accepts=lambda package: Rejected("not today")),
        Agent("slow", handoffs=(), accepts=too_late),
        Agent("broken", handoffs=()),
        Agent("boss", handoffs=[delegate("aide")]),
        Agent("aide", tools=[work], handoffs=()),
        Agent("ping", handoffs=["pong"]),
        Agent("patron", handoffs=[delegate("stuck")]),
        Agent("stuck", tools=[sign], handoffs=()),
        Agent("pong", handoffs=["ping"]),
    ]
    store = None
    if request.param == "sqlite":
        store = f"sqlite:///{request.getfixturevalue('sqlite_file')}"
    elif request.param == "postgresql":
        store = request.getfixturevalue("postgres")
    team = Team(members, model=ScriptedModel(_says), store=store, clock=clock)
    yield Desk(team, clock, clock.now())
    await team.close()


async def test_every_handoff_is_counted_by_its_pair_and_by_its_receiver(desk: Desk):
    words = ("hello", "billing", "shy", "slow", "boss", "ping", "1 broken", "2 broken", "3 broken", "4 broken")
    await desk.hears(*words)
    found = await desk.team.metrics()
    assert {pair: (each.count, each.success_rate) for pair, each in found.pairs.items()} == {
        ("boss", "aide"): (1, 1.0),
        ("ping", "pong"): (1, 1.0),
        ("pong", "ping"): (1, 1.0),
        ("triage", "billing"): (1, 1.0),
        ("triage", "boss"): (1, 1.0),
        ("triage", "broken"): (4, 0.0),
        ("triage", "ping"): (1, 1.0),
        ("triage", "shy"): (1, 0.0),
        ("triage", "slow"): (1, 0.0),
    }
    broken = found.agents["broken"]
    assert (broken.count, broken.failed, broken.rejected, broken.breaker_openings) == (4, 3, 1, 1)
    assert (found.agents["ping"].count, found.agents["ping"].sent, found.agents["ping"].deadlocks) == (2, 1, 1)
    assert (found.agents["triage"].count, found.agents["triage"].success_rate, found.agents["triage"].sent) == (
        *(0, None, 9),
    )
    totals = found.totals
    assert (totals.count, totals.done, totals.failed, totals.rejected, totals.timeouts) == (12, 6, 3, 2, 1)
    assert (totals.sent, totals.deadlocks, totals.breaker_openings, totals.success_rate) == (12, 1, 1, 0.5)
    counted = await desk.recounted(*(word.partition(" ")[0] for word in words))
    assert _told(found) == +counted


def _told(found: Metrics) -> Counter[tuple[str, ...]]:
    """Metrics as a recount says it."""
    names = ("count", "rejected", "timeouts", "deadlocks")
    pairs = {(name, *pair): getattr(each, name) for pair, each in found.pairs.items() for name in names}
    agents = {
        (name, agent): getattr(each, name) for agent, each in found.agents.items() for name in ("tokens", "turns")
    }
    return Counter({key: count for key, count in (pairs | agents).items() if count})


async def test_times_are_those_that_passed(desk: Desk):
    await desk.hears("billing", "boss")
    found = await desk.team.metrics()
    three, ten = Times(1, 3.0, 3.0, 3.0), Times(1, 10.0, 10.0, 10.0)
    assert (found.pairs["triage", "billing"].latency, found.agents["billing"].work_time) == (three, ten)
    assert (found.agents["aide"].latency, found.agents["boss"].work_time) == (Times(1, 0.0, 0.0, 0.0), ten)
    assert found.totals.latency == Times(3, 1.0, 0.0, 3.0)


async def test_spending_is_counted_per_agent(desk: Desk):
    await desk.hears("hello", "boss")
    found = await desk.team.metrics()
    hello = found.agents["triage"]
    assert (hello.runs, hello.turns, hello.input_tokens, hello.output_tokens, hello.tokens) == (2, 2, 100, 20, 120)
    assert (hello.cost, found.agents["aide"].tokens) == (None, 120)
    assert (found.totals.tokens, found.totals.cost) == (360, None)
    assert found.pairs["triage", "boss"].tokens_before == found.pairs["triage", "boss"].tokens_after > 0


async def test_a_cost_is_known_where_every_price_is(desk: Desk):
    await desk.hears("hello", "hello again")
    assert (await desk.team.metrics()).agents["triage"].cost == 0.5


async def test_a_window_begins_after_its_first_moment_and_holds_its_last(desk: Desk):
    await desk.hears("1 shy")
    await desk.clock.advance(60)
    await desk.hears("2 shy", "3 broken", "4 broken", "5 broken")
    counted = {seconds: (await desk.team.metrics(seconds)).totals for seconds in (59.9, 60, 60.1)}
    assert {seconds: (each.count, each.runs) for seconds, each in counted.items()} == {
        59.9: (4, 4),
        60: (4, 4),
        60.1: (5, 5),
    }
    found = await desk.team.metrics(timedelta(minutes=1))
    assert (found.since, found.until) == (desk.start, desk.start + 60)
    assert (await desk.team.metrics()).since is None
    await desk.clock.advance(60)
    later = (await desk.team.metrics(60)).totals
    assert (later.count, later.runs, later.breaker_openings) == (0, 0, 0)
    wider = (await desk.team.metrics(60.1)).totals
    assert (wider.count, wider.runs, wider.breaker_openings) == (4, 4, 1)


async def test_deadlocks_are_counted_when_they_happen(desk: Desk):
    await desk.hears("ping")
    await desk.clock.advance(5)
    assert ((await desk.team.metrics(5)).totals.deadlocks, (await desk.team.metrics(6)).totals.deadlocks) == (0, 1)


async def test_running_handoffs_are_open_and_cancelled_ones_do_not_count_for_success(desk: Desk):
    await desk.hears("stuck")
    [pair] = (await desk.team.metrics()).pairs.values()
    assert (pair.count, pair.open, pair.success_rate, pair.work_time.count) == (1, 1, None, 0)
    await desk.team.cancel("stuck")
    [pair] = (await desk.team.metrics()).pairs.values()
    assert (pair.count, pair.open, pair.withdrawn, pair.success_rate) == (1, 0, 1, None)


async def test_a_delegate_that_is_called_back_is_not_done(desk: Desk):
    await desk.hears("patron")
    await desk.team.cancel("patron")
    pair = (await desk.team.metrics()).pairs["patron", "stuck"]
    assert (pair.count, pair.done, pair.withdrawn, pair.success_rate) == (1, 0, 1, None)


async def test_forgotten_conversations_are_not_counted(desk: Desk):
    await desk.hears("ping", "boss")
    assert await desk.team.forget("ping")
    found = await desk.team.metrics()
    assert (list(found.pairs), found.totals.deadlocks) == ([("boss", "aide"), ("triage", "boss")], 0)
    assert "pong" not in found.agents


async def test_where_nothing_happened_there_is_nothing(desk: Desk):
    found = await desk.team.metrics(3600)
    assert (found.agents, found.pairs, found.totals.count, found.totals.success_rate) == ({}, {}, 0, None)
    assert (found.totals.latency, found.totals.cost) == (Times(), 0.0)


async def test_a_cycle_of_functions_is_a_deadlock_too():
    members = [
        Function("left", lambda context: Command(goto="right")),
        Function("right", lambda context: Command(goto="left")),
    ]
    team = Team(members)
    with pytest.raises(ChangeoverError, match="deadlock"):
        await team.run("go")
    found = await team.metrics()
    assert (found.totals.deadlocks, "" in found.agents) == (1, False)
    assert sum(pair.deadlocks for pair in found.pairs.values()) == 0


async def test_a_refusal_by_another_guard_is_not_counted_as_a_deadlock():
    team = Team(
        [Agent("left", handoffs=[handoff("right")]), Agent("right")],
        model=ScriptedModel({"left": [hands_off("right", "x"), says("Then not.")]}),
        guards=[NotTo("right")],
    )
    await team.run("go")
    found = await team.metrics()
    assert {pair: (each.count, each.refused, each.deadlocks) for pair, each in found.pairs.items()} == {
        ("left", "right"): (0, 1, 0)
    }
    assert (found.agents["left"].refused, found.agents["right"].refused, found.totals.refused) == (1, 0, 1)


async def test_an_alternative_that_is_refused_counts_too():
    shy = Agent("shy", accepts=lambda package: Rejected("not today"))
    team = Team(
        [Agent("left", handoffs=[handoff("shy", alternatives=["right"])]), shy, Agent("right")],
        model=ScriptedModel({"left": [hands_off("shy", "x"), says("Then not.")]}),
        guards=[NotTo("right")],
    )
    await team.run("go")
    found = await team.metrics()
    assert (found.pairs["left", "shy"].rejected, found.pairs["left", "right"].refused) == (1, 1)


@pytest.mark.parametrize("window", [0, -1, nan, inf, True, "1h", timedelta()])
async def test_a_window_is_a_length_of_time(window: Any):
    with pytest.raises(MisconfiguredError, match="is not a length of time; give seconds above 0, or a timedelta"):
        await Team([Agent("a")], model="offline").metrics(window)


@pytest.mark.parametrize(
    ("values", "times"),
    [
        ([], Times()),
        ([2.0], Times(1, 2.0, 2.0, 2.0)),
        ([4.0, 1.0, 3.0, 2.0], Times(4, 2.5, 2.0, 4.0)),
        ([float(each) for each in range(1, 101)], Times(100, 50.5, 50.0, 95.0)),
        ([0.1] * 10, Times(10, 0.1, 0.1, 0.1)),
    ],
)
def test_a_percentile_is_a_time_that_there_was(values: list[float], times: Times):
    assert times_of(values) == times


async def test_runs_are_counted_by_the_number_of_their_handoffs(desk: Desk):
    await desk.hears("hello", "hello again", "billing", "boss", "ping")
    found = await desk.team.metrics()
    assert found.depths == {0: 2, 1: 1, 2: 1, 3: 1}
    measures = desk.team.log.lists.measures
    deep = await measures.occurrences("depth", -inf, inf, "2")
    assert [(each.conversation, each.amount) for each in deep] == [("boss", 2.0)]


async def test_limits_are_counted_when_they_are_reached(desk: Desk):
    with suppress(ChangeoverError):
        await desk.team.run("boss", conversation="narrow", limits=Limits(max_turns=1))
    await desk.clock.advance(5)
    found = await desk.team.metrics()
    assert found.limits == {"max_turns": 1}
    assert (await desk.team.metrics(5)).limits == {}
    [reached] = await desk.team.log.lists.measures.occurrences("limit", -inf, inf, "max_turns")
    assert (reached.conversation, reached.words) == ("narrow", "max_turns")
    await desk.team.forget("narrow")
    assert (await desk.team.metrics()).limits == {}


async def test_periods_have_no_gaps_and_add_up_to_the_whole(desk: Desk):
    await desk.hears("billing", "1 shy")
    await desk.clock.advance(3 * 3600)
    await desk.hears("boss", "2 shy")
    found = await desk.team.metrics(86_400)
    periods = found.periods
    assert {each.end - each.start for each in periods} == {3600.0}
    assert all(one.end == other.start for one, other in pairwise(periods))
    assert periods[0].start <= (found.since or 0) < periods[0].end
    assert periods[-1].start <= found.until < periods[-1].end
    assert [(each.count, each.done, each.lost) for each in periods if each.count] == [(2, 1, 1), (3, 2, 1)]
    assert periods[-1].latency == Times(2, 0.0, 0.0, 0.0)
    assert [each.count for each in (await desk.team.metrics()).periods if each.count] == [2, 3]


async def test_a_figure_names_the_conversations_that_it_counts(desk: Desk):
    await desk.hears("ping", "hello", "billing")
    measures = desk.team.log.lists.measures
    [locked] = await measures.occurrences("deadlock", -inf, inf)
    assert (locked.conversation, locked.agent, locked.receiver) == ("ping", "ping", "pong")
    spent = await measures.occurrences("spent", -inf, inf, "triage", most=2)
    assert [each.agent for each in spent] == ["triage", "triage"]
    assert await measures.occurrences("refused", -inf, inf, "billing") == []
