"""The sign-in page, and pages that follow the role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.databases import empty_file
from tests.server.process import ADMIN, Server, serving, until
from tests.ui.people import Person

CHARGED = "I was charged twice for order 1042."


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that asks for a token."""
    store: Path = tmp_path_factory.mktemp("guarded") / "store.db"
    with serving(f"sqlite:///{empty_file(store)}", "--token", ADMIN, team="tests/ui/desk.py:team") as found:
        yield found


def token(server: Server, **of: object) -> str:
    with server.client() as api:
        secret: str = api.post("/tokens", json=of).raise_for_status().json()["secret"]
        return secret


def sign_in(page: Page, secret: str) -> None:
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Sign in").click()


def test_a_page_without_a_token_leads_to_the_sign_in_and_back(page: Page, guarded: Server):
    person = Person(page, guarded.url)
    person.open("/approvals?show=decided")
    expect(page).to_have_title("Sign in · Changeover")
    sign_in(page, "wrong")
    expect(page.get_by_role("alert")).to_be_visible()
    sign_in(page, ADMIN)
    expect(page).to_have_url(f"{guarded.url}/approvals?show=decided")
    expect(page.locator("#decide")).to_contain_text("Requests to people appear here")


def test_the_sign_in_leads_to_no_other_host(page: Page, guarded: Server):
    page.goto(f"{guarded.url}/sign-in?next=//example.org/")
    sign_in(page, ADMIN)
    expect(page).to_have_url(f"{guarded.url}/chat")


def test_a_viewer_reads_and_finds_no_button_that_is_refused(context: BrowserContext, guarded: Server):
    with guarded.client() as api:
        id = api.post("/conversations", json={"text": CHARGED}).raise_for_status().json()["conversation"]
    page = context.new_page()
    person = Person(page, guarded.url)
    person.open(f"/chat/{id}")
    sign_in(page, token(guarded, user="vera", role="viewer", everything=True))
    person.reads("Routed to Billing")
    expect(page.get_by_placeholder("Your role reads conversations and cannot write.")).to_be_disabled()
    expect(person.request()).to_contain_text("Your role may read this, not decide it.")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_title("Sign in · Changeover")


def test_a_viewer_reads_a_run_and_can_neither_cancel_it_nor_roll_it_back(context: BrowserContext, guarded: Server):
    with guarded.client() as api:
        id = api.post("/conversations", json={"text": CHARGED}).raise_for_status().json()["conversation"]
        until(lambda: api.get(f"/conversations/{id}").json()["status"] == "waiting")
        [handoff] = api.get(f"/conversations/{id}/handoffs").json()["items"]
    secret = token(guarded, user="vito", role="viewer", everything=True)
    for shown, role in ((0, secret), (1, ADMIN)):
        context.clear_cookies()
        page = Person(context.new_page(), guarded.url).open(f"/runs/{id}")
        sign_in(page, role)
        page.locator(".edge.transfer .why").click()
        expect(page.locator("#inspector")).to_contain_text("Accepted after")
        expect(page.get_by_role("button", name="Cancel run")).to_have_count(shown)
        expect(page.locator("#inspector summary", has_text="Roll back")).to_have_count(shown)
    with guarded.client(secret) as api:
        for verb in (f"/conversations/{id}/cancel", f"/handoffs/{handoff['id']}/rollback"):
            assert api.post(verb, json={}).status_code == 403
        assert api.get(f"/conversations/{id}").json()["status"] == "waiting"
