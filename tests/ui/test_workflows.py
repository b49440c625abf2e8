"""Workflows in the browser: the list, the form that starts one, its steps while it runs, and a step that is retried."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.server.process import Server
from tests.ui.people import Person
from tests.ui.test_safety import violations


def state(page: Page, step: str, words: str) -> None:
    expect(page.locator(f'tr[data-step="{step}"] .pill')).to_have_text(words)
    expect(page.locator(f'g[data-step="{step}"]')).to_contain_text(words)


def decide(page: Page, server: Server) -> None:
    id = page.url.rsplit("/", 1)[1]
    with server.client(None) as api:
        [asked] = api.get("/approvals", params={"conversation": id}).json()["items"]
        api.post(f"/approvals/{asked['id']}/decision", json={"decision": {"type": "approve"}}).raise_for_status()


def test_a_workflow_is_started_by_its_form_and_its_steps_are_shown_as_they_happen(person: Person, server: Server):
    page = person.open("/workflows")
    page.get_by_role("link", name=re.compile("Late parcels")).click()
    expect(page.locator(".flow g.step")).to_have_count(5)
    expect(page.locator(".told")).to_contain_text("each of steps.collect.output.orders")
    page.get_by_label("Further inputs").fill("[1]")
    page.get_by_label("words", exact=True).fill("fail once")
    page.get_by_role("button", name="Start").press("Enter")
    expect(page.get_by_role("alert")).to_have_text("The further inputs are not an object.")
    page.get_by_label("Further inputs").fill('{"reader": "Accounts"}')
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(r"/runs/.+"))
    state(page, "decide", "waits for a person")
    state(page, "check", "done, 3 of 3")
    page.locator('tr[data-step="check"] summary', has_text="3 items").click()
    expect(page.locator('tr[data-step="check"] pre')).to_contain_text("within three days")
    expect(page.locator(".hop .name").first).to_have_text(re.compile("^Late parc"))
    state(page, "gift", "skipped")
    state(page, "report", "waits")
    expect(page.get_by_role("button", name=re.compile("^Retry"))).to_have_count(0)
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    expect(page.locator('.flow g[data-step="decide"]')).to_be_in_viewport()  # the graph has scrolled to it
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.get_by_role("link", name="decide")).to_be_visible()
    decide(page, server)
    state(page, "decide", "failed")
    state(page, "report", "not begun")
    expect(page.locator(".flowcard")).to_contain_text("the line is down")
    page.get_by_role("button", name="Retry decide").press("Enter")
    state(page, "decide", "waits for a person")
    state(page, "report", "waits")
    expect(page.locator("#status")).to_contain_text("Waiting")
    page = person.open("/workflows/parcels")
    figures = page.get_by_role("table", name="How its steps went")
    expect(figures.get_by_role("row", name=re.compile("^decide"))).to_contain_text("0.0 %")
    expect(figures.get_by_role("row", name=re.compile("^gift")).get_by_role("cell").nth(6)).to_have_text("1")


def test_workflows_are_accessible_in_both_themes_and_on_a_phone(person: Person, server: Server):
    with server.client(None) as api:
        given = {"inputs": {"words": "please"}, "conversation": "parcels-seen"}
        api.post("/workflows/parcels/runs", params={"wait": True}, json=given).raise_for_status()
    for path in ("/workflows", "/workflows/parcels", "/runs/parcels-seen"):
        page = person.open(path)
        page.wait_for_selector("body:not(:has([aria-busy]))")
        page.wait_for_selector(".flows .last .pill, .flow")
        assert violations(page) == [], path


def test_a_workflow_of_the_store_is_written_corrected_and_changed_in_the_browser(person: Person, server: Server):
    page = person.open("/workflows")
    page.get_by_text("New workflow").click()
    page.get_by_label("Id", exact=True).fill("greeting")
    document = page.get_by_label("Document, as JSON")
    document.fill("{")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").filter(has_text="The document is not JSON")).to_be_visible()
    document.fill('{"steps": [{"id": "greet", "agent": "nobody-here", "input": "{steps.gone.text}"}]}')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").filter(has_text="nobody-here")).to_contain_text("there is no step 'gone'")
    document.fill('{"steps": [{"id": "greet", "agent": "triage", "input": "Greet {inputs.name}"}]}')
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(re.compile(r"/workflows/greeting$"))
    expect(page.locator(".flow g.step")).to_have_count(1)
    expect(page.get_by_label("name", exact=True)).to_be_visible()
    with server.client(None) as api:
        theirs = {"steps": [{"id": "greet", "agent": "triage", "input": "Greet warmly"}]}
        api.put("/declarations/workflow/greeting", json=theirs).raise_for_status()
    expect(page.get_by_label("Document, as JSON")).to_have_value(re.compile("Greet warmly"))
    page.get_by_text("Versions, 2 so far").click()
    expect(page.locator(".versions li")).to_have_count(2)
    assert violations(page) == []
    page.get_by_role("button", name="Restore").click()
    page.get_by_role("button", name="Restore as v3").click()
    page.wait_for_load_state()
    expect(page.get_by_text("Versions, 3 so far")).to_be_visible()
    with server.client(None) as api:
        read = api.get("/workflows/greeting").json()
        assert read["definition"]["steps"][0]["input"] == "Greet {inputs.name}"
        api.delete("/declarations/workflow/greeting").raise_for_status()
