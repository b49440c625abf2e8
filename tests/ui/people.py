"""A person in front of a browser, in words of the pages."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from playwright.sync_api import Locator, Page, expect


class Person:
    """Opens pages, writes and decides."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url

    def open(self, path: str = "/chat") -> Page:
        self.page.goto(f"{self.url}{path}")
        return self.page

    def begin(self, text: str) -> str:
        """Begin a conversation; returns its id."""
        self.open("/chat")
        self.say(text)
        self.page.wait_for_url(re.compile(r"/chat/.+"))
        return self.conversation

    def say(self, text: str) -> None:
        box = self.page.get_by_label("Message the team")
        expect(box).to_be_enabled()
        self.page.wait_for_selector("#log:not([aria-busy])")
        box.fill(text)
        box.press("Enter")

    @property
    def conversation(self) -> str:
        return unquote(self.page.url.split("/chat/")[1])

    @property
    def log(self) -> Locator:
        return self.page.locator("#log")

    def reads(self, text: str | re.Pattern[str]) -> None:
        """The transcript holds this text."""
        expect(self.log).to_contain_text(text)

    def done(self) -> None:
        """Nothing is under way."""
        expect(self.page.locator("#now")).to_contain_text("Answers next")

    def request(self) -> Locator:
        """The open request to a person in the chat."""
        return self.page.locator(".ask:not(.done)")

    def items(self) -> list[Any]:
        """The transcript in short: the class and the first words of each item."""
        found: list[Any] = self.page.evaluate(
            "[...document.querySelectorAll('#log > *')].map(e => [e.className.trim(), e.innerText.slice(0, 60)])"
        )
        return found
