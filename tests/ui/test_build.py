"""The builders: tools and agents declared in the browser, from the first agent to the next run."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from changeover.documents.tool_document import TYPES
from tests.databases import empty_file
from tests.server.document_faults import CASES
from tests.server.process import ADMIN, Server, started
from tests.ui.builder import Builder, signed_in, someone_else, token
from tests.ui.people import Person
from tests.ui.test_safety import violations

PINGS = Path(__file__).parent / "pings.py"
TEAM = """
agents:
  desk: {description: Answers first, tools: [handoff_to_sales], instructions: Be short.}
  sales: {description: Sells things, handoffs: []}
tools:
  handoff_to_sales: {type: handoff, to: sales, description: For buyers., variables: [lead_id]}
  get_order: {type: http_api, url: 'https://api.example.org/orders/{id}', parameters: [id]}
start: desk
name: shop
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with tokens, whose team is all in its store."""
    store = f"sqlite:///{empty_file(tmp_path_factory.mktemp('shop') / 'store.db')}"
    options = ("--token", ADMIN, "--rate", "0")
    with started(store, *options, team="tests/ui/blank.py:team", lease=30.0) as found:
        yield found


@pytest.fixture
def builder(context: BrowserContext, shop: Server) -> Builder:
    return signed_in(context, shop)


def declare(server: Server, kind: str, name: str, **document: object) -> None:
    with server.client() as api:
        api.put(f"/declarations/{kind}/{name}", json=document).raise_for_status()


@pytest.fixture(scope="module")
def stocked(shop: Server) -> Server:
    """The shop with a desk, a sales agent, a handoff between them and a request."""
    with shop.client() as api:
        api.post("/import", json={"text": TEAM, "write": True}).raise_for_status()
    return shop


def test_a_team_is_built_in_the_browser_and_the_next_run_uses_what_changes(builder: Builder, shop: Server):
    page = builder.page
    builder.agent("sdr", Name="SDR", What_others_hand_to_it_for="Sales outreach")
    builder.agent("front", Name="Front desk", System_prompt="Find out what is needed.")
    page.get_by_role("button", name="Start here").click()
    expect(page.get_by_role("button", name="Start here")).to_have_count(0)

    builder.open("/tools?new=handoff")
    builder.fill(Name="handoff_to_sdr", When_to_use_it="For qualified leads.")
    page.get_by_label("Target agent", exact=True).select_option("sdr")
    builder.fill(Instructions_for_the_handover="Write to the lead today.")
    builder.variable("lead_id")
    builder.variable("campaign_type", required=False)
    expect(page.locator("#seen pre")).to_contain_text('"campaign_type"')
    shown = json.loads(page.locator("#seen pre").inner_text())
    builder.save()
    builder.saved(1)
    page.get_by_label("Agent that gets it").select_option("front")
    page.get_by_role("button", name="Give", exact=True).click()
    expect(page.get_by_role("region", name="Used by").get_by_role("link", name="Front desk")).to_be_visible()
    builder.open("/agents/front")
    page.locator("#seen summary", has_text="handoff_to_sdr").click()
    assert json.loads(page.locator("#seen details[open] pre").inner_text()) == shown

    person = Person(page, shop.url)
    first = person.begin("A lead for spring.")
    person.reads("Routed to SDR")
    person.reads("sdr follows up.")
    page.locator("details.hand summary").click()
    person.reads("L-7")
    expect(page.locator("#context")).to_contain_text("campaign_type")
    with shop.client() as api:
        front, sdr = sorted(
            api.get("/tasks", params={"conversation": first}).json()["items"], key=lambda each: each["id"]
        )
        assert (front["agent"], sdr["agent"], sdr["parent_id"]) == ("front", "sdr", front["id"])
        merged = {key: value for key, value in sdr["context"].items() if not key.startswith("_")}
        assert merged == {"lead_id": "L-7", "campaign_type": "spring"}

    builder.open(f"/runs/{first}")
    expect(page.locator(".hop .name")).to_have_text(["Front desk", "SDR"])
    expect(page.locator("#context")).to_contain_text("lead_id")
    expect(page.locator("#context")).to_contain_text("L-7")

    builder.open("/tools/handoff_to_sdr")
    builder.variable("budget", "integer")
    builder.save()
    builder.saved(2)
    person.begin("Another lead.")
    person.reads("sdr follows up.")
    page.locator("details.hand summary").click()
    expect(page.locator("details.hand")).to_contain_text("budget")
    expect(page.locator("details.hand")).to_contain_text("500")


HANDOFF = [
    ("Name", "two words", "has an unusable name; use letters, digits, '-' and '_', at most 64"),
    ("Name", "9lives", "which providers refuse"),
    ("Timeout in seconds", "-1", "expected seconds above 0, or null for no limit, found -1"),
    ("Only while this function is true", "os:system", "os:system cannot be imported"),
    ("What the result must be: a JSON schema, or output, criteria and timeout", "[1]", "expected"),
]
OTHERS = {
    "http_api": [
        ("URL", "orders", "has url='orders'; give one that begins with https:// or http://"),
        ("Retries", "-2", "has retries=-2; use 0 or a whole number above it"),
    ],
    "mcp_server": [("or URL", "ftp://x", "has url='ftp://x'; give one that begins with https:// or http://")],
    "sql_function": [
        ("Database", "", "needs database=, a reference such as '${DATABASE_URL}', or rest="),
        ("Most rows", "0", "expected a whole number above 0, found 0"),
    ],
    "internal": [("Python function", "os:system", "'os' is not among the modules that documents may name")],
}


def wrong(builder: Builder, cases: list[tuple[str, str, str]]) -> None:
    page = builder.page
    page.evaluate("document.querySelectorAll('#work details').forEach(each => (each.open = true))")
    for label, value, message in cases:
        field = page.get_by_label(label, exact=True)
        before = field.input_value()
        field.fill(value)
        builder.save()
        place = page.locator(".entry", has=field).last
        expect(place.locator(".fault").last).to_contain_text(message)
        field.fill(before)


def test_each_fault_of_a_handoff_stands_at_its_field(builder: Builder, stocked: Server):
    page = builder.open("/tools?new=handoff")
    builder.save()
    expect(builder.fault("Name")).to_contain_text("has an unusable name")
    builder.fill(Name="handoff_to_buyers")
    expect(builder.fault("Target agent")).to_contain_text("'to' is missing")
    page.get_by_label("Target agent", exact=True).select_option("sales")
    expect(page.locator(".fault:visible")).to_have_count(0)
    wrong(builder, HANDOFF)
    builder.variable("order id")
    expect(page.locator(".entry", has_text="Add variable").locator(".fault")).to_contain_text(
        "has a variable called 'order id'; use letters, digits and underscores"
    )
    expect(page.locator('.vrow [aria-invalid="true"]')).to_have_value("order id")
    page.get_by_label("Remove this row").click()
    expect(page.locator(".fault:visible")).to_have_count(0)
    assert "handoff_to_buyers" not in [each["name"] for each in listed(stocked)]


@pytest.mark.parametrize("type", OTHERS)
def test_each_fault_of_a_tool_stands_at_its_field(builder: Builder, stocked: Server, type: str):
    builder.open(f"/tools?new={type}")
    builder.fill(Name="a_tool")
    if type == "http_api":
        builder.fill(URL="https://example.org/orders")
    wrong(builder, OTHERS[type])
    if type == "http_api":
        builder.fill(Token="secret-token-0123456789")
        secret = builder.page.locator(".entry", has_text="Authentication").locator("> .fault")
        expect(secret).to_contain_text("has a literal token; name an environment variable that holds it")
        builder.fill(Token="", URL="https://example.org/{id}")
        unknown = "uses {id}, which is not among its parameters"
        expect(builder.page.locator(".entry", has_text="Parameters").locator(".fault")).to_contain_text(unknown)
        builder.variable("id")
        expect(builder.page.locator("#seen pre")).to_contain_text('"name": "a_tool"')


def test_each_fault_of_an_agent_stands_at_its_field(builder: Builder, stocked: Server):
    with stocked.client() as api:  # the first model name that a server reads makes it load the providers
        api.post("/drafts/agent/clerk", json={"document": {"model": "nothing"}}).raise_for_status()
    page = builder.open("/agents/?new")
    builder.save()
    expect(builder.fault("Id")).to_contain_text("has an unusable name")
    builder.fill(Id="clerk")
    cases = [
        ("Model", "nothing", "which names no known provider; write provider:model"),
        ("Tasks at a time", "0", "expected a whole number above 0, found 0"),
        ("Settings of the model, as JSON", "5", "expected a mapping of settings, found 5"),
        ("Template that introduces a handoff to it", "{no_such_part}", "no_such_part"),
    ]
    wrong(builder, cases)
    page.get_by_label("Tools", exact=True).select_option("get_order")
    expect(page.locator("#seen")).to_contain_text("get_order")


FORMS = {"agent": "/agents/?new"} | {each: f"/tools?new={each}" for each in CASES if each in TYPES}
HIDDEN = {"agent": {"accepts", "function", "output", "person", "checks"}, "http_api": {"max_bytes"}}
"""Keys that a form does not show; what is wrong with them stands below it."""


@pytest.mark.parametrize("editor", FORMS)
def test_every_fault_of_the_library_is_shown_at_its_field(builder: Builder, stocked: Server, editor: str):
    """The server's answers to these drafts are tested beside it; here all of them come at once."""
    ways = ("Delegate, comes back", "Let the router choose") if editor == "handoff" else ()
    faults = {(path, words) for _, _, path, words in CASES[editor]}
    told = [{"path": path, "text": words} for path, words in sorted(faults)]
    drafted = {"faults": told, "tools": [], "prompt": None}
    builder.page.route("**/api/v1/drafts/**", lambda route: route.fulfill(json=drafted))
    page = builder.open(FORMS[editor])
    seen, shown = set[tuple[str, str]](), dict[str, str]()
    for way in (None, *ways):
        if way:
            page.locator(".segments span", has_text=way).click()
        builder.save()
        expect(page.locator(".fault:visible").first).to_be_visible()
        shown = page.evaluate(SHOWN)
        seen |= {(path, words) for path, words in faults if path and words in shown.get(_top(path), "")}
    below = {(path, words) for path, words in faults if _top(path) in {"", *HIDDEN.get(editor, ())}}
    assert faults - seen == below
    assert all(words in shown[""] for _, words in below)


