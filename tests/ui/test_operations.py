"""The pages of operators: metrics, router, queue and settings."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.databases import empty_file
from tests.server.process import ADMIN, Server, serving
from tests.ui.operations import sow
from tests.ui.test_access import token
from tests.ui.test_safety import violations

PAGES = ("metrics", "router", "queue", "bus", "schedules", "settings")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on a store with a day of conversations, which asks for a token."""
    store = f"sqlite:///{empty_file(tmp_path_factory.mktemp('operations') / 'store.db')}"
    asyncio._set_running_loop(None)
    asyncio.run(sow(store, 72))
    with serving(store, "--token", ADMIN, "--rate", "0", team="tests/ui/operations.py:team") as found:
        yield found


@pytest.fixture(autouse=True)
def still(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")


def opened(page: Page, server: Server, path: str, secret: str = ADMIN) -> Page:
    """A page, as the holder of this token sees it."""
    page.request.post(f"{server.url}/api/v1/session", data={"token": secret})
    page.goto(f"{server.url}/{path}")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    return page


def asked(server: Server, path: str) -> Any:
    with server.client() as api:
        return api.get(path).raise_for_status().json()


def panel(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def test_the_dashboard_shows_the_figures_of_the_api_and_the_same_numbers_as_a_table(page: Page, desk: Server):
    found = asked(desk, "/metrics?window=86400")
    opened(page, desk, "metrics")
    runs = sum(found["depths"].values())
    expect(page.locator(".kpi").filter(has_text="Runs").first).to_contain_text(f"{runs}")
    expect(page.locator(".kpi", has_text="Deadlocks")).to_contain_text(str(found["totals"]["deadlocks"]))
    triage = panel(page, "Tokens and cost per agent").locator("li", has_text="Triage")
    expect(triage).to_contain_text(f"{found['agents']['triage']['tokens']:,}")
    row = panel(page, "Agents").locator("tr", has_text="Goodwill")
    expect(row).to_contain_text("0.0 %")
    expect(row).to_contain_text(str(found["agents"]["goodwill"]["rejected"]))
    expect(panel(page, "Limits reached")).to_contain_text("max_turns")
    expect(panel(page, "Queue")).to_contain_text("0 live workers")
    shown = panel(page, "Handoffs per run")
    shown.get_by_text("Numbers", exact=True).click()
    cells = shown.locator("tbody tr").all_inner_texts()
    assert [re.findall(r"\d+", each)[-1] for each in cells] == [str(each) for each in found["depths"].values()]
    assert shown.locator("svg rect.done").count() == len(cells)


def test_a_click_on_a_figure_shows_its_runs(page: Page, desk: Server):
    found = asked(desk, "/metrics?window=86400")
    opened(page, desk, "metrics")
    count = found["agents"]["goodwill"]["rejected"]
    panel(page, "Agents").locator("tr", has_text="Goodwill").get_by_role("button", name=str(count)).last.click()
    runs = page.get_by_role("dialog").locator("li")
    expect(runs).to_have_count(count)
    expect(runs.first).to_contain_text("may send back 100 EUR at most")
    assert violations(page) == []
    runs.first.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/(chat|runs)/c-\d+"))


def test_new_runs_change_the_figures_by_themselves_and_a_range_of_time_narrows_them(page: Page, desk: Server):
    opened(page, desk, "metrics")
    before = sum(asked(desk, "/metrics?window=86400")["depths"].values())
    expect(page.locator(".kpi").first).to_contain_text(f"{before}")
    with desk.client() as api:
        api.post("/conversations", params={"wait": "true"}, json={"text": "plain words"}).raise_for_status()
    expect(page.locator(".kpi").first).to_contain_text(f"{before + 1}", timeout=20_000)
    page.get_by_role("link", name="1 hour").click()
    expect(page).to_have_url(re.compile("range=1h"))
    found = asked(desk, "/metrics?window=3600")
    expect(page.locator("#span")).to_have_text("Last 1 hour")
    expect(panel(page, "Tokens and cost per agent")).to_contain_text(f"{found['totals']['tokens']:,} tokens")


def test_an_operator_resets_a_breaker(page: Page, desk: Server):
    opened(page, desk, "metrics", token(desk, user="olga", role="operator", everything=True))
    breakers = panel(page, "Circuit breakers")
    breakers.get_by_role("button", name="Reset Carrier").click()
    page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    expect(breakers).to_contain_text("closed")
    assert asked(desk, "/audit?action=breakers.reset")["items"][0]["actor"] == "olga"


def test_a_stuck_ticket_is_given_to_another_agent(page: Page, desk: Server):
    opened(page, desk, "queue")
    total = asked(desk, "/queue")["total"]
    stuck = page.locator(".stuck").first
    expect(stuck).to_contain_text("No worker serves Fraud check.")
    stuck.get_by_role("button", name="Give to another").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Agent").select_option(label="Research")
    dialog.get_by_role("button", name="Give it to this agent").click()
    expect(page.locator("#count")).to_contain_text(f"{total - 1} open tickets")
    handed = asked(desk, "/handoffs?receiver=research&sender=triage")["items"][0]
    assert handed["retry_of"]


def test_tickets_are_retried_and_cancelled(page: Page, desk: Server):
    opened(page, desk, "queue")
    with desk.client() as api:
        [claimed] = api.post("/claims", json={"agent": "fraud", "by": "fraud-1", "lease": 300}).json()
    held = page.get_by_role("region", name="Claimed").locator("li")
    expect(held).to_contain_text("fraud-1")
    expect(page.locator("#workers")).to_contain_text("holds 1 ticket")
    held.get_by_role("button", name="Retry").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    expect(held).to_have_count(0)
    total = asked(desk, "/queue")["total"]
    page.get_by_role("region", name="Waiting").get_by_role("button", name="Cancel").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Why").fill("not needed any more")
    dialog.get_by_role("button", name="Cancel the ticket").click()
    expect(page.locator("#count")).to_contain_text(f"{total - 1} open tickets")
    expect(page.get_by_role("region", name="Ended")).to_contain_text("not needed any more")
    assert claimed["ticket"]["agent"] == "fraud"


def test_an_experiment_says_its_sentence_before_any_chart(page: Page, desk: Server):
    view = asked(desk, "/experiments/context")
    opened(page, desk, "router")
    shown = panel(page, "context")
    expect(shown.locator(".says")).to_contain_text(view["verdicts"][0]["sentence"])
    expect(shown.locator("svg .span").first).to_be_visible()
    shown.get_by_role("button", name="Tokens").click()
    expect(shown.locator(".says")).to_contain_text(view["verdicts"][1]["sentence"])
    shown.get_by_text("Numbers", exact=True).click()
    expect(shown.locator(".numbers tbody tr")).to_have_count(5)


def test_an_admin_resets_what_the_router_learned(page: Page, desk: Server):
    opened(page, desk, "router")
    expect(panel(page, "Weights")).to_contain_text("Technical")
    page.get_by_role("button", name="Forget parcels").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget it").click()
    expect(panel(page, "Weights")).to_contain_text("Nothing is learned yet")


def test_a_token_is_made_shown_once_and_revoked(page: Page, desk: Server):
    opened(page, desk, "settings")
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("User", exact=True).fill("wall screen")
    dialog.locator("[name=role]").select_option("worker")
    dialog.get_by_role("button", name="Make the token").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the token of a worker names the agents")
    dialog.locator("[name=role]").select_option("viewer")
    dialog.get_by_role("button", name="Make the token").click()
    expect(dialog.locator(".secret")).to_contain_text("chg_")
    secret = dialog.locator(".secret").inner_text()
    assert violations(page) == []
    dialog.get_by_role("button", name="Done").click()
    with desk.client(secret) as api:
        assert api.get("/me").json()["user"] == "wall screen"
    page.get_by_role("button", name="Revoke the token of wall screen").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(panel(page, "Audit").locator("li").first).to_contain_text("revoked the token of wall screen")
    expect(panel(page, "Tokens")).not_to_contain_text("wall screen")
    assert violations(page) == []
    with page.expect_download() as saved:
        page.get_by_role("link", name="Export everything").click()
    assert saved.value.suggested_filename == "operations.ndjson"


def test_a_viewer_finds_no_button_that_is_refused(context: BrowserContext, desk: Server):
    secret = token(desk, user="vera", role="viewer", everything=True)
    changing = re.compile("Reset|Give|Retry|Cancel|Forget|New token|Revoke|Export|Send again|Publish an|Run now|Pause")
    page = context.new_page()
    for path in PAGES:
        opened(page, desk, path, secret)
        expect(page.locator("main h1")).to_be_visible()
        expect(page.get_by_role("button", name=changing)).to_have_count(0)
        expect(page.get_by_role("link", name=changing)).to_have_count(0)
    expect(page.get_by_text("Your role is viewer.")).to_be_visible()


@pytest.mark.parametrize("path", ["metrics", "router", "queue"])
def test_pages_of_operators_have_no_violation(page: Page, desk: Server, path: str):
    opened(page, desk, path)
    for each in page.locator("#body details").all():
        each.evaluate("element => (element.open = true)")
    assert violations(page) == []


def test_an_event_opens_to_what_each_subscriber_did_and_a_dead_letter_is_sent_again(page: Page, desk: Server):
    opened(page, desk, "bus")
    page.get_by_role("button", name="Publish an event").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type").fill("order.returned")
    dialog.get_by_label("Data").fill("{lost}")
    dialog.get_by_role("button", name="Publish").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is not JSON")
    dialog.get_by_label("Data").fill('{"order": "987", "parcel": "lost"}')
    dialog.get_by_role("button", name="Publish").click()
    letters = panel(page, "Dead letters")
    expect(letters).to_contain_text("LookupError: no parcel of order 987 has arrived")  # it comes by itself
    inside = page.locator(".events .inside")
    expect(inside.locator(".deliveries li")).to_contain_text("2 attempts")
    expect(inside).to_contain_text('"parcel": "lost"')
    expect(page.locator("#subscribers")).to_contain_text("1 dead letter")
    expect(page.locator(".events .open .went > span")).to_have_attribute("title", "Returns desk")
    assert violations(page) == []
    letters.get_by_role("button", name="Send again to Returns desk").click()
    page.get_by_role("dialog").get_by_role("button", name="Send again").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert len(asked(desk, "/audit?action=bus.resend")["items"]) == 1


def test_a_schedule_is_run_now_and_paused(page: Page, desk: Server):
    opened(page, desk, "schedules")
    expect(page.locator(".plans .when")).to_contain_text(["every Monday at 07:00", "every day at 02:30"])
    page.get_by_role("button", name="weekly-report").click()
    inside = page.locator(".plans .inside")
    expect(panel(page, "Next runs").locator("li")).to_have_count(5)
    inside.get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    inside.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".plans .pill", has_text="paused")).to_be_visible()
    assert violations(page) == []
    inside.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(panel(page, "Next runs").locator("li")).to_have_count(5)
