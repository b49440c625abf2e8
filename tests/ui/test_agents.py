"""The team as a map, tools and agents of code, and trials of tools."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from changeover.agent.agent import Agent
from changeover.agent.handoff import delegate, handoff
from changeover.messages import Reply
from changeover.observe.drawing.diagram import plan_of
from changeover.observe.drawing.team_map import team_map
from changeover.relay.ports.world import Request
from changeover.server.wire import Json
from changeover.team import Team
from changeover.testing import ScriptedModel, says
from tests.server.process import Server
from tests.ui.desk import team as desk
from tests.ui.people import Person
from tests.ui.test_safety import STRESS, violations


@pytest.fixture(autouse=True)
def still(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")


def test_a_tool_of_code_is_read_only_and_says_where_it_comes_from(person: Person):
    page = person.open("/tools/refund")
    expect(page.locator("#work")).to_contain_text("It is declared in code. Change it there: desk:refund")
    expect(page.locator("#work")).to_contain_text("needs approval")
    expect(page.get_by_role("region", name="Used by")).to_contain_text("Billing")
    expect(page.locator("#actions").get_by_role("button")).to_have_count(0)
    shown = json.loads(page.locator("#seen pre").inner_text())
    assert (shown["name"], shown["parameters"]["required"]) == ("refund", ["payment_id", "amount"])
    page.goto(f"{person.url}/tools/handoff_to_billing")
    expect(page.locator("#work")).to_contain_text("It is declared in code, with the agent Triage.")
    expect(page.get_by_role("region", name="Try it")).to_have_count(0)


def test_a_trial_is_asked_about_made_and_audited(person: Person, server: Server):
    page = person.open("/tools/payments")
    args = page.get_by_label("Arguments as JSON")
    args.fill('{"order_id": 5}')
    page.get_by_role("button", name="Call it…").click()
    expect(page.locator("dialog")).to_contain_text("The call is real")
    page.get_by_role("button", name="Call it", exact=True).click()
    expect(page.locator(".trial .fault")).to_contain_text("the arguments of payments do not fit")
    args.fill('{"order_id": "77"}')
    page.get_by_role("button", name="Call it…").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.locator(".said pre")).to_have_count(0)
    with server.client(None) as api:
        asked = {"action": "tool.test", "subject": "payments"}
        before = len(api.get("/audit", params=asked).json()["items"])
        page.get_by_role("button", name="Call it…").click()
        page.get_by_role("button", name="Call it", exact=True).click()
        expect(page.locator(".said pre")).to_have_text("order 77: pay_71 24.95 EUR, pay_72 24.95 EUR")
        assert len(api.get("/audit", params=asked).json()["items"]) == before + 1


def test_an_agent_of_code_shows_its_prompt_and_can_only_be_disabled(person: Person):
    page = person.open("/agents/billing")
    expect(page.locator("#work")).to_contain_text("It is declared in code.")
    expect(page.locator("#seen")).to_contain_text("Tools (2)")
    assert page.locator("#actions button").all_inner_texts() == ["Disable"]
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_role("button", name="Enable")).to_be_visible()
    page.get_by_role("button", name="Enable").click()
    expect(page.get_by_role("button", name="Disable")).to_be_visible()


def test_the_map_shows_ways_conditions_and_who_cannot_be_reached(person: Person):
    page = person.open("/agents")
    nodes = page.locator(".map .node")
    expect(nodes).to_have_count(len(desk.roster.seats))
    expect(page.locator('.way[data-from="triage"][data-to="billing"]')).to_contain_text("handoff_to_billing")
    expect(page.locator('.way[data-from="triage"][data-to="manager"] .asks')).to_have_text("after approval")
    expect(page.locator('.way.returns[data-from="triage"][data-to="research"]')).to_have_count(1)
    expect(page.locator(".node.lost")).to_contain_text("no way in")
    expect(page.locator(".node.lost")).to_have_attribute("data-id", "library")


def test_the_map_is_moved_and_zoomed_by_mouse_and_keys(person: Person):
    page = person.open("/agents")
    chart = page.locator("svg.map")
    expect(chart).to_have_attribute("viewBox", re.compile(r"^[-\d.]+ [-\d.]+ [\d.]+ [\d.]+$"))

    def view() -> list[float]:
        return [float(part) for part in (chart.get_attribute("viewBox") or "").split()]

    first = view()
    page.get_by_role("button", name="Zoom in").click()
    closer = view()
    assert closer[2] < first[2]
    chart.hover(position={"x": 5, "y": 5})
    page.mouse.down()
    page.mouse.move(200, 300)
    page.mouse.up()
    assert view()[:2] != closer[:2]
    chart.focus()
    chart.press("0")
    whole = view()
    chart.press("ArrowRight")
    assert view()[0] > whole[0]
    page.locator('.node[data-id="billing"]').click()
    expect(page).to_have_url(f"{person.url}/agents/billing")


def crowd(size: int) -> Team:
    """A team with tiers of agents: each hands down to three, and some delegate."""

    def reply(request: Request) -> Reply:
        return says("Done.")

    members = []
    for index in range(size):
        below = [each for each in (3 * index + 1, 3 * index + 2, 3 * index + 3) if each < size]
        ways = [handoff(f"agent-{each}") if each % 4 else delegate(f"agent-{each}") for each in below]
        members.append(Agent(f"agent-{index}", description=f"Does part {index} of the work", handoffs=ways))
    return Team(members, model=ScriptedModel(reply))


@pytest.mark.parametrize(("size", "least"), [(30, 0.7), (200, 0.7)])
def test_large_teams_are_drawn_and_readable_from_the_start(person: Person, size: int, least: float):
    drawing = Json(team_map(plan_of(crowd(size).roster), brief=True)).body
    person.page.route("**/api/v1/graph", lambda route: route.fulfill(body=drawing, content_type="application/json"))
    page = person.open("/agents")
    expect(page.locator(".map .node")).to_have_count(size)
    expect(page.locator(".map .way")).to_have_count(size - 1)
    shown = page.evaluate(
        """() => {
          const map = document.querySelector("svg.map"), box = map.getBoundingClientRect();
          const first = map.querySelector('[data-id="agent-0"]').getBoundingClientRect();
          const inside = first.left >= box.left && first.right <= box.right && first.top >= box.top;
          return { inside, scale: box.width / map.viewBox.baseVal.width };
        }"""
    )
    assert shown["inside"]
    assert shown["scale"] >= least
    page.get_by_role("button", name="Show all").click()
    fits = """() => [...document.querySelectorAll(".map .node")].every(each => {
      const [a, b] = [each.getBoundingClientRect(), document.querySelector(".mapbox").getBoundingClientRect()];
      return a.left >= b.left - 1 && a.right <= b.right + 1 && a.bottom <= b.bottom + 1; })"""
    assert page.evaluate(fits)


PAGES = ["/tools/refund", "/tools?new=handoff", "/agents", "/agents/?new"]
FURTHER = ["/tools", "/tools?new=http_api", "/agents?show=list", "/agents/billing", "/agents/nobody"]


@pytest.mark.parametrize("path", [*PAGES, *(FURTHER if STRESS else ())])
def test_the_builders_have_no_violation(person: Person, path: str):
    page = person.open(path)
    expect(page.locator("[aria-busy]")).to_have_count(0)
    expect(page.locator("main")).not_to_contain_text("Loading…", use_inner_text=True)
    if "new" in path:
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".fault:visible").first).to_be_visible()
        page.evaluate("document.querySelectorAll('#work details').forEach(each => (each.open = true))")
    assert violations(page) == []