SHOWN = """() => Object.fromEntries([...document.querySelectorAll(".form > * [data-key], .editor > [data-key]")]
  .filter(each => !each.parentElement.closest("[data-key]"))
  .map(each => [each.dataset.key, [...each.querySelectorAll(".fault")].map(one => one.textContent).join(" ")])
  .concat([["", document.querySelector(".rest-faults").textContent]]))"""
"""The faults that are shown at each field, and below the form."""


def _top(path: str) -> str:
    return re.split(r"[.\[]", path)[0]


def test_the_tools_of_an_mcp_server_are_discovered_on_the_page(builder: Builder, stocked: Server):
    page = builder.open("/tools?new=mcp_server")
    builder.fill(Name="pings")
    page.get_by_label("Command, one argument in a line").fill("no-such-program")
    discover = page.get_by_role("button", name="Discover its tools")
    discover.click()
    said = page.get_by_role("region", name="Its tools").get_by_role("status")
    expect(said).to_contain_text("no-such-program", timeout=30_000)
    page.get_by_label("Command, one argument in a line").fill(f"{sys.executable}\n{PINGS}")
    discover.click()
    expect(said).to_contain_text("It offers 1 tool.", timeout=30_000)
    expect(said).to_contain_text("pings_ping")
    expect(page.locator("#seen pre")).to_contain_text('"name": "pings_ping"')
    with stocked.client() as api:
        [noted, *_] = api.get("/audit", params={"action": "tool.discover"}).json()["items"]
    assert noted["subject"] == "pings"


