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
    state(page, "gift", "skipped")
    state(page, "report", "waits")
    expect(page.get_by_role("button", name=re.compile("^Retry"))).to_have_count(0)
    expect(page.get_by_role("link", name="decide")).to_be_visible()
    decide(page, server)
    state(page, "decide", "failed")
    state(page, "report", "not begun")
    expect(page.locator(".flowcard")).to_contain_text("the line is down")
    page.get_by_role("button", name="Retry decide").press("Enter")
    state(page, "decide", "waits for a person")
    state(page, "report", "waits")
    expect(page.locator("#status")).to_contain_text("Waiting")


def test_workflows_are_accessible_in_both_themes_and_on_a_phone(person: Person, server: Server):
    with server.client(None) as api:
        given = {"inputs": {"words": "please"}, "conversation": "parcels-seen"}
        api.post("/workflows/parcels/runs", params={"wait": True}, json=given).raise_for_status()
    for theme in ("light", "dark"):
        person.page.emulate_media(color_scheme=theme)
        for path in ("/workflows", "/workflows/parcels", "/runs/parcels-seen"):
            page = person.open(path)
            page.wait_for_selector("body:not(:has([aria-busy]))")
            page.wait_for_selector(".flows, .flow")
            assert violations(page) == [], (theme, path)
            page.set_viewport_size({"width": 390, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
            page.set_viewport_size({"width": 1280, "height": 800})
