"""Drawings of teams and of conversations, with texts that must not break them."""

import re
import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from changeover import (
    Agent,
    Command,
    Function,
    Member,
    Person,
    Reject,
    RunContext,
    Team,
    Variable,
    delegate,
    handoff,
    specialist,
    tool,
)
from changeover.errors import ConversationNotFound
from changeover.guards.rules import Rule
from changeover.observe.drawing.course import Course, course_of
from changeover.observe.drawing.diagram import (
    Plan,
    course_mermaid,
    course_text,
    plan_of,
    team_mermaid,
    team_text,
)
from changeover.observe.drawing.svg import course_svg, team_svg
from changeover.protocol import HandoffRecord, Mode, Rejected, State
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says

NASTY = 'a "quoted" <b>&amp;; #35; | end\x1b[31m\nnext'


@tool(approval=True)
def refund() -> str:
    """Send money back."""
    return ""


@pytest.fixture
def plan() -> Plan:
    to_billing = handoff("billing", variables=[Variable("order_id")], approval=True)
    members: list[Member] = [
        Agent("triage", description=NASTY, handoffs=[to_billing, "notes"]),
        Agent("billing", tools=[refund], handoffs=[delegate("notes", name="ask_notes")]),
        Agent("anybody"),
        Function("notes", lambda ctx: ""),
    ]
    return plan_of(Team(members, model=ScriptedModel({}))._world.roster)


def record(id: str, sender: str, receiver: str, message: str = "because", mode: Mode = Mode.TRANSFER) -> HandoffRecord:
    return HandoffRecord(id, sender, receiver, message, mode, State.COMPLETE, 1.0, "tool", {"n": 1}, "full", "r", "t")


HANDOFFS = [
    record("c:3.0", "triage", "billing"),
    record("c:6.0", "billing", "research", NASTY, Mode.DELEGATE),
    record("c/6.0:3.0", "research", "archive", "dig", Mode.DELEGATE),
    record("c:9.0", "billing", "triage"),
]


def test_a_team_as_text(plan: Plan):
    _, *rest = team_text(plan).splitlines()
    assert rest == [
        "  ├─ hands to  notes by handoff",
        "  └─ hands to  billing by handoff_to_billing(order_id) (after approval)",
        "",
        "billing",
        "  ├─ tool      refund (after approval)",
        "  └─ asks      notes by ask_notes",
        "",
        "anybody",
        "  └─ hands to  triage, billing, notes by handoff",
        "",
        "notes",
    ]


def test_the_targets_of_commands_are_drawn_where_a_function_declares_them():
    members: list[Member] = [
        Function("gate", lambda ctx: "", goto=["writer", "editor"]),
        Agent("writer"),
        Agent("editor"),
    ]
    plan = plan_of(Team(members, model=ScriptedModel({}))._world.roster)
    assert team_text(plan).splitlines()[:2] == ["gate (start)", "  └─ hands to  writer, editor by Command"]
    assert '  a0 -->|"Command"| a1' in team_mermaid(plan)
    drawn = "".join(ET.fromstring(team_svg(plan)).itertext())
    assert ("to writer" in drawn, "to editor" in drawn, "Command" in drawn) == (True, True, True)


def test_a_conversation_as_text_nests_the_work_of_delegates():
    lines = course_text(course_of("c", "", HANDOFFS)).splitlines()
    assert lines[:4] == ["conversation c", "", "triage", "  └─▶ billing: because (n=1) [COMPLETE]"]
    assert lines[4] == "billing"
    assert lines[5].startswith("  ├─▶ asks research: a ")
    assert lines[6:8] == ["  │    research", "  │      └─▶ asks archive: dig (n=1) [COMPLETE]"]
    assert lines[8:] == ["  └─▶ triage: because (n=1) [COMPLETE]", "triage"]


def test_a_conversation_without_handoffs_is_its_agent():
    course = course_of("c", "triage", [])
    assert course_text(course).splitlines() == ["conversation c", "", "triage"]
    assert course_mermaid(course).splitlines() == ["sequenceDiagram", "  participant a0 as triage"]
    assert ET.fromstring(course_svg(course)) is not None


