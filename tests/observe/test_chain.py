"""The chain of a run: hops in columns and lanes, and how the work came to each of them."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import msgspec
import pytest

from changeover import Agent, Limits, Reject, Team, delegate, handoff
from changeover.guards.guard import Deny
from changeover.observe.drawing.chain import Chain, chain_of
from changeover.observe.drawing.lanes import Drawing, PlacedHop, drawing_of
from changeover.protocol import Rejected
from changeover.relay.events import Entry, UserSpoke
from changeover.relay.history import fold_recorded, recorded
from changeover.relay.state import State
from changeover.testing import ManualClock, ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.workflows import Workflow, WorkflowStep
from tests.upgrade.write_golden import GOLDEN, Kept, entry_of

GENEROUS = Limits(max_handoffs=100, max_turns=200)


async def drawn(team: Team, conversation: str = "c") -> Drawing:
    return drawing_of(chain_of(await team.history(conversation), await team.handoffs(conversation)))


async def ran(script: Any, *members: Agent, **options: Any) -> Drawing:
    team = Team(list(members), model=ScriptedModel(script), clock=ManualClock(auto=True), **options)
    await team.run("Go", conversation="c")
    return await drawn(team)


def table(drawing: Drawing) -> list[tuple[int, str, str]]:
    return [(hop.column, hop.agent, hop.status) for hop in drawing.hops]


def edges(drawing: Drawing) -> list[tuple[str, str, str, str]]:
    agents = {hop.id: hop.agent for hop in drawing.hops}
    return [(each.kind, agents[each.source], agents[each.target], each.state) for each in drawing.edges]


def overlap(drawing: Drawing, one: PlacedHop, other: PlacedHop) -> bool:
    size = drawing.size
    return abs(one.x - other.x) < size.width and abs(one.y - other.y) < size.height


def sound(drawing: Drawing) -> None:
    """What holds for every drawing."""
    places = {hop.id: hop for hop in drawing.hops}
    assert len(places) == len(drawing.hops)
    for one, other in combinations(drawing.hops[:80], 2):
        assert not overlap(drawing, one, other), (one, other)
    for hop in drawing.hops:
        assert 0 <= hop.x <= drawing.width - drawing.size.width
        assert 0 <= hop.y <= drawing.height - drawing.size.height
    for edge in drawing.edges:
        assert places[edge.source].column < places[edge.target].column, edge
        xs = [x for x, _ in edge.points]
        assert xs == sorted(xs)
        assert all(0 <= y <= drawing.height for _, y in edge.points)


async def test_a_transfer_is_a_hop_in_the_next_column_and_another_lane():
    drawing = await ran(
        {"triage": [hands_off("billing", "Charged twice.")], "billing": [says("Done.")]},
        *(Agent("triage"), Agent("billing")),
    )
    assert table(drawing) == [(0, "triage", "completed"), (1, "billing", "completed")]
    assert [lane.agent for lane in drawing.lanes] == ["triage", "billing"]
    [edge] = drawing.edges
    assert (edge.state, edge.reason, edge.handoff) == ("accepted", "Charged twice.", "c:3.0")
    assert edge.label is not None
    sound(drawing)


async def test_work_that_comes_back_is_another_hop_so_there_is_no_cycle():
    script = {"a": [hands_off("b", "x"), hands_off("b", "y"), says("Done.")], "b": [hands_off("a", "z")] * 2}
    drawing = await ran(script, Agent("a"), Agent("b"), guards=[])
    assert [agent for _, agent, _ in table(drawing)] == ["a", "b", "a", "b", "a"]
    assert [hop.column for hop in drawing.hops] == [0, 1, 2, 3, 4]
    sound(drawing)


async def test_parallel_delegates_share_a_column_and_come_back_to_a_new_hop():
    drawing = await ran(
        {
            "lead": [calls(delegates("a", "one"), delegates("b", "two")), says("Done.")],
            "a": [says("1")],
            "b": [hands_off("c", "more")],
            "c": [says("2")],
        },
        *(Agent("lead", handoffs=[delegate("a"), delegate("b")]), Agent("a"), Agent("b"), Agent("c")),
    )
    assert table(drawing) == [
        *((0, "lead", "completed"), (1, "a", "completed"), (1, "b", "completed"), (2, "c", "completed")),
        (3, "lead", "completed"),
    ]
    assert {each for each in edges(drawing) if each[0] == "return"} == {
        ("return", "a", "lead", "accepted"),
        ("return", "c", "lead", "accepted"),
    }
    assert [column.label for column in drawing.columns] == ["1", "2 · in parallel", "3", "4"]
    sound(drawing)


async def test_steps_of_a_workflow_that_follow_each_other_are_not_called_parallel():
    steps = [WorkflowStep("one", agent="a"), WorkflowStep("two", agent="b", after=["one"])]
    model = ScriptedModel({"a": [says("1")], "b": [says("2")]})
    flow = Workflow("flow", steps=steps)
    team = Team([Agent("a"), Agent("b")], model=model, workflows=[flow], clock=ManualClock(auto=True))
    await team.run_workflow(flow, {}, conversation="c")
    assert [column.label for column in (await drawn(team)).columns][:2] == ["1", "2 · 2 delegates"]


async def test_delegates_of_one_agent_get_sub_columns():
    drawing = await ran(
        {"lead": [calls(*(delegates("a", f"part {n}") for n in range(50))), says("Done.")], "a": [says("1")] * 50},
        *(Agent("lead", handoffs=[delegate("a")]), Agent("a")),
        limits=GENEROUS,
    )
    crowd = [hop for hop in drawing.hops if hop.agent == "a"]
    assert len(crowd) == 50
    assert len({hop.x for hop in crowd}) == 8
    assert drawing.columns[1].label == "2 · 50 in parallel"
    assert drawing.size.compact
    sound(drawing)


async def test_the_attempts_of_one_handoff_share_a_column_and_the_rejected_one_is_bad():
    full = Agent("first", accepts=lambda package: Rejected("full"))
    drawing = await ran(
        {"triage": [hands_off("first", "Take it.")], "second": [says("Done.")]},
        *(Agent("triage", handoffs=[handoff("first", alternatives=["second"])]), full, Agent("second")),
    )
    assert table(drawing) == [(0, "triage", "completed"), (1, "first", "rejected"), (1, "second", "completed")]
    rejected, accepted = drawing.edges
    assert (rejected.bad, rejected.reason, accepted.bad, accepted.attempt) == (True, "full", False, 2)
    assert drawing.hops[1].ghost
    assert drawing.columns[1].label == "2 · two attempts"
    sound(drawing)


async def test_a_refused_handoff_is_drawn_and_the_sender_goes_on():
    class Never:
        def check(self, offer: Any, ledger: Any, facts: Any) -> Deny:
            return Deny("not today")

    drawing = await ran(
        {"triage": [hands_off("billing", "Take it."), says("Then I answer.")]},
        *(Agent("triage"), Agent("billing")),
        guards=[Never()],
    )
    assert table(drawing) == [(0, "triage", "completed"), (1, "billing", "refused"), (2, "triage", "completed")]
    assert edges(drawing)[0] == ("transfer", "triage", "billing", "refused")
    assert "not today" in drawing.edges[0].reason
    sound(drawing)


async def test_a_handoff_that_a_person_rejects_is_drawn():
    model = ScriptedModel({"triage": [hands_off("billing", "Take it."), says("Then I answer.")]})
    members = [Agent("triage", handoffs=[handoff("billing", approval=True)]), Agent("billing")]
    team = Team(members, model=model)
    await team.run("Go", conversation="c")
    assert (await drawn(team)).hops[0].status == "waiting"
    [request] = await team.approvals()
    await team.decide(request, Reject("no"), by="ana")
    await team.resume("c")
    drawing = await drawn(team)
    assert table(drawing)[1] == (1, "billing", "refused")
    assert drawing.edges[0].reason == "rejected by ana: no"


async def test_a_delegate_that_fails_and_a_receiver_that_fails_are_bad():
    script = {
        "lead": [delegates("a", "one"), hands_off("b", "two")],
        **{each: [fails("down", retryable=False)] for each in "ab"},
    }
    lead = Agent("lead", handoffs=[delegate("a"), "b"])
    team = Team([lead, Agent("a"), Agent("b")], model=ScriptedModel(script))
    with pytest.raises(Exception, match="down"):
        await team.run("Go", conversation="c")
    drawing = await drawn(team)
    assert [(kind, to, state) for kind, _, to, state in edges(drawing) if kind != "return"] == [
        ("delegate", "a", "failed"),
        ("transfer", "b", "failed"),
    ]
    assert [each.bad for each in drawing.edges if each.kind != "return"] == [True, True]
    assert all("down" in each.reason for each in drawing.edges if each.bad)
    sound(drawing)


async def test_a_rolled_back_handoff_goes_back_to_its_sender():
    model = ScriptedModel({"triage": [hands_off("billing", "x"), says("Mine again.")], "billing": [says("Done.")]})
    team = Team([Agent("triage"), Agent("billing")], model=model)
    result = await team.run("Go", conversation="c")
    await team.rollback(result.handoff_chain[0], reason="wrong desk")
    drawing = await drawn(team)
    assert table(drawing)[-1][:2] == (2, "triage")
    assert edges(drawing)[-1] == ("rollback", "billing", "triage", "accepted")
    assert drawing.edges[-1].reason == "wrong desk"


async def test_sixty_hops_are_compact():
    script = {"a": [*[hands_off("b", "x")] * 30, says("Done.")], "b": [hands_off("a", "y")] * 30}
    drawing = await ran(script, Agent("a"), Agent("b"), guards=[], limits=GENEROUS)
    assert (len(drawing.hops), drawing.size.compact) == (61, True)
    assert all(each.label is None for each in drawing.edges)
    sound(drawing)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_recorded_log_can_be_drawn(path: Any):
    for line in path.read_bytes().splitlines():
        entries: list[Entry] = [entry_of(each) for each in msgspec.json.decode(line, type=Kept).entries]
        for index, entry in enumerate(entries):
            entry.seq = entry.seq or sum(len(each.events) for each in entries[:index]) + 1
        drawing = drawing_of(chain_of(recorded(entries)))
        sound(drawing)
        assert {edge.source for edge in drawing.edges} <= {hop.id for hop in drawing.hops}


def test_the_current_hop_is_always_that_of_the_active_agent():
    """Code that offers packages has a hop, and is no agent: logs with packages are left out."""
    lines = [line for path in GOLDEN.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    logs = [[entry_of(each) for each in msgspec.json.decode(line, type=Kept).entries] for line in lines]
    compared = 0
    for entries in logs:
        if any(isinstance(event, UserSpoke) and event.package for entry in entries for event in entry.events):
            continue
        chain, state = Chain(), State(entries[0].conversation)
        for entry in entries:
            for item in fold_recorded(state, entry):
                chain.add(item)
            current = chain.strands[state.id].current
            assert (current.agent if current else "") == state.agent, entry
            compared += 1
    assert compared > 1_500