def test_the_editors_of_what_is_saved_have_no_violation(builder: Builder, stocked: Server):
    for path in ("/tools/get_order", "/tools/handoff_to_sales", "/agents/desk"):
        page = builder.open(path)
        expect(page.locator(".form")).to_be_visible()
        page.evaluate("document.querySelectorAll('#work details').forEach(each => (each.open = true))")
        expect(page.locator(".versions li").first).to_be_visible()
        assert violations(page) == []


def listed(server: Server) -> list[dict[str, object]]:
    with server.client() as api:
        items: list[dict[str, object]] = api.get("/tools").json()["items"]
        return items


def test_of_two_people_the_second_is_told_and_nothing_is_lost(builder: Builder, browser: Browser, stocked: Server):
    declare(stocked, "tool", "handoff_to_two", type="handoff", to="sales", description="As it was.")
    other = someone_else(browser, stocked, token(stocked, user="ben", role="admin"))
    page = builder.open("/tools/handoff_to_two")
    builder.fill(When_to_use_it="What I write.")
    other.open("/tools/handoff_to_two")
    other.fill(When_to_use_it="What Ben writes.")
    other.save()
    other.saved(2)
    expect(page.get_by_role("alert").first).to_contain_text("ben saved version 2")
    builder.save()
    expect(page.get_by_role("alert").first).to_contain_text("Nothing of yours is lost")
    expect(page.get_by_label("When to use it")).to_have_value("What I write.")
    page.get_by_role("button", name="Show what differs").click()
    expect(page.locator("dialog .minus")).to_contain_text("What Ben writes.")
    expect(page.locator("dialog .plus")).to_contain_text("What I write.")
    page.get_by_role("dialog").get_by_role("button", name="Save mine over it").click()
    builder.saved(3)
    expect(other.page.get_by_label("When to use it")).to_have_value("What I write.")
    other.page.context.close()