def test_mermaid_draws_delegates_that_come_back(plan: Plan):
    assert '  a1 -.->|"ask_notes"| a3' in team_mermaid(plan)
    drawn = course_mermaid(course_of("c", "", HANDOFFS)).splitlines()
    assert [line.partition(":")[0].strip() for line in drawn[5:]] == [
        *("a0->>a1", "a1->>+a2", "a2->>+a3", "a3-->>-a2", "a2-->>-a1", "a1->>a0")
    ]


def test_no_text_breaks_the_picture(plan: Plan):
    course = course_of("c", "", HANDOFFS)
    for drawn in (team_mermaid(plan), course_mermaid(course)):
        assert all(re.fullmatch(r"#\d+;", code) for code in re.findall(r"#[^;]*;", drawn))
        assert "<b>" not in drawn
    for drawn in (team_svg(plan), course_svg(course)):
        texts = [each.text or "" for each in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
        assert any('"quoted" <b>' in text or '"quoted"' in text for text in texts)
        assert not any("\x1b" in text for text in texts)


@pytest.mark.parametrize("name", [NASTY, "\x1b[2J", "\x00", "\n"])
def test_no_name_that_a_program_gives_itself_breaks_the_picture(name: str):
    course = course_of("c", "", [record("c:3.0", name, "billing"), record("c:4.0", name, "tech", mode=Mode.DELEGATE)])
    drawn = course_text(course)
    assert all(sign.isprintable() or sign == "\n" for sign in drawn)
    assert len(drawn.splitlines()) == 7
    assert len(course_mermaid(course).splitlines()) == 7
    assert ET.fromstring(course_svg(course)) is not None


def test_no_variable_that_a_model_gives_breaks_the_picture():
    odd = {"\x1b[2J": "\x9b1m", "n\nm": "\u2028"}
    course = course_of("c", "", [replace(record("c:3.0", "triage", "billing"), variables=odd)])
    assert all(sign.isprintable() or sign == "\n" for sign in course_text(course))
    assert ET.fromstring(course_svg(course)) is not None


def test_an_svg_has_a_line_for_every_way(plan: Plan):
    ways = sum(len([id for id in way.receivers if id != place.id]) for place in plan.places for way in place.ways)
    assert team_svg(plan).count('<path class="e') == ways


@pytest.fixture
def declined() -> Course:
    """Billing declines, accounts accepts, and asks a delegate that declines too."""
    script = {
        "triage": [hands_off("billing", "Charged twice.")],
        "accounts": [delegates("closed", "Anybody?"), says("Sent back.")],
    }
    members: list[Member] = [
        Agent("triage", handoffs=[handoff("billing", alternatives=["accounts"])]),
        Agent("billing", accepts=lambda package: Rejected("no time"), handoffs=()),
        Agent("accounts", handoffs=[delegate("closed")]),
        Agent("closed", accepts_handoffs=False, handoffs=()),
    ]
    result = Team(members, model=ScriptedModel(script)).run_sync("Twice!", conversation="c")
    return course_of("c", "", result.handoff_chain)


def test_a_declined_handoff_is_drawn_as_tried_and_not_as_a_move(declined: Course):
    assert course_text(declined).splitlines() == [
        "conversation c",
        "",
        "triage",
        "  ├╌▶ tried billing: Charged twice. [REJECTED: no time]",
        "  └─▶ accounts: Charged twice. (try 2, after billing) [COMPLETE]",
        "accounts",
        "  └╌▶ tried closed: Anybody? [REJECTED: it takes no handoffs]",
    ]
    drawn = course_mermaid(declined).splitlines()
    assert [line.strip() for line in drawn[5:]] == [
        "a0--xa1: billing: Charged twice.",
        "Note over a1: REJECTED: no time",
        "a0->>a2: accounts: Charged twice. (try 2, after billing)",
        "a2--xa3: closed: Anybody?",
        "Note over a3: REJECTED: it takes no handoffs",
    ]


def test_an_svg_dashes_and_crosses_out_a_declined_offer(declined: Course):
    drawn = course_svg(declined)
    assert re.findall(r'<path class="(e[^"]*)"', drawn) == ["e x r", "e", "e x r"]
    texts = [each.text for each in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text and text.startswith(("to ", "asks ", "REJECTED"))] == [
        *("to billing", "REJECTED: no time", "to accounts (try 2)", "asks closed", "REJECTED: it takes no handoffs"),
    ]
    titles = [each.text or "" for each in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}title")]
    assert "accounts asks closed: REJECTED: it takes no handoffs\nAnybody?" in titles


@pytest.mark.parametrize("state", [State.FAILED, State.TIMEOUT, State.REJECTED], ids=str)
@pytest.mark.parametrize("mode", Mode, ids=str)
def test_a_handoff_that_came_to_nothing_is_dashed_in_every_format(state: State, mode: Mode):
    fine = record("c:3.0", "triage", "billing", mode=mode)
    for each, dashed in ((fine, False), (replace(fine, state=state, error="no luck"), True)):
        course = course_of("c", "", [each])
        assert ("╌▶" in course_text(course)) == dashed
        assert bool(re.search(r"a0--(x|>>\+?)a1: billing: because", course_mermaid(course))) == dashed
        assert ('<path class="e x r"' in course_svg(course)) == dashed


async def test_an_artifact_is_named_at_the_handoff_that_follows_it():
    def report(ctx: RunContext) -> Command:
        """Write the report."""
        return Command(update={"artifacts": {"report.md": "All is well."}})

    script = {"triage": [calls(("report", {})), hands_off("billing", "Yours.")], "billing": [says("Done.")]}
    async with Team([Agent("triage", tools=[report]), Agent("billing")], model=ScriptedModel(script)) as team:
        await team.run("Twice!", conversation="c")
        assert "└─▶ billing: Yours. + report.md [COMPLETE]" in await team.graph("c")
        assert ">+ report.md</text>" in await team.graph("c", format="svg")


def the_customer_is_angry(ctx: RunContext) -> bool:
    return False


async def test_the_rules_of_a_team_stand_below_its_members():
    rules = [
        Rule("calm down", if_=the_customer_is_angry, goto="billing", agents=["triage"]),
        Rule(if_=the_customer_is_angry, deny="Not now."),
    ]
    team = Team([Agent("triage", handoffs=()), Agent("billing", handoffs=())], model=ScriptedModel({}), rules=rules)
    told = "calm down: goes to billing when the customer is angry (while triage is active)"
    assert (await team.graph()).splitlines()[-3:] == [
        "rules",
        f"  ├─ {told}",
        "  └─ deny Not now. when the customer is angry",
    ]
    assert (await team.graph(format="mermaid")).splitlines()[-1].startswith(f'  rules>"{told}<br/>')
    drawn = await team.graph(format="svg")
    assert "rule calm down: goes to billing when the customer is angry" in drawn
    assert '<rect class="c u"' not in drawn  # the rule leads to billing


async def test_a_rolled_back_handoff_is_drawn_as_returned_to_its_sender():
    script = {"triage": [hands_off("billing", "Yours.")], "billing": [hands_off("research", "No, yours.")]}
    model = ScriptedModel({**script, "research": [says("Hm.")]})
    async with Team([Agent(id) for id in ("triage", "billing", "research")], model=model) as team:
        await team.run("Twice!", conversation="c")
        await team.rollback("c:3.0", reason="a mistake")
        drawn = course_text(course_of("c", "", await team.handoffs("c"))).splitlines()
    assert drawn[2:4] == ["triage", "  └─▶ billing: Yours. [RETURNED: a mistake]"]
    assert drawn[4:] == ["billing", "  └─▶ research: No, yours. [RETURNED: a mistake]", "research", "triage"]


async def test_a_team_draws_itself_and_its_conversations():
    script = {"triage": [hands_off("billing", "Yours.")], "billing": [says("Done.")]}
    team = Team([Agent("triage"), Agent("billing")], model=ScriptedModel(script))
    await team.run("Twice!", conversation="c")
    assert (await team.graph()).startswith("triage (start)\n  └─ hands to  billing")
    assert "└─▶ billing: Yours." in await team.graph("c")
    assert (await team.graph(format="mermaid")).startswith("flowchart")
    assert ET.fromstring(await team.graph("c", format="svg")) is not None
    with pytest.raises(ConversationNotFound):
        await team.graph("none")


def test_a_delegate_that_a_person_answered_was_not_declined():
    record = HandoffRecord(
        *("c:3.0", "triage", "ana", "legal?", Mode.DELEGATE, State.RETURNED, 1.0, "t", {}, "full", "r", "")
    )
    assert course_text(course_of("c", "", [record])).splitlines()[-1] == "  └─▶ asks ana: legal? [RETURNED]"


def test_people_look_different_from_agents():
    members: list[Member] = [
        Person("ana", description="Our lawyer"),
        Person("ben"),
        Agent("desk", handoffs=["ana", delegate("ben", alternatives=["ana"])]),
    ]
    plan = plan_of(Team(members, model=ScriptedModel({}))._world.roster)
    assert team_text(plan).splitlines()[:6] == [
        "ana (person, start): Our lawyer",
        "",
        "ben (person)",
        "",
        "desk",
        "  ├─ hands to  ana by handoff",
    ]
    assert team_text(plan).splitlines()[6:] == ["  └─ asks      ben by delegate_to_ben, else ana"]
    assert re.findall(r"^  (a\d.+)$", team_mermaid(plan), re.M)[:3] == ['a0{{"ana"}}', 'a1{{"ben"}}', 'a2["desk"]']
    assert re.findall(r'<rect class="(c[^"]*)"', team_svg(plan)) == ["c s h", "c h", "c u"]  # no way to the desk


def test_an_agent_that_may_ask_for_a_specialist_is_drawn_with_all_candidates():
    members: list[Member] = [
        Agent("desk", handoffs=[specialist(), specialist(name="ask_law", among=["lawyer"])]),
        Agent("lawyer", handoffs=()),
        Agent("shy", accepts_handoffs=False, handoffs=()),
        Person("ana"),
    ]
    plan = plan_of(Team(members, model=ScriptedModel({})).roster)
    assert team_text(plan).splitlines()[1:3] == [
        "  ├─ asks      lawyer, ana by handoff_to_specialist",
        "  └─ asks      lawyer by ask_law",
    ]
    assert re.findall(r"^  (a0 .+)$", team_mermaid(plan), re.M) == [
        'a0 -.->|"handoff_to_specialist"| a1',
        'a0 -.->|"handoff_to_specialist"| a3',
        'a0 -.->|"ask_law"| a1',
    ]
    assert team_svg(plan).count('<path class="e r"') == 2  # both ways to the lawyer are one arrow


def test_an_agent_that_may_ask_for_a_specialist_without_candidates_is_drawn_alone():
    plan = plan_of(Team([Agent("desk", handoffs=[specialist()])], model=ScriptedModel({})).roster)
    assert team_text(plan).splitlines()[1:] == ["  └─ asks      no agent by handoff_to_specialist"]
    assert ET.fromstring(team_svg(plan)) is not None


async def test_a_call_that_was_refused_before_an_offer_is_drawn_as_tried():
    script = {"a": [hands_off("nobody", "Yours."), hands_off("b", "Then yours.")], "b": [says("Done.")]}
    async with Team([Agent("a"), Agent("b")], model=ScriptedModel(script)) as team:
        await team.run("Go", conversation="c")
        course = course_of("c", "", await team.handoffs("c"), (), await team.history("c"))
        drawn = (await team.graph("c")).splitlines()
        svg, mermaid = await team.graph("c", format="svg"), await team.graph("c", format="mermaid")
    refused, handed = course.steps
    assert (refused.sender, refused.receiver, refused.declined, refused.broken) == ("a", "nobody", True, True)
    assert (handed.receiver, handed.broken) == ("b", False)
    assert drawn[3].startswith("  ├╌▶ tried nobody: not offered [refused: no agent is called 'nobody';")
    assert "to nobody" in svg
    assert "--x" in mermaid


async def test_a_handoff_that_a_person_rejected_is_drawn_as_tried():
    script = {"a": [hands_off("b", "Yours."), says("I will.")]}
    members: list[Member] = [Agent("a", handoffs=[handoff("b", approval=True)]), Agent("b")]
    async with Team(members, model=ScriptedModel(script), ask=lambda request: Reject("no")) as team:
        await team.run("Go", conversation="c")
        assert "╌▶ tried b: not offered [refused: rejected by" in await team.graph("c")
