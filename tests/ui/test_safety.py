"""Pages show foreign text as text, and everyone can use them, in both themes and on a phone."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, ViewportSize, expect

from tests.npm import installed
from tests.server.process import Server
from tests.ui.people import Person
from tests.ui.test_approvals import ask
from tests.ui.test_runs import begun

CHARGED = "I was charged twice for order 1042."
WIDE: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
FITS = "document.documentElement.scrollWidth <= innerWidth"
STRESS = "CHANGEOVER_STRESS" in os.environ
FURTHER = ("/chat/nowhere", "/runs?q=nothing-has-this", "/runs/nowhere", "/queue", "/router")
"""Pages that have nothing to show. Under stress only, as these states of all pages are."""


QUICK = {"reporter": "no-passes", "resultTypes": ["violations"], "preload": False, "iframes": False}
"""Options of axe-core: it tells only what is broken, and asks the server for nothing."""


@cache
def axe() -> str:
    return (installed("axe-core", "4.14.0") / "axe.min.js").read_text()


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong: by all rules in the light theme, by those about colours in the dark one. Under stress
    by all rules in both themes, also on a phone."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe())
    found = _found(page, "light", WIDE) + _found(page, "dark", WIDE, {"runOnly": ["color-contrast"]})
    if STRESS:
        found += _found(page, "dark", WIDE) + _found(page, "light", PHONE) + _found(page, "dark", PHONE)
    page.set_viewport_size(PHONE)
    assert page.evaluate(FITS), "on a phone the page scrolls sideways"
    page.set_viewport_size(WIDE)
    return found


def _found(page: Page, theme: str, size: ViewportSize, options: dict[str, Any] | None = None) -> list[str]:
    page.evaluate("theme => (document.documentElement.dataset.theme = theme)", theme)
    page.set_viewport_size(size)
    assert page.evaluate(FITS), f"the page scrolls sideways at {size['width']} px"
    result = page.evaluate("options => axe.run(options)", QUICK | (options or {}))
    return [
        f"{theme} {size['width']}: {each['id']} {json.dumps([node['html'][:200] for node in each['nodes']])}"
        for each in result["violations"]
    ]


@pytest.fixture(autouse=True)
def still(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")


def test_hostile_texts_are_shown_as_text(person: Person):
    person.begin("Something hostile.")
    person.done()
    page = person.page
    for each in page.locator("#log details").all():
        each.evaluate("element => (element.open = true)")
    person.reads("<script>window.broken=1</script>")
    person.reads("[a](javascript:window.broken=1)")
    expect(page.locator("#team")).to_contain_text('<img src=x onerror="window.broken=1">')
    assert page.evaluate("window.broken") is None
    made = "#log :is(script, iframe, object, img, style), #log a:not([href^='https:'], [href^='/'])"
    assert page.locator(made).count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = page.locator("#composer").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 900


def test_hostile_texts_are_shown_as_text_on_the_page_of_a_run(person: Person, server: Server):
    page = person.open(f"/runs/{begun(server, 'Something hostile.')}")
    expect(page.locator("#body[aria-busy]")).to_have_count(0)
    expect(page.locator(".hop .name").last).to_contain_text("<img src=")
    expect(page.locator("#context")).to_contain_text("<script>window.broken=1</script>")
    expect(page.locator("#title")).to_have_text("Something hostile.")
    for name in ("repeat", "model turn", "routed to"):
        page.locator("#steps .what", has_text=name).first.click()
        expect(page.locator("#inspector")).to_contain_text("<script>window.broken=1</script>")
        for each in page.locator("#inspector details").all():
            each.evaluate("element => (element.open = true)")
        assert page.evaluate(FITS)
    page.get_by_role("button", name="Raw events").click()
    for each in page.locator("#steps details").all():
        each.evaluate("element => (element.open = true)")
    expect(page.locator("#steps")).to_contain_text("javascript:window.broken=1")
    assert page.evaluate("window.broken") is None
    assert page.locator("main :is(script, iframe, object, img, style), main a[href^='javascript:']").count() == 0
    assert page.evaluate(FITS)
    box = page.locator(".canvas").bounding_box()
    assert box is not None
    assert box["height"] <= 420


def test_a_chat_with_every_kind_of_line_has_no_violation(person: Person):
    person.begin(CHARGED)
    expect(person.request()).to_be_visible()
    for each in person.page.locator("#log details").all():
        each.evaluate("element => (element.open = true)")
    assert violations(person.page) == []
    person.page.set_viewport_size(WIDE)
    person.request().get_by_role("button", name="Edit arguments").click()
    person.request().get_by_label("amount").fill("none")
    person.request().get_by_role("button", name="Reject").click()
    assert violations(person.page) == []
    person.request().get_by_role("button", name="Reject").click()
    person.done()
    assert violations(person.page) == []


def test_delegates_and_failures_have_no_violation(person: Person):
    person.begin("Please check everything.")
    person.done()
    person.say("Please fail once.")
    person.reads("The run failed")
    assert violations(person.page) == []


@pytest.mark.parametrize("path", ["/chat", "/runs", "/sign-in", *(FURTHER if STRESS else ())])
def test_pages_have_no_violation(person: Person, path: str):
    page = person.open(path)
    expect(page.locator("[aria-busy]")).to_have_count(0)
    assert violations(page) == []


def test_the_inbox_has_no_violation(person: Person, server: Server):
    ask(server)
    ask(server, "To the library.")
    page = person.open("/approvals")
    expect(page.locator(".excerpt li").first).to_be_visible()
    assert violations(page) == []
    page.set_viewport_size(WIDE)
    page.get_by_role("link", name="Decided").click()
    assert violations(page) == []


def test_the_page_of_a_run_has_no_violation_in_any_state(person: Person, server: Server, context: BrowserContext):
    page = person.open(f"/runs/{ask(server, 'To the library.')}?step=6")
    expect(page.locator("#body[aria-busy]")).to_have_count(0)
    assert violations(page) == []
    page.locator(".edge.bad").press("Enter")
    assert violations(page) == []
    person.open(f"/runs/{ask(server)}")
    page.locator("#steps .what", has_text="model turn").nth(1).click()
    expect(page.locator("#inspector details").first).to_be_visible()
    for each in page.locator("#inspector details").all():
        each.evaluate("element => (element.open = true)")
    expect(page.locator(".sent li").first).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Raw events").click()
    page.locator("#steps summary").nth(3).click()
    context.set_offline(True)
    page.evaluate("dispatchEvent(new Event('offline'))")
    expect(page.locator("#banner")).to_contain_text("offline")
    assert violations(page) == []
    context.set_offline(False)


def test_dialogs_have_no_violation(person: Person):
    person.begin("Hello there.")
    person.done()
    person.page.locator("#scroll").focus()
    person.page.keyboard.press("l")
    expect(person.page.locator(".talks li").first).to_be_visible()
    assert violations(person.page) == []
    person.page.keyboard.press("Escape")
    person.page.locator("#scroll").focus()
    person.page.keyboard.press("?")
    assert violations(person.page) == []


def test_without_motion_nothing_moves(person: Person):
    person.begin("Please check everything slowly.")
    expect(person.page.locator(".step.live").first).to_be_visible()
    assert person.page.evaluate("document.getAnimations().length") == 0
