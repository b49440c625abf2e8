"""Briefings as templates: parts go in as they are, empty paragraphs go out, faults are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.handoffs.template import CUT, quoted, render, template_faults

TEMPLATE = """\
You take over from {sender}.

Your task:
{task}

What the user said:
{request}

Be kind."""


def test_parts_stand_where_they_are_named():
    told = render(TEMPLATE, {"sender": "triage", "task": "Refund it.", "request": "> I was charged twice"})
    assert told == (
        "You take over from triage.\n\nYour task:\nRefund it.\n\nWhat the user said:\n> I was charged twice\n\nBe kind."
    )


@pytest.mark.parametrize("empty", ["", " ", "\n\n", "\t"])
def test_a_paragraph_whose_parts_are_all_empty_is_left_out(empty: str):
    told = render(TEMPLATE, {"sender": "triage", "task": empty, "request": "Hello"})
    assert told == "You take over from triage.\n\nWhat the user said:\nHello\n\nBe kind."


def test_a_part_that_there_is_not_is_empty():
    assert render(TEMPLATE, {"task": "Refund it."}) == "Your task:\nRefund it.\n\nBe kind."


def test_a_paragraph_stays_if_one_of_its_parts_is_not_empty():
    assert render("{a} and {b}\n\n{c}", {"a": "", "b": "x", "c": ""}) == " and x"


def test_a_paragraph_without_parts_stays():
    assert render("Title\n\n{a}\n\nThe end", {"a": ""}) == "Title\n\nThe end"


def test_double_braces_are_braces_and_no_parts():
    assert render('Answer as {{"ok": true}}\n\n{{a}} {{{a}}}', {"a": "x"}) == 'Answer as {"ok": true}\n\n{a} {x}'
    assert render("Only {{a}} here", {"a": ""}) == "Only {a} here"


def test_lines_that_look_blank_are_blank():
    assert render("\n \n  first {a}\n \t\n\n\nsecond {b}\r\n\r\nthird\n\n", {"a": "1", "b": "2"}) == (
        "  first 1\n\nsecond 2\r\n\nthird"
    )


@pytest.mark.parametrize("template", ["", "\n\n", "  \n  "])
def test_an_empty_template_is_an_empty_text(template: str):
    assert render(template, {"a": "x"}) == ""


def test_braces_that_are_nobodys_stay_as_they_are():
    assert render("{ a } b { c\n} }", {"a": "x", " a ": "y"}) == "y b { c\n} }"


PARTS = st.lists(
    st.sampled_from(
        ["{task}", "{", "}", "{{", "}}", "\n\n", "\n", "> ", "Your task:", "Be kind.", "$1", "\\1", "\\g<0>"]
    )
    | st.text(max_size=5),
    min_size=1,
).map("".join)


@given(PARTS, PARTS)
def test_what_is_put_in_comes_out_as_it_is_and_changes_nothing_else(task: str, request: str):
    told = render(TEMPLATE, {"sender": "triage", "task": f"x{task}", "request": f"x{request}"})
    assert told == (f"You take over from triage.\n\nYour task:\nx{task}\n\nWhat the user said:\nx{request}\n\nBe kind.")


@given(st.text(st.sampled_from("{}ab \n"), max_size=30))
def test_any_template_can_be_rendered_and_without_faults_only_braces_that_are_meant_are_left(template: str):
    rendered = render(template, {"a": "", "b": "", "ab": ""})
    if not template_faults(template, {"a", "b", "ab"}):
        assert rendered.count("{") <= template.count("{{")
        assert rendered.count("}") <= template.count("}}")


KNOWN = ("sender", "task", "request", "recent_messages")


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("Hello\n{tasks}", "no part is called 'tasks' (line 2); did you mean 'task'?"),
        ("{recent_mesages}", "no part is called 'recent_mesages' (line 1); did you mean 'recent_messages'?"),
        ("{Task}", "no part is called 'Task' (line 1); did you mean 'task'?"),
        ("{ task }", "no part is called ' task ' (line 1); did you mean 'task'?"),
        ("{zzz}", "no part is called 'zzz' (line 1); there are: recent_messages, request, sender, task"),
        ("{}", "no part is called '' (line 1); there are: recent_messages, request, sender, task"),
        ("{task", "the '{' in line 1 is not closed; a brace that is meant as such is written '{{'"),
        ("a\nb}", "the '}' in line 2 closes nothing; a brace that is meant as such is written '}}'"),
        ("{task\n}x", "the '{' in line 1 is not closed; a brace that is meant as such is written '{{'"),
    ],
)
def test_what_is_wrong_with_a_template_is_named_with_its_line(template: str, fault: str):
    assert template_faults(template, KNOWN)[0] == fault


def test_every_fault_is_named():
    assert len(template_faults("{a} {task}\n{b {{c}} }", KNOWN)) == 3


def test_a_good_template_has_no_faults():
    assert template_faults(TEMPLATE, KNOWN) == []
    assert template_faults('{{"json": {task}}}', KNOWN) == []


LINES = st.text(st.sampled_from("ab> {}\n\r\x0b\x0c\x1c\x85\u2028\u2029"))


@given(LINES)
def test_every_line_of_a_quotation_is_marked_whatever_ends_a_line(text: str):
    assert all(line.startswith("> ") for line in quoted(text, 100).splitlines())


@given(LINES)
def test_a_quotation_can_be_read_back(text: str):
    assert [line[2:] for line in quoted(f"x{text}", 100_000).split("\n")] == f"x{text}".splitlines()


def test_a_long_text_is_cut_and_the_cut_is_marked():
    assert quoted("x" * 100, 10) == f"> {'x' * 10}{CUT}"
    assert quoted("x" * 10, 10) == f"> {'x' * 10}"


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\u2028"])
def test_nothing_is_quoted_as_nothing(text: str):
    assert quoted(text, 10) == ""
