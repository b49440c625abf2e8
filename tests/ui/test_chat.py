"""The chat in a real browser: who answers, handoffs, delegates, tools, requests to people, files, the list."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, FilePayload, expect

from tests.server.process import Server
from tests.ui.desk import FORMS
from tests.ui.people import Person

CHARGED = "I was charged twice for order 1042."


def test_a_handoff_shows_who_takes_over_why_and_with_what(person: Person):
    person.begin(CHARGED)
    chip = person.page.locator("details.hand")
    expect(chip).to_contain_text("Routed to Billing")
    expect(chip).to_contain_text("charged twice")
    expect(chip).to_contain_text("2 variables")
    chip.locator("summary").click()
    for text in ("order_id", "1042", "Full context", "tokens", "handoff_to_billing"):
        expect(chip).to_contain_text(text)
    expect(person.page.locator("#now")).to_have_text(re.compile("Waiting for a decision: ?Billing"))
    expect(person.page.locator("#team .on")).to_contain_text("Billing")
    expect(person.page.locator("#context tr.new")).to_have_count(2)


def test_thoughts_and_tools_are_quiet_lines_that_open(person: Person):
    person.begin(CHARGED)
    thought, tool = person.page.locator(".step", has_text="Thought"), person.page.locator(".step", has_text="payments")
    expect(tool).to_contain_text(re.compile(r"\d ms|\d s"))
    expect(thought.get_by_text("Look before you pay.")).to_be_hidden()
    thought.locator("summary").click()
    expect(thought.get_by_text("Look before you pay.")).to_be_visible()
    tool.locator("summary").press("Enter")
    expect(tool).to_contain_text("pay_71 24.95 EUR")


def test_an_approved_call_goes_on_and_its_answer_is_markdown(person: Person):
    person.begin(CHARGED)
    expect(person.request()).to_contain_text("pay_72")
    person.request().get_by_role("button", name="Approve").click()
    person.done()
    expect(person.page.locator(".ask.done")).to_contain_text("Approved")
    answer = person.page.locator(".msg").last
    expect(answer.locator("ol li")).to_have_count(2)
    expect(answer.locator("td")).to_have_text(["pay_72", "24.95"])
    expect(answer.locator("pre")).to_have_text('print("<b>no HTML</b>")')
    expect(answer.get_by_role("link", name="the terms")).to_have_attribute("rel", re.compile("noopener"))
    assert [kind.split()[0] for kind, _ in person.items()] == [
        *("me", "msg", "hand", "step", "step", "msg", "ask", "step", "msg"),
    ]


def test_arguments_can_be_changed_before_the_call(person: Person):
    person.begin(CHARGED)
    person.request().get_by_role("button", name="Edit arguments").click()
    amount = person.request().get_by_label("amount")
    amount.fill("twelve")
    person.request().get_by_role("button", name="Approve with 1 change").click()
    expect(amount).to_have_attribute("aria-invalid", "true")
    amount.fill("12.5")
    expect(person.request()).to_contain_text("was 24.95")
    person.request().get_by_role("button", name="Approve with 1 change").click()
    person.done()
    expect(person.page.locator(".ask.done s")).to_have_text("24.95")
    person.page.locator(".step", has_text="refund").locator("summary").click()
    person.reads("12.50 EUR of pay_72 sent back")


def test_a_request_is_rejected_with_a_note(person: Person):
    person.begin(CHARGED)
    person.request().get_by_role("button", name="Reject").click()
    person.request().get_by_label("Note").fill("Not without a receipt")
    person.request().get_by_role("button", name="Reject").click()
    person.done()
    expect(person.page.locator(".ask.done")).to_contain_text(re.compile("Rejected.*: Not without a receipt"))


def test_a_handoff_that_needs_approval_is_given_to_another_agent(person: Person):
    person.begin("Please close my account.")
    expect(person.request()).to_contain_text("Triage wants to hand over to Manager")
    person.request().get_by_label("Hand on to").select_option(label="Research")
    expect(person.page.locator("details.hand")).to_contain_text("Routed to Research")
    person.done()


def test_delegates_nest_and_show_their_progress(person: Person):
    person.begin("Please check everything slowly.")
    card = person.page.locator("#log > .deleg")
    expect(card).to_contain_text("2 delegates in parallel")
    expect(card).to_contain_text("0 of 2 back")
    expect(card.locator(".step.live").first).to_contain_text("running")
    expect(person.page.locator("#team")).to_contain_text("working, 2")
    expect(card).to_contain_text("1 of 2 back")
    inner = card.locator(".deleg")
    expect(inner).to_contain_text("1 delegate")
    person.done()
    expect(card.locator("header").first).to_contain_text("all back")
    expect(card).to_contain_text("It was sent twice.")


def test_fifty_delegates_stay_readable(person: Person):
    person.begin("Bring a crowd.")
    card = person.page.locator("#log > .deleg")
    expect(card).to_contain_text("50 delegates in parallel")
    person.done()
    expect(card.locator("header")).to_contain_text("all back")
    expect(card.locator(":scope > ul > li")).to_have_count(12)
    expect(card.get_by_text("38 more delegates")).to_be_visible()


def test_an_answer_appears_while_it_is_written(person: Person):
    person.begin("Tell me slowly.")
    live = person.page.locator(".msg.live")
    expect(live).to_contain_text("One word after")
    expect(person.page.locator("#now")).to_have_text(re.compile("Now answering: ?Triage"))
    assert len(live.inner_text()) < 400
    person.done()
    expect(live).to_have_count(0)
    assert person.log.inner_text().count("One word after another") == 6


def test_a_run_is_stopped(person: Person):
    person.begin("Please check everything slowly.")
    expect(person.page.locator(".step.live").first).to_be_visible()
    person.page.get_by_role("button", name="Stop").click()
    person.reads("Stopped")
    person.done()
    expect(person.page.locator(".step.live")).to_have_count(0)


def test_a_failed_step_is_tried_again(person: Person):
    person.begin("Please fail once.")
    person.reads("The run failed. Triage: the line is down")
    person.page.get_by_role("button", name="Retry the failed step").click()
    person.reads("Here again.")
    person.done()
    expect(person.page.get_by_role("button", name="Retry the failed step")).to_have_count(0)


def test_the_first_agent_can_be_chosen(person: Person):
    person.open("/chat")
    person.page.locator(".choice", has_text="Research").click()
    person.say("Anything about refunds?")
    person.reads("The book says")
    expect(person.page.locator(".msg .who").first).to_contain_text("Research")


def test_two_browsers_read_and_write_one_conversation(person: Person, server: Server, browser: Browser):
    id = person.begin("Hello there.")
    other = Person(browser.new_page(), server.url)
    other.open(f"/chat/{id}")
    other.reads("Hello.")
    other.say("Hello from the other side.")
    person.reads("Hello from the other side.")
    person.say(CHARGED)
    other.reads("Routed to Billing")
    other.request().get_by_role("button", name="Approve").click()
    for each in (person, other):
        each.done()
        each.reads("are on their way")
    assert person.items() == other.items()
    other.page.close()


def test_work_that_comes_from_elsewhere_appears_by_itself(person: Person, server: Server):
    id = person.begin("Hello there.")
    person.done()
    with server.client(None) as api:
        api.post(f"/conversations/{id}/messages", json={"text": CHARGED}).raise_for_status()
    person.reads("Routed to Billing")


def test_keys_reach_what_is_used_most(person: Person):
    person.begin("Hello there.")
    person.done()
    page = person.page
    page.locator("#scroll").focus()
    page.keyboard.press("/")
    expect(page.get_by_label("Message the team")).to_be_focused()
    page.locator("#scroll").focus()
    page.keyboard.press("?")
    shortcuts = page.get_by_role("dialog", name="Shortcuts")
    expect(shortcuts).to_contain_text("Write a message")
    page.keyboard.press("Escape")
    expect(shortcuts).to_have_count(0)
    page.keyboard.press("l")
    expect(page.get_by_role("dialog", name="Conversations")).to_be_visible()


def test_a_conversation_that_does_not_exist_says_so(person: Person):
    person.open("/chat/nowhere")
    person.reads("There is no such conversation")
    person.page.get_by_role("link", name="Begin a new conversation").click()
    person.reads("What shall the team do?")


def test_files_go_in_and_come_out(person: Person):
    person.open("/chat")
    order: FilePayload = {"name": "order.txt", "mimeType": "text/plain", "buffer": b"1042"}
    other: FilePayload = {"name": "other.txt", "mimeType": "text/plain", "buffer": b"1077"}
    person.page.wait_for_selector("#log:not([aria-busy])")  # until then nobody hears of the files
    person.page.locator("#files").set_input_files([order, other])
    person.page.get_by_role("button", name="Remove other.txt").click()
    expect(person.page.locator("#attached li")).to_have_count(1)
    person.say("Hello with a file.")
    person.done()
    with person.page.expect_download() as saved:
        person.page.locator(".me").get_by_role("link", name="order.txt").click()
    assert saved.value.path().read_bytes() == b"1042"


def test_a_file_that_a_tool_returns_is_saved(person: Person):
    person.begin("Please give me a form.")
    person.done()
    step = person.page.locator(".step", has_text="read_skill_file")
    step.locator("summary").click()
    with person.page.expect_download() as saved:
        step.get_by_role("link", name="form.png").click()
    assert saved.value.path().read_bytes() == (FORMS / "form.png").read_bytes()


def test_conversations_have_titles_and_are_found_and_renamed(person: Person):
    id = person.begin("A question about seventeen umbrellas.")
    person.done()
    expect(person.page.locator("#title")).to_contain_text("seventeen umbrellas")
    person.page.locator("body").press("Escape")
    person.page.get_by_role("button", name="A question about").click()
    list = person.page.get_by_role("dialog", name="Conversations")
    list.get_by_label("Search titles").fill("seventeen")
    expect(list.locator("li")).to_have_count(1)
    list.get_by_role("button", name="Rename").click()
    list.get_by_label("New title").fill("Umbrellas")
    list.get_by_role("button", name="Save").click()
    expect(list.get_by_role("link", name="Umbrellas")).to_have_attribute("href", re.compile(re.escape(id)))
    list.get_by_role("button", name="Close").click()
    expect(person.page.locator("#title")).to_have_text("Umbrellas")
