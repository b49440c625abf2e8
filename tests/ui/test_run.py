"""The run page: chain, scrubber, timeline, context, inspector, and what can be done about a run."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from playwright.sync_api import BrowserContext, Locator, Page, expect

from changeover.relay.history import fold_recorded
from changeover.relay.state import State
from changeover.stores.store import Store, open_log
from tests.server.process import Server, until
from tests.ui.people import Person
from tests.ui.test_approvals import CHARGED, ask
from tests.ui.test_runs import begun

INSIDE = """row => {
  const [inner, outer] = [row.getBoundingClientRect(), row.closest('.rows').getBoundingClientRect()];
  return inner.top >= outer.top && inner.bottom <= outer.bottom;
}"""


def run_of(person: Person, id: str, step: int = 0) -> Page:
    """Open the page of a run."""
    page = person.open(f"/runs/{id}{f'?step={step}' if step else ''}")
    expect(page.locator("#body[aria-busy]")).to_have_count(0)
    return page


def hops(page: Page) -> list[str]:
    return [each.strip() for each in page.locator(".hop .name").all_text_contents()]


def row(page: Page, text: str) -> Locator:
    return page.locator("#steps > li", has_text=text)


def at(page: Page) -> int:
    return int(page.locator(".scrub .at").inner_text().split("/")[0])


def folded(server: Server, id: str) -> list[tuple[str, dict[str, Any]]]:
    """The conversation and its variables after each event of the log, as the library folds them."""

    async def read() -> list[tuple[str, dict[str, Any]]]:
        log, found, states = open_log(Store(server.store)), [], dict[str, State]()
        for entry in await log.tree(id):
            state = states.setdefault(entry.conversation, State(entry.conversation))
            for index, event in enumerate(entry.events):
                fold_recorded(state, msgspec.structs.replace(entry, events=(event,), seq=entry.seq + index))
                found.append((entry.conversation, dict(state.variables)))
        await log.close()
        return found

    with ThreadPoolExecutor(1) as pool:  # Playwright's loop runs in this thread
        return pool.submit(lambda: asyncio.run(read())).result()


def shown_context(page: Page) -> dict[str, str]:
    found: dict[str, str] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#context tr')].map(row =>"
        " [row.querySelector('th bdi').textContent, row.querySelector('.val').textContent]))"
    )
    return found


def test_a_run_that_failed_says_why_in_full(person: Person):
    id = person.begin("Please fail once.")
    person.reads("The run failed.")
    page = person.open(f"/runs/{id}")
    expect(page.locator("#failed")).to_have_text("The run failed. Triage: the line is down.")
    expect(page.locator("#steps .other", has_text="Please fail once.").locator(".long")).to_have_text("")


def test_a_run_shows_its_facts_its_chain_and_how_long_each_step_took(person: Person, server: Server):
    page = run_of(person, ask(server))
    assert hops(page) == ["Triage", "Billing"]
    expect(page.locator(".hop.now")).to_contain_text("Billing")
    expect(page.locator("#status")).to_have_text("Waiting")
    for text in ("Worked", "Handoffs1", "Agents2", "Handoff latency", "1 of 100 handoffs", "3 of 500 turns"):
        expect(page.locator("#facts")).to_contain_text(text)
    expect(page.locator(".edge.transfer")).to_contain_text("charged twice")
    expect(row(page, "payments")).to_contain_text(re.compile(r"\d m?s"))
    expect(row(page, "routed to billing")).to_be_visible()
    expect(row(page, "may it call refund?")).to_contain_text("waiting")
    expect(page.locator("#context")).to_contain_text("order_id")
    expect(page.locator("#context tr", has_text="order_id").get_by_role("button")).to_contain_text("Triage hop 1")


def test_the_scrubber_shows_the_state_that_the_library_folds(person: Person, server: Server):
    id = begun(server, "Please check everything.")
    with server.client(None) as api:
        api.post(f"/conversations/{id}/messages", params={"wait": "true"}, json={"text": CHARGED})
    expected = folded(server, id)
    page = run_of(person, id)
    assert at(page) == len(expected) > 30
    for step in range(len(expected), 0, -1):
        assert at(page) == step
        conversation, variables = expected[step - 1]
        assert shown_context(page) == {name: _text(each) for name, each in variables.items()}, (step, conversation)
        page.keyboard.press("ArrowLeft")
    assert at(page) == 1
    expect(page.locator(".hop.later")).to_have_count(page.locator(".hop").count())
    page.keyboard.press("End")
    expect(page.locator(".hop.later")).to_have_count(0)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def test_the_run_plays_by_itself(person: Person, server: Server):
    page = run_of(person, begun(server, "Hello there."), step=1)
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.locator(".scrub .at")).to_contain_text("5 / 5")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    page.get_by_role("button", name="First step").click()
    assert at(page) == 1
    page.get_by_label("Step", exact=True).fill("2")
    assert at(page) == 3


def test_a_rejected_handoff_is_red_and_opens_by_keyboard(person: Person, server: Server):
    page = run_of(person, ask(server, "To the library."))
    edge = page.locator(".edge.bad")
    expect(edge).to_contain_text("Offer rejected")
    expect(edge).to_contain_text("the shelves are full")
    assert "dash" in edge.locator(".line").evaluate("e => getComputedStyle(e).strokeDasharray ? 'dash' : ''")
    expect(page.locator(".hop.ghost.rejected")).to_contain_text("Library")
    edge.focus()
    page.keyboard.press("Enter")
    inspector = page.get_by_role("complementary", name="Inspector")
    expect(inspector).to_be_focused()
    for text in ("Clerk", "Library", "Rejected after", "the shelves are full", "A book, please.", "REJECTED", "full"):
        expect(inspector).to_contain_text(text)
    expect(inspector.get_by_role("button", name="Roll this handoff back")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(inspector).to_be_hidden()


def test_the_inspector_shows_package_guards_strategy_and_states(person: Person, server: Server):
    page = run_of(person, ask(server))
    row(page, "routed to billing").get_by_role("button").click()
    inspector = page.locator("#inspector")
    for text in (
        *("handoff_to_billing", "Accepted after", "order_id", "1042", "Deadlock", "Circuit breaker", "allowed"),
        *("Context: in full", "tokens before", "tokens sent", "PENDING", "offered by Triage", "ACCEPTED", "by Billing"),
    ):
        expect(inspector).to_contain_text(text)
    expect(page.locator(".edge.chosen")).to_have_count(1)
    inspector.locator("summary", has_text="Raw").click()
    expect(inspector.locator(".rawbox pre")).to_contain_text('"handoff_offered"')
    inspector.get_by_role("button", name="PENDING").click()
    assert at(page) == 5


def test_what_a_model_was_sent_is_rebuilt_and_says_so(person: Person, server: Server):
    page = run_of(person, ask(server))
    page.get_by_role("button", name="Model", exact=True).click()
    page.locator("#steps > li").nth(1).get_by_role("button").click()
    inspector = page.locator("#inspector")
    expect(inspector).to_contain_text("Look before you pay.")
    box = inspector.locator(".promptbox")
    expect(box.locator("summary .pill").first).to_have_text("rebuilt")
    box.locator("summary").first.click()
    expect(box).to_contain_text("You look after order 1042.")
    expect(box).to_contain_text("2 tools")
    expect(box.locator(".sent")).to_contain_text(CHARGED)
    expect(box.locator(".notice")).to_have_count(0)


def test_the_timeline_is_filtered_and_shows_raw_events(person: Person, server: Server):
    page = run_of(person, ask(server))
    rows = page.locator("#steps > li")
    page.get_by_role("button", name="Tools", exact=True).click()
    expect(rows).to_have_count(1)
    rows.get_by_role("button").click()
    expect(page.locator("#inspector")).to_contain_text("pay_71 24.95 EUR")
    page.get_by_role("button", name="Errors", exact=True).click()
    expect(rows).to_have_text("Nothing of this kind happened in this run.")
    page.get_by_role("button", name="Raw events").click()
    expect(rows.first).to_contain_text("started")
    expect(rows).to_have_count(int(page.locator(".scrub .at").inner_text().split("/")[1].split()[0]))
    rows.nth(4).locator("summary").click()
    expect(rows.nth(4).locator("pre")).to_contain_text('"seq": 5')


def test_delegates_have_a_column_of_their_own_and_open_in_the_timeline(person: Person, server: Server):
    page = run_of(person, begun(server, "Please check everything."))
    expect(page.locator(".canvas .col", has_text="in parallel")).to_have_count(1)
    assert hops(page)[0] == hops(page)[-1] == "Triage"
    expect(page.locator(".edge.return")).to_have_count(3)
    twist = page.get_by_role("button", name="Steps of research").first
    expect(row(page, "look_up")).to_have_count(0)
    twist.click()
    expect(twist).to_be_focused()
    expect(twist).to_have_attribute("aria-expanded", "true")
    expect(row(page, "look_up")).to_have_count(1)


def test_fifty_delegates_sixty_hops_and_five_hundred_events_stay_usable(person: Person, server: Server):
    crowd = run_of(person, begun(server, "Bring a crowd."))
    expect(crowd.locator(".hop")).to_have_count(52)
    expect(crowd.locator(".canvas .col", has_text="50 in parallel")).to_be_visible()
    page = run_of(person, begun(server, "Play ping pong."))
    expect(page.locator(".hop")).to_have_count(61)
    assert page.locator("#chain").evaluate("e => e.scrollWidth > e.clientWidth && e.scrollLeft > 1000")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#chain")).to_have_js_property("scrollLeft", 0)
    page = run_of(person, begun(server, "Say it often."))
    assert at(page) >= 500
    page.keyboard.press("ArrowLeft")
    assert page.locator("#steps .now").evaluate(INSIDE)
    for earlier in (262, 142, 22):
        page.get_by_role("button", name=f"{earlier} earlier").click()
    expect(page.get_by_role("button", name=re.compile("earlier"))).to_have_count(0)
    expect(page.get_by_role("button", name="262 later")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    assert page.locator("#steps .now").evaluate(INSIDE)


def test_a_run_that_is_under_way_grows_by_itself(person: Person, server: Server):
    id = begun(server, "Hello there.")
    page = run_of(person, id)
    assert hops(page) == ["Triage"]
    with server.client(None) as api:
        api.post(f"/conversations/{id}/messages", json={"text": CHARGED})
    expect(page.locator(".hop .name")).to_have_text(["Triage", "Triage", "Billing"])
    expect(page.locator("#status")).to_have_text("Waiting")
    page.get_by_role("button", name="First step").click()
    with server.client(None) as api:
        [request] = [each for each in api.get("/approvals").json()["items"] if each["conversation"] == id]
        api.post(f"/approvals/{request['id']}/decision", json={"decision": {"type": "approve"}}).raise_for_status()
    expect(page.locator("#status")).to_have_text("Completed")
    assert at(page) == 1


def test_a_run_is_cancelled(person: Person, server: Server):
    page = run_of(person, ask(server))
    page.get_by_role("button", name="Cancel run").click()
    expect(page.locator("#status")).to_have_text("Cancelled")
    expect(page.get_by_role("button", name="Cancel run")).to_be_hidden()
    expect(row(page, "run cancelled")).to_be_visible()


def test_a_handoff_is_rolled_back(person: Person, server: Server):
    id = ask(server)
    page = run_of(person, id)
    page.locator(".edge.transfer .why").click()
    inspector = page.locator("#inspector")
    inspector.locator("summary", has_text="Roll back").click()
    inspector.get_by_label("Reason").fill("wrong desk")
    inspector.get_by_role("button", name="Roll this handoff back").click()
    expect(page.locator(".edge.rollback")).to_have_count(1)
    expect(inspector).to_contain_text("rolled back")
    expect(row(page, "gives back to triage: wrong desk")).to_be_visible()
    with server.client(None) as api:
        until(lambda: api.get(f"/conversations/{id}").json()["agent"] == "triage")


def test_a_run_is_exported(person: Person, server: Server):
    id = begun(server, "Hello there.")
    page = run_of(person, id)
    with page.expect_download() as saved:
        page.get_by_role("link", name="Export").click()
    assert json.loads(saved.value.path().read_bytes())["conversation"]["id"] == id


def test_the_list_leads_to_the_run_and_the_run_to_the_chat(person: Person, server: Server):
    begun(server, "Nineteen kites.")
    page = person.open("/runs?q=nineteen")
    page.locator("tbody tr").get_by_role("link").click()
    expect(page.locator("#title")).to_have_text("Nineteen kites.")
    expect(page.locator("nav [aria-current]")).to_have_text("Runs")
    page.get_by_role("link", name="Open chat").click()
    person.reads("Nineteen kites.")
    page.get_by_role("link", name="Open run").click()
    expect(page.locator("#title")).to_have_text("Nineteen kites.")


def test_a_run_that_does_not_exist_says_so(person: Person):
    page = run_of(person, "nowhere")
    expect(page.locator("#problem")).to_contain_text("There is no such run")
    page.get_by_role("link", name="All runs").click()
    expect(page).to_have_url(re.compile("/runs$"))


def test_a_run_page_that_loses_the_server_says_so(person: Person, server: Server, context: BrowserContext):
    page = run_of(person, begun(server, "Hello there."))
    context.set_offline(True)
    page.evaluate("dispatchEvent(new Event('offline'))")
    expect(page.locator("#banner")).to_contain_text("offline")
    context.set_offline(False)