def test_a_version_is_compared_and_restored(builder: Builder, stocked: Server):
    declare(stocked, "agent", "old", description="First", instructions="One\nTwo", handoffs=[])
    declare(stocked, "agent", "old", description="First", instructions="One\nThree", handoffs=[])
    page = builder.open("/agents/old")
    page.locator("#past summary").click()
    expect(page.locator(".versions li")).to_have_count(2)
    expect(page.locator(".versions li").first).to_contain_text("instructions")
    page.locator(".versions").get_by_role("button", name="Restore").click()
    expect(page.locator("dialog .plus")).to_contain_text("Two")
    page.get_by_role("button", name="Restore as v3").click()
    builder.saved(3)
    expect(page.get_by_label("System prompt")).to_have_value("One\nTwo")


def test_the_prompt_follows_each_key_and_marks_what_changes(builder: Builder, stocked: Server):
    page = builder.open("/agents/desk")
    expect(page.locator("#seen")).to_contain_text("Be short.")
    page.get_by_label("System prompt").press_sequentially("X")
    expect(page.locator("#seen .plus")).to_have_text("added: Be short.X\n")
    expect(page.locator("#seen .minus")).to_have_text("removed: Be short.\n")


def test_an_agent_is_disabled_and_enabled(builder: Builder, stocked: Server):
    page = builder.open("/agents?show=list")
    page.get_by_role("button", name="Disable sales").click()
    expect(page.get_by_role("button", name="Enable sales")).to_be_visible()
    page.get_by_role("button", name="Enable sales").click()
    expect(page.get_by_role("button", name="Disable sales")).to_be_visible()
    with stocked.client() as api:
        noted = api.get("/audit", params={"subject": "sales", "action": "agents.switch"}).json()["items"]
    assert [each["detail"]["enabled"] for each in noted[:2]] == [True, False]


def test_a_viewer_sees_no_buttons_and_the_api_refuses(browser: Browser, stocked: Server):
    secrets = [token(stocked, user=f"a {role}", role=role) for role in ("viewer", "operator")]
    secret = secrets[0]
    viewer = someone_else(browser, stocked, secret)
    page = viewer.page
    for path in ("/tools", "/tools/get_order", "/agents", "/agents?show=list", "/agents/desk", "/tools?new=handoff"):
        viewer.open(path)
        expect(page.locator("text=Loading… >> visible=true")).to_have_count(0)
        for words in ("Save", "New", "Remove", "Disable", "Enable", "Import", "Call it", "Give", "Start here"):
            assert page.locator("main").get_by_role("button", name=words).count() == 0, (path, words)
            assert page.locator("main").get_by_role("link", name=words).count() == 0, (path, words)
    viewer.open("/tools/get_order")
    expect(page.get_by_label("URL")).to_be_disabled()
    expect(page.locator("#seen")).to_contain_text("get_order")
    asked = {"document": {"type": "handoff", "to": "sales"}}
    for each in secrets:
        with stocked.client(each) as api:
            refused = [
                api.put("/declarations/tool/x", json=asked["document"]),
                api.patch("/declarations/tool/get_order", json={"state": "disabled"}),
                api.post("/drafts/tool/x", json=asked),
                api.post("/drafts/tool/x/discover", json=asked),
                api.post("/tools/get_order/test", json={}),
                api.post("/agents/desk/disable"),
                api.post("/import", json={"text": TEAM}),
            ]
        assert [answer.status_code for answer in refused] == [403] * len(refused)
    page.context.close()


def test_a_team_is_exported_and_imported(builder: Builder, stocked: Server):
    page = builder.open("/agents")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="What the store declares").click()
    text = download.value.path().read_text()
    assert "handoff_to_sales:" in text
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Import").click()
    page.get_by_label("YAML").fill("agents:\n  courier: {person: 1}\n")
    page.get_by_role("button", name="Show what would change").click()
    expect(page.locator("dialog .fault")).to_contain_text("the document, line 2, column 21: expected true or false")
    page.get_by_label("YAML").fill("agents:\n  courier: {person: true, name: Courier}\n")
    page.get_by_role("button", name="Show what would change").click()
    expect(page.locator("dialog")).to_contain_text("+ agent courier")
    page.get_by_role("button", name="Write it").click()
    expect(page.locator("#shelf")).to_contain_text("Courier")


def test_the_router_says_who_would_get_a_task_and_why(builder: Builder, stocked: Server):
    page = builder.open("/agents")
    page.get_by_label("Ask the router").fill("Who sells things?")
    page.get_by_role("button", name="Rank agents").click()
    expect(page.locator(".ranks li").first).to_contain_text("Its description mentions sells, things.")
