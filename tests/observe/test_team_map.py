"""The map of a team: what boxes and labels say, and that nothing hides anything."""

from itertools import combinations

from changeover import Agent, Member, Team, Variable, delegate, handoff
from changeover.agent.handoff import Delegate, Handoff
from changeover.observe.drawing.diagram import plan_of
from changeover.observe.drawing.layout import Rect
from changeover.observe.drawing.team_map import TeamMap, team_map
from changeover.testing import ScriptedModel
from changeover.tools.run_context import RunContext


def topic_is_money(ctx: RunContext) -> bool:
    return ctx.context.get("topic") == "money"


def mapped(members: list[Member]) -> TeamMap:
    return team_map(plan_of(Team(members, model=ScriptedModel({})).roster))


def test_a_label_names_the_receiver_the_tool_the_condition_and_the_approval():
    to_billing = handoff("billing", when=topic_is_money, approval=True, variables=[Variable("order")])
    drawn = mapped([Agent("triage", handoffs=[to_billing]), Agent("billing", handoffs=())])
    [arrow] = drawn.arrows
    assert (arrow.sender, arrow.receiver, arrow.delegate) == ("triage", "billing", False)
    assert arrow.lines == ("to billing", "handoff_to_billing(order)", "after approval", "when topic is money")


def test_no_name_is_broken_and_no_short_description_cut():
    declared = handoff("billing-intake", variables=[Variable("order_id"), Variable("reason")])
    triage = Agent("triage", description="Finds out what the customer wants", handoffs=[declared])
    drawn = mapped([triage, Agent("billing-intake", handoffs=())])
    assert drawn.arrows[0].lines == ("to billing-intake", "handoff_to_billing_intake", "(order_id, reason)")
    assert drawn.members[0].lines == ("triage", "start · Finds out what the", "customer wants")


def test_all_ways_of_one_kind_between_two_members_are_one_arrow():
    ways: list[str | Handoff | Delegate] = [handoff("b", name="soon"), handoff("b", name="late"), delegate("b")]
    drawn = mapped([Agent("a", handoffs=ways), Agent("b", handoffs=())])
    assert [(arrow.delegate, [way.tool for way in arrow.ways]) for arrow in drawn.arrows] == [
        (False, ["soon", "late"]),
        (True, ["delegate_to_b"]),
    ]


def test_a_brief_map_leaves_tools_and_receivers_out_and_draws_equal_ways_there_and_back_as_one_arrow():
    def search(text: str) -> str:
        return text

    members: list[Member] = [Agent("a", description="First", tools=[search], handoffs=["b", handoff("c")])]
    members += [Agent("b", handoffs=["a"]), Agent("c", handoffs=["a"])]
    drawn = team_map(plan_of(Team(members, model=ScriptedModel({})).roster), brief=True)
    assert drawn.members[0].lines == ("a", "start · First")
    assert [(arrow.sender, arrow.receiver, arrow.both, arrow.lines) for arrow in drawn.arrows] == [
        ("a", "b", True, ("handoff",)),
        ("a", "c", False, ("handoff_to_c",)),
        ("c", "a", False, ("handoff",)),
    ]
    assert not any(arrow.both for arrow in mapped(members).arrows)


def test_a_member_that_no_way_leads_to_is_marked_and_stays_on_the_map():
    drawn = mapped([Agent("a", handoffs=["b"]), Agent("b", handoffs=()), Agent("c", handoffs=["b"])])
    assert {member.place.id: member.reachable for member in drawn.members} == {"a": True, "b": True, "c": False}


def test_a_way_to_many_receivers_is_written_in_the_box_of_its_sender():
    drawn = mapped([Agent(f"agent-{number}") for number in range(30)])
    assert drawn.arrows == ()
    assert drawn.members[0].lines[-1] == "hands to 29 others: handoff"
    assert all(member.reachable for member in drawn.members)


def test_thirty_members_fit_on_a_map_without_hiding_one_another():
    members: list[Member] = [Agent("agent-0", handoffs=[f"agent-{number}" for number in range(1, 7)])]
    members += [Agent(f"agent-{n}", handoffs=[f"agent-{(n * 5) % 30}", delegate("agent-29")]) for n in range(1, 29)]
    drawn = mapped([*members, Agent("agent-29", handoffs=())])
    solid = [*(member.box for member in drawn.members), *(arrow.label for arrow in drawn.arrows)]
    assert len(drawn.members) == 30
    assert not [pair for pair in combinations(solid, 2) if overlap(*pair)]


def overlap(one: Rect, other: Rect) -> bool:
    """True if one hides a part of the other."""
    beside = one.x + one.width <= other.x or other.x + other.width <= one.x
    return not (beside or one.y + one.height <= other.y or other.y + other.height <= one.y)
