"""A person who builds a team in the browser, in words of the pages."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.server.process import ADMIN, Server


class Builder:
    """Opens editors and fills them in, signed in with a token."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.server.url}{path}")
        expect(self.page.locator("[aria-busy]")).to_have_count(0)
        return self.page

    def fill(self, **fields: str) -> None:
        for label, value in fields.items():
            self.page.get_by_label(label.replace("_", " "), exact=True).fill(value)

    def save(self) -> None:
        self.page.locator("#actions").get_by_role("button", name="Save").click()

    def saved(self, version: int) -> None:
        """The page shows this version, and nothing else is to be saved."""
        expect(self.page.get_by_role("button", name=f"Save as v{version + 1}")).to_be_disabled()

    def agent(self, id: str, **fields: str) -> None:
        """Declare an agent."""
        self.open("/agents/?new")
        self.fill(Id=id, **fields)
        self.save()
        self.page.wait_for_url(f"**/agents/{id}")
        self.saved(1)

    def variable(self, name: str, type: str = "string", required: bool = True) -> None:
        """Add a row to the variables."""
        self.page.get_by_role("button", name=re.compile("Add (variable|parameter)")).first.click()
        row = self.page.locator(".rowset.variables .vrow").last
        row.get_by_label("Name").fill(name)
        row.get_by_label("Type").select_option(type)
        row.get_by_label("Required").set_checked(required)

    def fault(self, label: str) -> Locator:
        """What is wrong with a field."""
        return self.page.locator(".entry", has=self.page.get_by_label(label, exact=True)).locator(".fault").last


def signed_in(context: BrowserContext, server: Server, secret: str = ADMIN) -> Builder:
    """A builder on a new page of this context."""
    context.add_cookies([{"name": "changeover_session", "value": secret, "url": server.url}])
    return Builder(context.new_page(), server)


def someone_else(browser: Browser, server: Server, secret: str = ADMIN) -> Builder:
    """Another person, with a browser of their own."""
    return signed_in(browser.new_context(), server, secret)


def token(server: Server, **of: Any) -> str:
    """A token, by its secret."""
    with server.client() as api:
        secret: str = api.post("/tokens", json=of).raise_for_status().json()["secret"]
        return secret
