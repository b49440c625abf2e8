"""The shells of the pages, and the files behind them."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from playwright.sync_api import expect
from starlette.testclient import TestClient

from changeover.ui.icons import ICONS, sprite
from changeover.ui.pages import HERE, PAGES, mount_ui
from tests.ui.people import Person

STATIC = HERE / "static"
WEIGHT = """['resource', 'navigation'].flatMap(kind => performance.getEntriesByType(kind))
  .filter(each => !each.name.includes('/api/')).reduce((sum, each) => sum + each.transferSize, 0)"""
EDITORS = ["/tools?new=handoff", "/tools?new=http_api", "/agents/?new"]
SOURCES = [*STATIC.rglob("*.js"), *(HERE / "templates").glob("*.html")]


def client(root_path: str = "") -> TestClient:
    app = FastAPI()
    mount_ui(app)
    return TestClient(app, root_path=root_path)


@pytest.mark.parametrize("path", [f"/{page.name}" for page in PAGES] + ["/chat/ada/3.0", "/runs/ada", "/sign-in"])
def test_every_page_has_a_shell_whose_files_exist(path: str):
    answer = client().get(path)
    assert answer.status_code == 200
    named = re.findall(r'(?:href|src)="(/static/[^"]+)"', answer.text)
    assert len(named) >= 6
    assert all((HERE / each.lstrip("/")).is_file() for each in named)


def test_the_root_leads_to_the_chat():
    answer = client().get("/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "/chat")


def test_pages_work_below_a_prefix():
    answer = client("/desk").get("/chat")
    assert 'data-root="/desk"' in answer.text
    assert not re.search(r'(?:href|src)="/(?!desk/)', answer.text)


def test_the_sprite_holds_the_icons_that_pages_name_and_no_other():
    text = "".join(path.read_text() for path in SOURCES)
    quoted, called = (set(re.findall(rf'{before}"([a-z0-9-]+)"', text)) for before in ("", r"icon\("))
    assert called <= set(ICONS)
    assert set(ICONS) <= quoted | {page.icon for page in PAGES}
    assert len(re.findall("<symbol ", sprite())) == len(ICONS)


def test_browsers_keep_files_and_ask_whether_they_changed():
    answer = client().get("/static/js/dom.js")
    assert answer.headers["cache-control"] == "no-cache"
    assert client().get("/static/js/dom.js", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304


def test_no_script_makes_elements_but_by_one_function():
    makers = re.compile(r"innerHTML|outerHTML|insertAdjacent|document\.write|createElement|\bstyle=|eval\(")
    found = {path.name for path in STATIC.rglob("*.js") if makers.search(path.read_text())}
    assert found == {"dom.js"}
    assert not any(re.search(r"\sstyle=|\son\w+=", path.read_text()) for path in (HERE / "templates").glob("*.html"))


@pytest.mark.parametrize("path", [f"/{page.name}" for page in PAGES] + ["/runs/nowhere", "/sign-in", *EDITORS])
def test_a_page_takes_60_kb_over_the_wire(person: Person, path: str):
    page = person.open(path)
    expect(page.locator("[aria-busy]")).to_have_count(0)
    if path in EDITORS:
        expect(page.locator(".form")).to_be_visible()
    assert 5_000 < page.evaluate(WEIGHT) <= 60_000


def test_nothing_is_asked_of_other_hosts():
    for path in [*SOURCES, *STATIC.rglob("*.css")]:
        found = set(re.findall(r"https?://[^\s\"'`)]+", path.read_text()))
        assert found <= {"http://www.w3.org/2000/svg"}, path
