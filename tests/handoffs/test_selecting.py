"""Selectors: what a strategy shows or leaves out by name."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.handoffs.selecting import select_messages, select_variables, selector_faults
from changeover.messages import Assistant, Call, Message, Note, ToolResult, User, View

USER = User("hello")
ANA = User("me too", author="ana@example.org")
TRIAGE = Assistant("triage", "looking", calls=(Call("c1", "lookup"), Call("c2", "search")))
LOOKUP = ToolResult("c1", "lookup", "triage", "found")
SEARCH = ToolResult("c2", "search", "triage", "found more")
BILLING = Assistant("billing", "paying", calls=(Call("c3", "lookup"),))
AGAIN = ToolResult("c3", "lookup", "billing", "found again")
NOTE = Note("billing took over")
TALK: list[Message] = [USER, ANA, TRIAGE, LOOKUP, SEARCH, BILLING, AGAIN, NOTE]


@pytest.mark.parametrize(
    ("include", "exclude", "shown"),
    [
        (["tool:lookup"], [], [USER, ANA, TRIAGE, LOOKUP, BILLING, AGAIN, NOTE]),
        ([], ["tool:lookup"], [USER, ANA, TRIAGE, SEARCH, BILLING, NOTE]),
        (["author:user"], [], [USER]),
        (["author:user", "author:ana*"], [], [USER, ANA]),
        ([], ["author:triage"], [USER, ANA, BILLING, AGAIN, NOTE]),
        ([], ["author:changeover"], [USER, ANA, TRIAGE, LOOKUP, SEARCH, BILLING, AGAIN]),
        (["author:triage"], ["tool:*"], [TRIAGE]),
        (["author:billing", "tool:lookup"], [], [BILLING, AGAIN]),
        (["tool:s?arch"], [], [USER, ANA, TRIAGE, SEARCH, BILLING, NOTE]),
        (["tool:lookup"], ["tool:look*"], [USER, ANA, TRIAGE, BILLING, NOTE]),
        ([], ["author:lookup"], TALK),
        (["variable:x"], ["variable:y"], TALK),
        (["tool:LOOKUP"], [], [USER, ANA, TRIAGE, BILLING, NOTE]),
    ],
)
def test_messages_are_shown_by_who_speaks_and_which_tool_answers(
    include: list[str], exclude: list[str], shown: list[Message]
):
    assert select_messages(TALK, include, exclude) == shown


def test_a_call_stays_where_its_result_is_left_out():
    assert TRIAGE in select_messages(TALK, [], ["tool:*"])


@pytest.mark.parametrize(
    ("include", "exclude", "shown"),
    [
        (["variable:order"], [], {"order": 1}),
        (["variable:card_*"], [], {"card_no": 2, "card_pin": 3}),
        ([], ["variable:card_*"], {"order": 1, "a[0]": 4}),
        (["variable:*"], ["variable:card_pin"], {"order": 1, "card_no": 2, "a[0]": 4}),
        (["variable:a[0]"], [], {"a[0]": 4}),
        (["variable:nothing"], [], {}),
    ],
)
def test_variables_are_shown_by_their_names(include: list[str], exclude: list[str], shown: dict[str, int]):
    assert select_variables({"order": 1, "card_no": 2, "card_pin": 3, "a[0]": 4}, include, exclude) == shown


@pytest.mark.parametrize(
    ("include", "exclude"), [([], []), (["author:*", "tool:*", "variable:*"], []), ([], ["tool:x", "variable:y"])]
)
def test_nothing_is_copied_if_nothing_is_left_out(include: list[str], exclude: list[str]):
    variables = {"order": 1}
    view: Sequence[Message] = View(TALK)
    assert select_messages(view, include, exclude) is view
    assert select_variables(variables, include, exclude) is variables


NAMES = ["a", "ab", "b", "user", "*", "a*", "?"]
SELECTORS = st.lists(st.builds("{}:{}".format, st.sampled_from(["author", "tool"]), st.sampled_from(NAMES)), max_size=4)
TALKS = st.lists(
    st.sampled_from(NAMES[:4]).flatmap(
        lambda name: st.sampled_from(
            [User("x", name), Assistant(name), ToolResult("c", name, "a", "x"), Note("x", name)]
        )
    ),
    max_size=10,
)


@given(TALKS, SELECTORS, SELECTORS)
def test_what_is_excluded_is_never_shown_whatever_is_included(
    talk: list[Message], include: list[str], exclude: list[str]
):
    shown = select_messages(talk, include, exclude)
    assert [each for each in shown if each in select_messages(talk, [], exclude)] == list(shown)
    assert list(select_messages(shown, include, exclude)) == list(shown)


@pytest.mark.parametrize(
    ("include", "said"),
    [
        (["tools:lookup"], "include has 'tools:lookup', did you mean 'tool:lookup'?"),
        (["lookup"], "include has 'lookup', which selects nothing"),
        (["agent:x"], "include has 'agent:x', which selects nothing"),
        (["tool:"], "include has 'tool:', which names nothing"),
        (["variable: "], "include has 'variable: ', which names nothing"),
        ([7], "include has 7, which is no text"),
        ("tool:lookup", "include is 'tool:lookup', and not a list of selectors"),
        (None, "include is None, and not a list of selectors"),
    ],
)
def test_what_is_wrong_with_a_selector_is_said_with_what_is_allowed(include: Any, said: str):
    (fault,) = selector_faults(include, ())
    assert fault.startswith(said)
    assert "'variable:NAME', 'tool:NAME' or 'author:NAME'" in fault
    assert selector_faults((), include) == [fault.replace("include", "exclude", 1)]


def test_good_selectors_have_no_faults():
    assert selector_faults(["tool:*", "variable:card_?"], ("author:triage", "author:a:b")) == []
