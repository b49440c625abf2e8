"""The list of runs."""

from __future__ import annotations

from playwright.sync_api import Route, expect

from tests.server.process import Server
from tests.ui.people import Person


def begun(server: Server, text: str) -> str:
    with server.client(None) as api:
        said = api.post("/conversations", params={"wait": "true"}, json={"text": text})
        id: str = said.raise_for_status().json()["conversation"]
        return id


def test_new_runs_appear_by_themselves(person: Person, server: Server):
    page = person.open("/runs")
    page.wait_for_selector("#list:not([aria-busy])")
    begun(server, "A lantern that comes later.")
    row = page.locator("tbody tr").first
    expect(row).to_contain_text("A lantern that comes later")
    expect(row).to_contain_text("Completed")
    row.get_by_role("link").click()
    expect(page.get_by_text("A lantern that comes later.").first).to_be_visible()


def test_runs_are_filtered_by_text_agent_and_status(person: Person, server: Server):
    begun(server, "Fourteen lanterns, please.")
    begun(server, "Fourteen lanterns and one fault: fail once.")
    page = person.open("/runs")
    rows = page.locator("tbody tr")
    page.get_by_label("Text in the title").fill("fourteen lanterns")
    expect(rows).to_have_count(2)
    page.get_by_label("Status").select_option(label="Failed")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("one fault")
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_label("Agent").select_option(label="Billing")
    expect(page.locator("#list")).to_contain_text("No run fits these filters")
    page.get_by_role("button", name="Show all").click()
    expect(rows.first).to_be_visible()


def test_runs_are_filtered_by_time(person: Person, server: Server):
    def aged(route: Route) -> None:
        """Answer as if one of the two runs had changed a day and a half ago."""
        answer = route.fetch()
        found = answer.json()
        for each in found["items"]:
            each["updated_at"] -= 130_000 if "old" in each["title"] else 0
        route.fulfill(response=answer, json=found)

    begun(server, "Sixteen balloons, new.")
    begun(server, "Sixteen balloons, old.")
    person.page.route("**/api/v1/conversations?*", aged)
    page = person.open("/runs?q=sixteen")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_label("Since").select_option(label="24 hours")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("new")
    page.get_by_label("Since").select_option(label="7 days")
    expect(rows).to_have_count(2)
