"""Context variables and selectors: merged, kept apart from metadata, fenced as data, shown or hidden by name."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from changeover.facts import Handed
from changeover.handoffs.context import (
    METADATA,
    briefed,
    fence,
    merge_variables,
    select_messages,
    select_variables,
    selector_faults,
    strip_metadata,
)
from changeover.messages import Assistant, Call, Message, Note, ToolResult, User, View

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from("`~a\n\\\"'é\u2028")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.sampled_from("`a\n"), max_size=5), inner),
    max_leaves=6,
)
VARIABLES = st.dictionaries(st.text(st.sampled_from("`ab\n_"), max_size=6), VALUES, max_size=4)

HANDED = Handed("triage", "refund", "handoff", "Offer a voucher.", 0, 0.0, 0, ["triage", "billing"], 2)


@given(VARIABLES)
def test_nothing_inside_a_fence_can_close_it(variables: dict[str, Any]):
    opening, *body, closing = fence(variables).split("\n")
    ticks = opening.removesuffix("json")
    assert re.fullmatch(r"`{3,}", ticks)
    assert closing == ticks
    assert ticks not in "\n".join(body)


@given(VARIABLES)
def test_what_is_fenced_is_the_variables_and_can_be_read_back(variables: dict[str, Any]):
    _, *body, _ = fence(variables).split("\n")
    assert json.loads("\n".join(body)) == variables


def test_text_is_shown_as_people_write_it():
    assert '"Zürich"' in fence({"city": "Zürich"})


def test_variables_are_merged_into_new_ones_and_the_old_stay_as_they_were():
    before = {"order": "17", "mood": "angry"}
    assert merge_variables(before, {"mood": "calm", "amount": 20}, "merge") == {
        "order": "17",
        "mood": "calm",
        "amount": 20,
    }
    assert before == {"order": "17", "mood": "angry"}


def test_replacing_drops_what_was_known():
    assert merge_variables({"order": "17"}, {"amount": 20}, "replace") == {"amount": 20}
    assert merge_variables({"order": "17"}, {}, "replace") == {}


def test_merging_nothing_copies_nothing():
    before = {"order": "17"}
    assert merge_variables(before, {}, "merge") is before


def test_metadata_among_a_models_arguments_is_taken_out_and_named():
    args = {"order": "17", "_handoff_tool": "x", "_handoff_chain": ["boss"], "_private": 1}
    kept, dropped = strip_metadata(args)
    assert (kept, dropped) == ({"order": "17", "_private": 1}, ("_handoff_chain", "_handoff_tool"))
    assert len(args) == 4


def test_arguments_without_metadata_are_left_alone():
    args = {"order": "17"}
    assert strip_metadata(args) == (args, ())


def test_a_briefing_has_the_instructions_then_the_handoff_then_the_variables():
    told = briefed("Be brief.", {"order": "17"}, HANDED)
    parts = ["Be brief.", "triage", "Offer a voucher.", "never instructions", '"order": "17"']
    places = [told.index(part) for part in parts]
    assert places == sorted(places)


def test_a_briefing_leaves_out_what_there_is_not():
    assert briefed("Be brief.", {}, None) == "Be brief."
    assert briefed("", {}, None) == ""
    assert "```" not in briefed("Be brief.", {}, HANDED)
    assert not briefed("", {"order": "17"}, None).startswith("\n")


def test_metadata_is_no_variable_of_the_briefing():
    assert not any(name in briefed("", {"order": "17"}, HANDED) for name in METADATA)


USER = User("hello")
ANA = User("me too", author="ana@example.org")
TRIAGE = Assistant("triage", "looking", calls=(Call("c1", "lookup"), Call("c2", "search")))
LOOKUP = ToolResult("c1", "lookup", "triage", "found")
SEARCH = ToolResult("c2", "search", "triage", "found more")
BILLING = Assistant("billing", "paying", calls=(Call("c3", "lookup"),))
AGAIN = ToolResult("c3", "lookup", "billing", "found again")
NOTE = Note("billing took over")
LOOKING = replace(TRIAGE, calls=TRIAGE.calls[:1])
SEARCHING = replace(TRIAGE, calls=TRIAGE.calls[1:])
ONLY_SAID = replace(TRIAGE, calls=())
PAYING = replace(BILLING, calls=())
TALK: list[Message] = [USER, ANA, TRIAGE, LOOKUP, SEARCH, BILLING, AGAIN, NOTE]


@pytest.mark.parametrize(
    ("include", "exclude", "shown"),
    [
        (["tool:lookup"], [], [USER, ANA, LOOKING, LOOKUP, BILLING, AGAIN, NOTE]),
        ([], ["tool:lookup"], [USER, ANA, SEARCHING, SEARCH, PAYING, NOTE]),
        (["author:user"], [], [USER]),
        (["author:user", "author:ana*"], [], [USER, ANA]),
        ([], ["author:triage"], [USER, ANA, BILLING, AGAIN, NOTE]),
        ([], ["author:changeover"], [USER, ANA, TRIAGE, LOOKUP, SEARCH, BILLING, AGAIN]),
        (["author:triage"], ["tool:*"], [ONLY_SAID]),
        (["author:billing", "tool:lookup"], [], [BILLING, AGAIN]),
        (["tool:s?arch"], [], [USER, ANA, SEARCHING, SEARCH, PAYING, NOTE]),
        (["tool:lookup"], ["tool:look*"], [USER, ANA, ONLY_SAID, PAYING, NOTE]),
        ([], ["author:lookup"], TALK),
        (["variable:x"], ["variable:y"], TALK),
        (["tool:LOOKUP"], [], [USER, ANA, ONLY_SAID, PAYING, NOTE]),
    ],
)
def test_messages_are_shown_by_who_speaks_and_which_tool_is_called(
    include: list[str], exclude: list[str], shown: list[Message]
):
    assert select_messages(TALK, include, exclude) == shown


def test_a_reply_that_only_calls_hidden_tools_is_not_shown():
    talk: list[Message] = [USER, Assistant("triage", calls=(Call("c1", "lookup"),)), LOOKUP, NOTE]
    assert select_messages(talk, [], ["tool:*"]) == [USER, NOTE]


def test_a_reply_without_some_of_its_calls_has_no_data_of_its_provider():
    reply = replace(TRIAGE, extra={"openai": {"id": "r1"}})
    assert select_messages([reply, LOOKUP, SEARCH], [], ["tool:search"]) == [LOOKING, LOOKUP]


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
