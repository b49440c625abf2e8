"""The inbox of requests to people."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.server.process import Server, until
from tests.ui.people import Person

CHARGED = "I was charged twice for order 1042."


def ask(server: Server, text: str = CHARGED) -> str:
    """Have a request made; returns its conversation."""
    with server.client(None) as api:
        id: str = api.post("/conversations", json={"text": text}).raise_for_status().json()["conversation"]
        until(lambda: api.get(f"/conversations/{id}").json()["status"] == "waiting")
    return id


@pytest.fixture(autouse=True)
def empty_inbox(server: Server) -> None:
    with server.client(None) as api:
        found = api.get("/approvals").json()
        for each in found["items"] if isinstance(found, dict) else found:
            api.post(f"/conversations/{each['root']}/cancel", json={})


def test_a_request_is_approved_by_keyboard_alone(person: Person, server: Server):
    id = ask(server)
    page = person.open("/approvals")
    expect(page.locator("#decide h2")).to_have_text("Send 24.95 EUR of pay_72 back to the customer")
    expect(page.locator("#waiting")).to_contain_text("1")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == "Approve":
            break
    page.keyboard.press("Enter")
    expect(page.locator(".rows .done").first).to_contain_text("Approved")
    expect(page.locator("#waiting")).to_be_hidden()
    with server.client(None) as api:
        assert until(lambda: api.get(f"/conversations/{id}").json()["status"] == "completed")


def test_a_request_shows_its_conversation_its_end_and_what_follows(person: Person, server: Server):
    ask(server)
    page = person.open("/approvals")
    expect(page.locator(".excerpt")).to_contain_text("I was charged twice")
    expect(page.locator(".then")).to_contain_text("Billing calls refund once")
    expect(page.locator("#about")).to_contain_text(re.compile(r"Expires\s*(59:\d\d|1 h)"))
    expect(page.locator("#about")).to_contain_text("Every approver and admin, you included.")
    page.get_by_label("amount").fill("20")
    expect(page.locator(".card")).to_contain_text("1 change")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    page.get_by_label("amount").fill("20")
    page.get_by_role("button", name="Approve with 1 change").click()
    expect(page.locator(".rows .done").first).to_contain_text("Approved with changes")


def test_requests_come_and_go_while_the_page_is_open(person: Person, server: Server):
    page = person.open("/approvals")
    expect(page.locator("#decide")).to_contain_text("Requests to people appear here")
    id = ask(server)
    expect(page.locator(".rows li:not(.done):not(.cap)")).to_have_count(1)
    with server.client(None) as api:
        api.post(f"/conversations/{id}/cancel", json={}).raise_for_status()
    expect(page.locator(".rows li:not(.done):not(.cap)")).to_have_count(0)


def test_several_requests_are_rejected_at_once(person: Person, server: Server):
    conversations = [ask(server) for _ in range(3)]
    page = person.open("/approvals")
    boxes = page.locator(".rows input")
    expect(boxes).to_have_count(3)
    for place in range(2):
        boxes.nth(place).check()
    page.get_by_label("Note for all").fill("Not today")
    page.get_by_role("button", name="Reject 2").click()
    expect(boxes).to_have_count(1)
    with server.client(None) as api:
        until(lambda: sum(api.get(f"/conversations/{id}").json()["status"] == "waiting" for id in conversations) == 1)
    page.get_by_role("link", name="Decided").click()
    page.locator(".rows a").first.click()
    expect(page.locator(".verdict")).to_contain_text("Not today")


def test_a_task_for_a_person_is_answered(person: Person, server: Server):
    ask(server, "Ask a colleague.")
    page = person.open("/approvals")
    expect(page.locator("#decide h2")).to_contain_text("Please call the customer.")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".request .fault")).to_have_text("Write the answer first.")
    page.get_by_label("Note", exact=True).fill("Called, all is well.")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".rows .done").first).to_contain_text("Answered")


def test_what_nobody_takes_is_handed_on(person: Person, server: Server):
    id = ask(server, "To the library.")
    page = person.open("/approvals")
    expect(page.locator("#decide h2")).to_contain_text("No agent takes what Clerk hands on")
    expect(page.locator("#about")).to_contain_text("Declined by Library: the shelves are full")
    page.get_by_label("Hand on to").select_option(label="Research")
    with server.client(None) as api:
        until(lambda: api.get(f"/conversations/{id}").json()["status"] == "completed")


def test_the_list_is_narrowed_to_an_agent(person: Person, server: Server):
    ask(server)
    ask(server, "To the library.")
    page = person.open("/approvals")
    expect(page.locator(".rows input")).to_have_count(2)
    page.get_by_label("Agent", exact=True).select_option(label="Billing")
    expect(page.locator(".rows li:not(.done):not(.cap)")).to_have_count(1)


def test_on_a_phone_the_list_is_a_page_of_its_own(person: Person, server: Server):
    ask(server)
    person.page.set_viewport_size({"width": 390, "height": 844})
    page = person.open("/approvals")
    expect(page.locator("#decide")).to_be_hidden()
    page.locator(".rows a").first.click()
    expect(page.locator("#mails")).to_be_hidden()
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    page.get_by_role("link", name="Back to the list").click()
    expect(page.locator(".rows a").first).to_be_visible()
