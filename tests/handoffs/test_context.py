"""Context variables: merged, kept apart from metadata, and shown as data that cannot break out."""

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from changeover.facts import Handed
from changeover.handoffs.context import METADATA, briefed, fence, merge_variables, strip_metadata

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
